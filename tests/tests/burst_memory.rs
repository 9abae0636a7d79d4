//! Goal: memory comes back after a burst.
//! Method: resident size before and after. Alone in its file, because it is the size of the whole process.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use common::{HANG, pool_of};
use fuchsine_dispatcher::{Dispatcher, DispatcherBuilder, Runtime};
use fuchsine_tests::process::resident_bytes;

const BURST: u64 = 10_000_000;

fn resident() -> f64 {
    resident_bytes(rustix::process::getpid()) as f64
}

/// So many posts, all of which wait for the first one; when all have run it is over.
fn burst(dispatcher: &Dispatcher, posts: u64) {
    let ran = Arc::new(AtomicU64::new(0));
    let (release, released) = channel::<()>();
    let (done, all_ran) = channel();
    dispatcher
        .post_task(move |_| {
            // It says nothing; its end is what is waited for.
            let _ = released.recv();
        })
        .expect("accepted");
    for _ in 0..posts {
        let ran = Arc::clone(&ran);
        dispatcher
            .post_task(move |_| {
                ran.fetch_add(1, Ordering::Relaxed);
            })
            .expect("accepted");
    }
    dispatcher.post_task(move |_| done.send(()).expect("it is awaited")).expect("accepted");
    drop(release);
    all_ran.recv_timeout(HANG * 5).expect("all ran");
    // The memory goes back when the last callback has returned.
    dispatcher.wait_until_idle(HANG).expect("nothing is left");
    assert_eq!(ran.load(Ordering::Relaxed), posts);
}

fn dispatcher(runtime: &Runtime) -> Dispatcher {
    runtime.new_driver("driver").new_dispatcher(DispatcherBuilder::new().name("one")).expect("created")
}

#[test]
fn memory_comes_back_after_a_burst_of_ten_million_posts() {
    let runtime = pool_of(2);
    let one = dispatcher(&runtime);
    // What the first posts make once, stays.
    burst(&one, 10_000);
    let before = resident();
    burst(&one, BURST);
    let after = resident();
    assert!(after <= before * 1.2, "{before} bytes were resident before the burst, {after} are after it");
    runtime.shutdown(HANG).expect("the runtime shuts down");
}
