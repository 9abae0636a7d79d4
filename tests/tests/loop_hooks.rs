//! Hooks, which run once an iteration, and `LoopLocal`, state that is split by loop.

mod loop_support;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, Hook, LoopLocal, LoopManager};
use loop_support::{HANG, Log, join, loops, run, run_one, shutdown};

/// Shows Q1.
#[test]
fn every_callback_runs_between_a_check_and_the_prepare_that_follows_it() {
    run_one(|event_loop| {
        let inside: Rc<Cell<bool>> = Rc::default();
        let (begins, ends) = (inside.clone(), inside.clone());
        let mut ended = 0;
        event_loop.check(move |_| assert!(!begins.replace(true), "the iteration before has ended")).detach();
        event_loop
            .prepare(move |_| {
                // The first one comes without a check: the hooks are made in the middle of an iteration.
                assert!(ends.replace(false) || ended == 0);
                ended += 1;
            })
            .detach();
        let in_timer = inside.clone();
        let mut rounds = 0;
        let timer = event_loop.timer(move |event_loop, _| {
            assert!(in_timer.get());
            let in_job = in_timer.clone();
            let job = event_loop.job(move |event_loop| {
                assert!(in_job.get());
                let in_done = in_job.clone();
                let work = event_loop.work(fuchsine_dispatcher::Lane::Fast, || {}, move |_, _| assert!(in_done.get()));
                assert!(work.is_ok());
            });
            job.arm().unwrap();
            job.detach();
            rounds += 1;
            if rounds == 10 {
                shutdown(event_loop);
            }
        });
        timer.ticker(Duration::from_micros(300)).unwrap();
        timer.detach();
    });
}

#[test]
fn hooks_of_a_kind_run_in_order_once_an_iteration_and_a_new_one_from_the_next_on() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let (first, second, last) = (entries.clone(), entries.clone(), entries.clone());
        let mut rounds = 0;
        let one = event_loop.prepare(move |event_loop| {
            first.add("one");
            rounds += 1;
            if rounds == 1 {
                let third = first.clone();
                event_loop.prepare(move |_| third.add("three")).detach();
            }
            if rounds == 3 {
                shutdown(event_loop);
            }
        });
        one.detach();
        event_loop.prepare(move |_| second.add("two")).detach();
        // Keeps the iterations coming.
        event_loop.idle(move |_| last.add("idle")).detach();
    });
    assert!(log.text().starts_with("idle one two idle one two three idle one two three"), "{}", log.text());
}

#[test]
fn an_idle_hook_keeps_the_loop_from_sleeping_until_it_is_dropped_and_not_from_ending() {
    run_one(|event_loop| {
        let own: Rc<RefCell<Option<Hook>>> = Rc::default();
        let kept = own.clone();
        let mut rounds = 0;
        // Nothing else happens in this loop: without the hook it would sleep forever.
        let hook = event_loop.idle(move |event_loop| {
            rounds += 1;
            if rounds == 100 {
                // Its own hook, from within.
                drop(kept.borrow_mut().take());
                // One that stays does not keep the loop from ending.
                event_loop.idle(|_| {}).detach();
                shutdown(event_loop);
            }
            assert!(rounds <= 100, "it was dropped");
        });
        *own.borrow_mut() = Some(hook);
    });
}

#[test]
fn a_hook_that_panics_is_reported_and_stays() {
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = rounds.clone();
    let summary = run(loops(1).setup(0, move |event_loop| {
        event_loop
            .idle(move |event_loop| {
                if counted.fetch_add(1, Ordering::Relaxed) == 2 {
                    shutdown(event_loop);
                }
                panic!("on purpose");
            })
            .detach();
    }));
    assert!(summary.panics() >= 3 && rounds.load(Ordering::Relaxed) >= 3);
}

#[test]
fn what_a_hook_captured_goes_when_the_hook_goes_or_the_loop_ends() {
    let value = Arc::new(());
    let (in_dropped, in_detached) = (value.clone(), value.clone());
    let seen = value.clone();
    run_one(move |event_loop| {
        let hook = event_loop.check(move |_| assert!(Arc::strong_count(&in_dropped) > 0));
        drop(hook);
        assert_eq!(Arc::strong_count(&seen), 3);
        let cycle = event_loop.clone();
        event_loop.check(move |_| drop((cycle.clone(), in_detached.clone()))).detach();
        shutdown(event_loop);
    });
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn each_loop_has_a_value_of_its_own_which_is_made_and_dropped_on_it() {
    struct Own {
        tid: u32,
        log: Log,
        not_send: Rc<Cell<u32>>,
    }
    impl Drop for Own {
        fn drop(&mut self) {
            assert_eq!(LoopManager::current().unwrap().len(), 2, "the loop is current still");
            assert_eq!(fuchsine_dispatcher::event_loop::tid(), Some(self.tid));
            self.log.add(format!("dropped-{}-with-{}", self.tid, self.not_send.get()));
        }
    }
    let log = Log::new();
    let entries = log.clone();
    let own = LoopLocal::new(move |event_loop| Own {
        tid: event_loop.tid().unwrap(),
        log: entries.clone(),
        not_send: Rc::default(),
    });
    let in_loops = own.clone();
    let summary = run(loops(2)
        .setup_all(move |event_loop| {
            for _ in 0..=event_loop.tid().unwrap() {
                in_loops.with(event_loop, |own| own.not_send.set(own.not_send.get() + 1));
            }
            assert_eq!(in_loops.with_current(|own| own.tid), event_loop.tid());
        })
        .setup(1, shutdown));
    assert_eq!(summary.panics(), 0);
    let mut entries: Vec<_> = log.text().split(' ').map(str::to_owned).collect();
    entries.sort();
    assert_eq!(entries, ["dropped-0-with-1", "dropped-1-with-2"]);
    assert_eq!(own.with_current(|_| ()), None, "there is no loop on this thread");
}

#[test]
fn the_value_of_another_loop_is_reached_by_a_callback_there_and_not_once_that_has_ended() {
    let local = LoopLocal::new(|event_loop| Cell::new(event_loop.tid().unwrap() * 100));
    let running = loops(2).build().unwrap().spawn().unwrap();
    let other = running.handle().event_loop(1).unwrap();
    let (sender, receiver) = channel();
    local
        .run_on(&other, move |event_loop, value| {
            value.set(value.get() + 1);
            sender.send((event_loop.tid(), value.get())).unwrap();
        })
        .unwrap();
    assert_eq!(receiver.recv_timeout(HANG).unwrap(), (Some(1), 101));
    assert_eq!(local.run_on_each(&running.handle(), |_, value| value.set(0)), 2);
    let handle = running.handle();
    handle.shutdown();
    join(running);
    let unrun = Arc::new(());
    let captured = unrun.clone();
    let refused = local.run_on(&other, move |_, _| drop(captured)).unwrap_err();
    assert_eq!(Arc::strong_count(&unrun), 2, "the closure came back");
    drop(refused.into_inner());
    assert_eq!(local.run_on_each(&handle, |_, _| {}), 0);
}

#[test]
fn answers_of_all_loops_are_gathered_in_order_and_one_that_panics_leaves_a_gap() {
    let local = LoopLocal::new(|event_loop: &EventLoop| event_loop.tid().unwrap());
    let summary = run(loops(3).setup(1, move |event_loop| {
        local.gather(
            event_loop,
            |_, tid| {
                assert_ne!(*tid, 2, "on purpose");
                tid * 10
            },
            |event_loop, answers| {
                assert_eq!((event_loop.tid(), answers), (Some(1), vec![Some(0), Some(10), None]));
                shutdown(event_loop);
            },
        );
    }));
    assert_eq!(summary.panics(), 1, "the one on purpose");
}

#[test]
fn a_value_whose_making_or_dropping_asks_for_others_is_no_trap() {
    struct AsksInDrop(LoopLocal<Cell<u32>>);
    impl Drop for AsksInDrop {
        fn drop(&mut self) {
            self.0.with_current(|cell| cell.set(cell.get() + 1)).expect("the loop is current");
        }
    }
    let inner = LoopLocal::new(|_| Cell::new(0));
    let asked = inner.clone();
    let outer = LoopLocal::new(move |event_loop| {
        asked.with(event_loop, |cell| cell.set(7));
        AsksInDrop(asked.clone())
    });
    run_one(move |event_loop| {
        outer.with(event_loop, |_| ());
        assert_eq!(inner.with(event_loop, Cell::get), 7);
        shutdown(event_loop);
    });
}

/// Shows Q1.
#[test]
fn the_epoch_example_replaces_what_loops_read_without_a_lock_and_no_read_is_torn() {
    let output = std::process::Command::new(fuchsine_tests::command::loop_epoch()).arg("500").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("500 generations, ") && text.ends_with("none of them torn\n"), "{text}");
}
