//! Timers: never early, no drift, stated coalescing, states, and stopping from anywhere. What is asserted is order
//! and arithmetic of deadlines, never how long anything took.

mod loop_support;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, Tick, Timer, TimerError, TimerState};
use fuchsine_dispatcher::{Instant, Status};
use loop_support::{Log, loops, run, run_one, shutdown};

const MS: Duration = Duration::from_millis(1);

/// Shows T1, T2, T7, E21.
#[test]
fn a_timer_fires_at_its_deadline_or_later_and_is_idle_afterwards() {
    run_one(|event_loop| {
        let own: Rc<RefCell<Option<Timer>>> = Rc::default();
        let reached = own.clone();
        let armed_at = event_loop.now();
        let timer = event_loop.timer(move |event_loop, tick| {
            assert!(event_loop.now() >= tick.deadline && tick.deadline >= armed_at + Duration::from_micros(1_500));
            assert_eq!(tick.missed, 0);
            assert_eq!(reached.borrow().as_ref().unwrap().state(), TimerState::Firing);
            let again = reached.clone();
            event_loop.handle().async_run(shutdown).unwrap();
            let job = event_loop.job(move |_| {
                assert_eq!(again.borrow_mut().take().unwrap().state(), TimerState::Idle);
            });
            job.arm().unwrap();
            job.detach();
        });
        assert_eq!(timer.state(), TimerState::Idle);
        timer.once(Duration::from_micros(1_500)).unwrap();
        assert!(
            matches!(timer.state(), TimerState::Armed(deadline) if deadline >= armed_at + Duration::from_micros(1_500))
        );
        *own.borrow_mut() = Some(timer);
    });
}

/// Shows T11.
#[test]
fn equal_deadlines_fire_in_the_order_of_arming_and_earlier_ones_before() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let early = event_loop.now() + MS;
        let at = early + MS;
        let mut timers = Vec::new();
        for (name, deadline) in [("b", at), ("c", at), ("a", at), ("early", early)] {
            let entries = entries.clone();
            let timer = event_loop.timer(move |_, _| entries.add(name));
            timer.once_at(deadline).unwrap();
            timers.push(timer);
        }
        let last = event_loop.timer(move |event_loop, _| {
            timers.clear();
            shutdown(event_loop);
        });
        last.once_at(at + MS).unwrap();
        last.detach();
    });
    assert_eq!(log.text(), "early b c a");
}

/// Shows T14, E23.
#[test]
fn a_ticker_keeps_whole_periods_however_late_its_calls_are() {
    const PERIOD: Duration = Duration::from_micros(700);
    run_one(|event_loop| {
        let (mut last, mut calls) = (None::<Tick>, 0);
        let first = event_loop.now() + PERIOD;
        let ticker = event_loop.timer(move |event_loop, tick| {
            assert!(event_loop.now() >= tick.deadline, "never early");
            if let Some(last) = last {
                // The call before stood for the ticks up to its deadline plus those that it had missed.
                let before: Instant = last.deadline;
                let periods = 1 + u32::try_from(last.missed).unwrap();
                assert_eq!(tick.deadline, before + periods * PERIOD, "no drift");
            } else {
                assert!(tick.deadline >= first);
            }
            last = Some(tick);
            calls += 1;
            if calls == 3 {
                // A callback that takes several periods.
                let until = event_loop.now() + 4 * PERIOD;
                while event_loop.now() < until {}
            }
            if calls == 4 {
                assert!(tick.missed >= 2, "one call stands for those missed: {tick:?}");
            }
            if calls == 10 {
                shutdown(event_loop);
            }
        });
        ticker.ticker(PERIOD).unwrap();
        ticker.detach();
    });
}

/// Shows T3.
#[test]
fn arming_a_timer_anew_replaces_what_it_was_armed_for() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let timer = event_loop.timer(move |event_loop, tick| {
            entries.add("fired");
            assert_eq!(tick.missed, 0);
            shutdown(event_loop);
        });
        timer.ticker(MS).unwrap();
        timer.once(Duration::from_secs(3_600)).unwrap();
        timer.once(2 * MS).unwrap();
        timer.detach();
    });
    assert_eq!(log.text(), "fired");
}

/// Shows T8.
#[test]
fn a_stopped_timer_does_not_fire_and_stop_says_whether_it_would_have() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let stopped = event_loop.timer(|_, _| unreachable!("it was stopped"));
        assert!(!stopped.stop(), "it was not armed");
        stopped.once(Duration::ZERO).unwrap();
        assert!(stopped.stop() && !stopped.stop());
        let dropped = event_loop.timer(|_, _| unreachable!("it was dropped"));
        dropped.once(Duration::ZERO).unwrap();
        drop(dropped);
        let last = event_loop.timer(move |event_loop, _| {
            assert_eq!(stopped.state(), TimerState::Idle);
            entries.add("last");
            shutdown(event_loop);
        });
        last.once(MS).unwrap();
        last.detach();
    });
    assert_eq!(log.text(), "last");
}

/// Shows T8.
#[test]
fn a_due_timer_that_an_earlier_callback_stops_does_not_fire() {
    run_one(|event_loop| {
        let deadline = event_loop.now();
        let second: Rc<RefCell<Option<Timer>>> = Rc::default();
        let reached = second.clone();
        let first = event_loop.timer(move |event_loop, _| {
            // Both are due and taken out of the reactor already; the second is told nothing all the same.
            assert!(reached.borrow().as_ref().unwrap().stop());
            event_loop.async_run(shutdown).unwrap();
        });
        first.once_at(deadline).unwrap();
        first.detach();
        let timer = event_loop.timer(|_, _| unreachable!("it was stopped"));
        timer.once_at(deadline).unwrap();
        *second.borrow_mut() = Some(timer);
        event_loop.teardown(move |_| drop(second.borrow_mut().take())).unwrap();
    });
}

/// Shows T8.
#[test]
fn a_timer_is_stopped_from_another_thread() {
    run_one(|event_loop| {
        let ticks = Rc::new(Cell::new(0));
        let seen = ticks.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        let ticker = event_loop.timer(move |_, _| {
            seen.set(seen.get() + 1);
            if seen.get() == 3 {
                sender.send(()).unwrap();
            }
        });
        ticker.ticker(Duration::from_micros(200)).unwrap();
        let (stopper, handle) = (ticker.stopper(), event_loop.handle());
        ticker.detach();
        let thread = std::thread::spawn(move || {
            receiver.recv_timeout(loop_support::HANG).unwrap();
            assert!(stopper.stop() && !stopper.stop());
            // Runs after whatever was under way when the ticker was stopped.
            handle
                .async_run(|event_loop| {
                    let last = event_loop.timer(|event_loop, _| shutdown(event_loop));
                    last.once(MS).unwrap();
                    last.detach();
                })
                .unwrap();
        });
        event_loop
            .teardown(move |_| {
                thread.join().unwrap();
                assert!(ticks.get() >= 3);
            })
            .unwrap();
    });
}

/// Shows T6, T15, E24.
#[test]
fn a_timer_that_arms_itself_with_zero_waits_for_the_next_iteration() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let own: Rc<RefCell<Option<Timer>>> = Rc::default();
        let again = own.clone();
        let mut rounds = 0;
        let timer = event_loop.timer(move |event_loop, _| {
            rounds += 1;
            if rounds == 1 {
                let entries = entries.clone();
                event_loop.async_run(move |_| entries.add("posted")).unwrap();
            }
            if rounds == 1_000 {
                entries.add("1000");
                drop(again.borrow_mut().take());
                return shutdown(event_loop);
            }
            again.borrow().as_ref().unwrap().once(Duration::ZERO).unwrap();
        });
        timer.once(Duration::ZERO).unwrap();
        *own.borrow_mut() = Some(timer);
    });
    assert_eq!(log.text(), "posted 1000");
}

/// Shows T4, E20.
#[test]
fn a_deadline_months_away_does_not_wrap_around() {
    run_one(|event_loop| {
        let far = event_loop.timer(|_, _| unreachable!("it is due in two months"));
        far.once(Duration::from_secs(60 * 24 * 3_600)).unwrap();
        let near = event_loop.timer(move |event_loop, _| {
            assert!(matches!(far.state(), TimerState::Armed(_)));
            shutdown(event_loop);
        });
        near.once(MS).unwrap();
        near.detach();
    });
}

/// Shows T2, E20.
#[test]
fn what_no_timer_can_do_is_refused_and_changes_nothing() {
    run_one(|event_loop| {
        let timer = event_loop.timer(|event_loop, _| shutdown(event_loop));
        timer.once(MS).unwrap();
        let before = timer.state();
        assert_eq!(timer.once_at(Instant::INFINITE), Err(TimerError::Infinite));
        assert_eq!(timer.once(Duration::MAX).unwrap_err().status(), Status::InvalidArgs);
        assert_eq!(timer.ticker(Duration::ZERO), Err(TimerError::ZeroPeriod));
        assert_eq!(timer.state(), before);
        timer.detach();
    });
}

/// Shows E32.
#[test]
fn a_panicking_ticker_goes_on_ticking() {
    let summary = run(loops(1).setup(0, |event_loop| {
        let mut calls = 0;
        let ticker = event_loop.timer(move |event_loop, _| {
            calls += 1;
            if calls == 3 {
                shutdown(event_loop);
            }
            panic!("on purpose");
        });
        ticker.ticker(Duration::from_micros(300)).unwrap();
        ticker.detach();
    }));
    assert!(summary.panics() >= 3);
}

#[test]
fn a_hundred_thousand_timers_fire_each_once_and_in_the_order_of_their_deadlines() {
    const TIMERS: u64 = 100_000;
    run_one(|event_loop: &EventLoop| {
        let start = event_loop.now();
        let (last, fired) = (Rc::new(Cell::new(start)), Rc::new(Cell::new(0)));
        for nth in 0..TIMERS {
            let (last, fired) = (last.clone(), fired.clone());
            let timer = event_loop.timer(move |event_loop, tick| {
                assert!(tick.deadline >= last.get(), "in order");
                last.set(tick.deadline);
                fired.set(fired.get() + 1);
                if fired.get() == TIMERS {
                    shutdown(event_loop);
                }
            });
            // Scattered over 50 ms, from before now to long after.
            timer.once_at(Instant::from_nanos(start.as_nanos() + nth * 7_919 % 50_000_000)).unwrap();
            timer.detach();
        }
    });
}
