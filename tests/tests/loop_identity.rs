//! Who is who: numbers, the current loop and its manager, clocks, threads; and how loops come into being.

mod loop_support;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_dispatcher::Instant;
use fuchsine_dispatcher::event_loop::{EventLoop, Lane, LoopManager, tid};
use loop_support::{HANG, join, loops, run, run_one, shutdown};

/// Shows D1, D2, D3, D4, A11.
#[test]
fn a_number_is_that_of_the_loop_on_this_thread_and_nobody_else_has_one() {
    let outside = || (tid(), EventLoop::current().is_none(), LoopManager::current().is_none());
    assert_eq!(outside(), (None, true, true));
    let on_thread = std::thread::spawn(move || {
        let summary = run_and_check();
        // The thread was loop 0, and is nobody again.
        assert_eq!(outside(), (None, true, true));
        assert_eq!(summary.panics(), 0);
    });
    on_thread.join().unwrap();

    fn run_and_check() -> fuchsine_dispatcher::event_loop::RunSummary {
        let builder = loops(3).setup_all(|event_loop| {
            let own = event_loop.tid();
            assert_eq!((tid(), EventLoop::current().unwrap().tid()), (own, own));
            assert_eq!(LoopManager::current().unwrap().len(), 3);
            let on_worker = || (tid(), EventLoop::current().is_none(), LoopManager::current().is_none());
            let foreign = std::thread::spawn(on_worker).join().unwrap();
            assert_eq!(foreign, (None, true, true));
            let done = |_: &EventLoop, seen| assert_eq!(seen, Ok((None, true, true)));
            assert!(event_loop.work(Lane::Fast, on_worker, done).is_ok());
            if own == Some(0) {
                shutdown(event_loop);
            }
        });
        builder.build().unwrap().run().unwrap()
    }
}

/// Shows D5, L1, E18.
#[test]
fn managers_with_different_numbers_of_loops_live_side_by_side_and_one_after_the_other() {
    for count in [1, 3, 2] {
        let other = loops(count + 1).build().unwrap().spawn().unwrap();
        let summary = run(loops(count).setup(count - 1, shutdown));
        assert_eq!(summary.loops.len(), count);
        other.handle().shutdown();
        assert_eq!(join(other).loops.len(), count + 1);
    }
}

/// Shows D6, E18.
#[cfg(target_os = "linux")]
#[test]
fn more_than_511_loops_are_made_as_far_as_the_system_gives_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const LOOPS: usize = 600;
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits }).unwrap();
    match loops(LOOPS).build() {
        Ok(manager) => assert_eq!(manager.handle().len(), LOOPS),
        // A machine with few descriptors: the refusal is clear, and nothing is left behind.
        Err(refused) => assert!(refused.to_string().contains("operating system"), "{refused}"),
    }
}

/// Shows L2, L6, L20.
#[test]
fn loops_exist_from_the_beginning_and_are_found_by_number() {
    let manager = loops(2).build().unwrap();
    let handle = manager.handle();
    assert_eq!((handle.len(), handle.event_loop(2), handle.event_loop(usize::MAX)), (2, None, None));
    let early = handle.event_loop(1).unwrap();
    assert_eq!((early.tid(), early.name()), (Some(1), "test-1"));
    let (sender, receiver) = channel();
    early.async_run(move |event_loop| sender.send(event_loop.handle()).unwrap()).unwrap();
    let running = manager.spawn().unwrap();
    assert_eq!(receiver.recv_timeout(HANG).unwrap(), early, "it is the same loop before and after the start");
    assert_eq!(running.handle().event_loop(1).unwrap(), early);
    running.handle().shutdown();
    join(running);
}

/// Shows L4.
#[test]
fn threads_are_named_after_their_manager_and_number() {
    run(loops(2).name("named").setup_all(|event_loop| {
        let number = event_loop.tid().unwrap();
        assert_eq!(std::thread::current().name(), Some(format!("named-{number}").as_str()));
        let work = move || std::thread::current().name().map(str::to_owned);
        let done = move |event_loop: &EventLoop, name| {
            assert_eq!(name, Ok(Some(format!("named-{number}-slow"))));
            shutdown(event_loop);
        };
        assert!(event_loop.work(Lane::Slow, work, done).is_ok());
    }));
}

/// Shows L5, B1.
#[cfg(target_os = "linux")]
#[test]
fn no_loop_runs_anything_before_all_have_a_thread() {
    // So many that the first would be running long before the last is made.
    const LOOPS: usize = 128;
    // Counts the threads of the process: those of other tests can only make the number bigger.
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    const LOOKING: u32 = 4;
    let looked = AtomicU32::new(0);
    let summary = run(loops(LOOPS).setup_all(move |event_loop| {
        if event_loop.tid() < Some(LOOKING) {
            assert!(threads() >= LOOPS);
            // Nobody ends before all of them have looked.
            if looked.fetch_add(1, Ordering::Relaxed) + 1 == LOOKING {
                shutdown(event_loop);
            }
        }
    }));
    assert_eq!(summary.panics(), 0);
}

/// Shows L21, E31.
#[test]
fn the_time_of_a_loop_is_monotonic_and_moves_within_a_callback() {
    run_one(|event_loop| {
        let before: Instant = event_loop.now();
        let until = before + Duration::from_micros(200);
        while event_loop.now() < until {}
        assert!(event_loop.now() > before);
        shutdown(event_loop);
    });
}

/// Shows W1.
#[test]
fn each_loop_and_lane_has_one_worker_of_its_own() {
    const LOOPS: usize = 2;
    let (sender, receiver) = channel();
    let summary = run(loops(LOOPS).setup_all(move |event_loop| {
        let key = event_loop.tid().unwrap();
        for lane in [Lane::Fast, Lane::Slow, Lane::Fast, Lane::Slow] {
            let sender = sender.clone();
            let work = move || sender.send((key, lane, std::thread::current().id())).unwrap();
            assert!(event_loop.work(lane, work, |_, _| {}).is_ok());
        }
        if key == 0 {
            shutdown(event_loop);
        }
    }));
    assert_eq!(summary.panics(), 0);
    let seen: Vec<_> = receiver.into_iter().collect();
    assert_eq!(seen.len(), LOOPS * 4);
    let workers: HashSet<_> = seen.iter().map(|(tid, lane, thread)| (*tid, *lane, *thread)).collect();
    let threads: HashSet<_> = seen.iter().map(|(_, _, thread)| *thread).collect();
    assert_eq!((workers.len(), threads.len()), (LOOPS * 2, LOOPS * 2));
}

/// Shows L1.
#[test]
fn a_manager_without_loops_is_refused_in_words() {
    assert_eq!(loops(0).build().unwrap_err().to_string(), "a loop manager needs at least one loop");
}

/// The threads of this process whose names begin with this.
#[cfg(target_os = "linux")]
fn threads_named(prefix: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("comm")).ok();
    tasks.filter_map(name).filter(|name| name.starts_with(prefix)).map(|name| name.trim().to_owned()).collect()
}

/// Shows W1.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_is_started_with_the_first_item_of_its_lane() {
    let summary = run(loops(1).name("lazy").setup(0, |event_loop| {
        assert_eq!(threads_named("lazy-0-"), [""; 0]);
        let work = || assert_eq!(threads_named("lazy-0-"), ["lazy-0-slow"]);
        let done = |event_loop: &EventLoop, result| {
            assert_eq!(result, Ok(()));
            shutdown(event_loop);
        };
        assert!(event_loop.work(Lane::Slow, work, done).is_ok());
    }));
    assert_eq!(summary.panics(), 0);
}

/// Shows L5.
#[cfg(target_os = "linux")]
#[test]
fn if_one_loop_gets_no_thread_none_has_run_anything() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    const CHILD: &str = "FUCHSINE_TEST_FEW_THREADS";
    if std::env::var_os(CHILD).is_none() {
        // The limit is one of the process, so the rest happens in another one: this same test, run again.
        let name = "if_one_loop_gets_no_thread_none_has_run_anything";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let manager = loops(64).setup_all(|_| panic!("a loop has run")).build().unwrap();
    let handle = manager.handle();
    let unrun = std::sync::Arc::new(());
    let captured = unrun.clone();
    handle.event_loop(0).unwrap().async_run(move |_| drop(captured)).unwrap();
    // Room for the stacks of a few threads.
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let limit = pages * rustix::param::page_size() as u64 + (12 << 20);
    setrlimit(Resource::As, Rlimit { current: Some(limit), maximum: Some(limit) }).unwrap();
    let refused = manager.spawn().unwrap_err();
    assert!(refused.to_string().contains("operating system"), "{refused}");
    assert_eq!(std::sync::Arc::strong_count(&unrun), 1, "what was posted is dropped");
    assert!(handle.event_loop(63).unwrap().is_closed());
}
