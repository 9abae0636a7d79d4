//! Runtimes that are dropped in any order, by any thread, with anything pending, leave nothing behind: no thread, no
//! descriptor, no callback.
//!
//! Threads and descriptors are counted for the whole process, so the test runs again in a process of its own.

mod common;

use std::any::Any;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{HANG, in_a_process_of_its_own};
use fuchsine_dispatcher::{Channel, DispatcherBuilder, Interest, Lane, RuntimeBuilder, Status, ready, sleep};
use fuchsine_tests::random::Random;

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).expect("a folder of the process").count()
}

/// Makes a runtime with something of everything pending, each holding `token`, and drops all of it in an order that
/// `random` chooses, some of it on another thread or inside of a callback.
fn round(random: &mut Random, token: &Arc<()>) {
    let runtime = RuntimeBuilder::new().threads(1 + random.below(3)).build().expect("the system has threads");
    let mut things: Vec<Box<dyn Any + Send>> = Vec::new();
    for nth in 0..3 {
        let driver = runtime.new_driver(format!("driver {nth}"));
        let held = Arc::clone(token);
        let builder = DispatcherBuilder::new().shutdown_observer(move || drop(held));
        let builder = match random.below(4) {
            0 => builder.unsynchronized(),
            1 => builder.allow_sync_calls(),
            2 => builder.scheduler_role("role"),
            _ => builder,
        };
        let dispatcher = driver.new_dispatcher(builder).expect("created");
        let held = || Arc::clone(token);
        let far_away = Duration::from_secs(3600);
        let kept = held();
        let timer = dispatcher.post_after(far_away, move |_| drop(kept)).expect("accepted");
        let (kept, own) = (held(), runtime.clone());
        // Holds the runtime until it has run.
        dispatcher.post_task(move |_| drop((kept, own))).expect("accepted");
        let (near, far) = UnixStream::pair().expect("a socket pair");
        let kept = held();
        let wait = dispatcher.begin_wait(&near, Interest::READABLE, move |_| drop(kept)).expect("accepted");
        let (kept, done) = (held(), held());
        let work = dispatcher.offload(Lane::Slow, move |_| drop(kept), move |_| drop(done)).expect("accepted");
        let (end, other_end) = Channel::pair();
        let kept = held();
        end.begin_read(&dispatcher, move |_| drop(kept)).map_err(Status::from).expect("registered");
        let kept = held();
        let (future_near, future_far) = UnixStream::pair().expect("a socket pair");
        let join = dispatcher
            .spawn(async move {
                let _kept = kept;
                let _ = ready(&future_near, Interest::READABLE).await;
                let _ = sleep(far_away).await;
            })
            .expect("accepted");
        let (kept, stop) = (held(), dispatcher.stop_token());
        let _fd = stop.as_fd().expect("there are descriptors");
        let handle = dispatcher.handle();
        things.push(Box::new((near, far, future_far)));
        things.push(Box::new((timer, wait, work)));
        things.push(Box::new((end, other_end)));
        things.push(Box::new(join));
        things.push(Box::new((kept, stop.clone())));
        things.push(Box::new(handle));
        if random.below(2) == 0 {
            things.push(Box::new(dispatcher));
        } else {
            drop(dispatcher.release());
        }
        if random.below(3) > 0 {
            things.push(Box::new(driver));
        }
    }
    let inside = runtime.new_driver("inside").new_dispatcher(DispatcherBuilder::new()).expect("created");
    things.push(Box::new(runtime));
    while !things.is_empty() {
        let thing = things.swap_remove(random.below(things.len()));
        match random.below(4) {
            0 => std::thread::spawn(move || drop(thing)).join().expect("it ends"),
            // Refused once the runtime is gone, and then it is dropped here.
            1 => drop(inside.post_task(move |_| drop(thing))),
            _ => drop(thing),
        }
    }
}

#[test]
fn runtimes_that_are_dropped_in_any_order_leave_nothing_behind() {
    let output = in_a_process_of_its_own("runtimes_that_are_dropped_in_any_order_leave_nothing_behind", || {
        let token = Arc::new(());
        // What a process sets up once.
        round(&mut Random::new(0), &token);
        let now = || (count("/proc/self/task"), count("/proc/self/fd"), Arc::strong_count(&token));
        let settle = |expected: Option<(usize, usize, usize)>| {
            let begun = Instant::now();
            let mut last = now();
            while begun.elapsed() < HANG / 4 {
                std::thread::sleep(Duration::from_millis(20));
                let next = now();
                match expected {
                    Some(expected) if next == expected => return next,
                    None if next == last && next.2 == 1 && next.0 <= 2 => return next,
                    _ => last = next,
                }
            }
            panic!("threads, descriptors and tokens do not come to rest: {last:?}, expected {expected:?}");
        };
        let before = settle(None);
        for seed in 1..=60 {
            round(&mut Random::new(seed), &token);
        }
        settle(Some(before));
    });
    if let Some(output) = output {
        assert!(output.succeeded, "{}", output.text);
    }
}
