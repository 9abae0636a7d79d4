//! The tests of the tutorial. They stand here once for the driver as it is at first, and once as it is at last.

use std::time::Duration;

use fuchsine_testing::{ForegroundRuntime, Harness, Place, Target, explore, shutdown_at_every_step};

use super::PRINTER;

pub(crate) fn a_page_is_printed() {
    let runtime = ForegroundRuntime::new();
    let harness = Harness::builder(&PRINTER).service("queue").start(&runtime).unwrap();
    let queue = harness.accept("queue").expect("the printer connects");

    queue.send(b"1");
    queue.expect(b"printing 1");
    harness.advance(Duration::from_millis(10));
    queue.expect(b"printed 1");

    harness.stop().unwrap();
    queue.expect_closed();
}

pub(crate) fn a_page_is_printed_on_threads() {
    let harness = Harness::builder(&PRINTER).service("queue").start(Place::Threads).unwrap();
    let queue = harness.accept("queue").expect("the printer connects");
    queue.send(b"1");
    queue.expect(b"printing 1");
    queue.expect(b"printed 1");
    harness.stop().unwrap();
}

pub(crate) fn two_pages(runtime: &ForegroundRuntime) {
    let harness = Harness::builder(&PRINTER).service("queue").start(runtime).unwrap();
    // What is done when something is injected; nothing is unless we ask for it.
    runtime.on_injection(harness.stopper());

    if let Some(queue) = harness.accept("queue") {
        queue.send(b"1");
        harness.advance(Duration::from_millis(4));
        queue.send(b"2");
        harness.advance(Duration::from_millis(20));
        harness.stop().unwrap();

        // What a client relies on: a page that was begun comes to an end.
        let said = queue.receive_texts();
        for page in ["1", "2"] {
            let of_page = said.iter().filter(|line| line.ends_with(page)).count();
            assert_ne!(of_page, 1, "page {page} was begun and has no end; the printer said {said:?}");
        }
    }
}

pub(crate) fn two_pages_in_any_order() {
    explore(500, two_pages);
}

pub(crate) fn a_stop_at_any_step_leaves_no_page_without_an_end() {
    shutdown_at_every_step(two_pages, Target::custom("the stop of the host"));
}
