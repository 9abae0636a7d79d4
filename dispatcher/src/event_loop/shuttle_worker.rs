//! Model of a worker as it is: its queue, its thread, cancellation and the end.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test --release -p fuchsine-dispatcher --lib shuttle_`. Explores 5,000
//! random schedules, and 5,000 of depth 3 chosen for the bugs that need few preemptions.
//!
//! Not covered: memory orderings weaker than what a mutex gives, which `loom_work` looks at.

use std::panic::Location;

use crate::event_loop::lane::Lane;
use crate::event_loop::work_state::WorkState;
use crate::event_loop::worker::{WorkItem, Worker};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, thread};

struct Item {
    state: WorkState,
    ran: AtomicU32,
    canceled: AtomicU32,
}

impl WorkItem for Item {
    fn run(&self) {
        if self.state.start() {
            self.ran.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn cancel(&self) -> bool {
        let canceled = self.state.cancel();
        if canceled {
            self.canceled.fetch_add(1, Ordering::Relaxed);
        }
        canceled
    }

    fn given(&self) -> &'static Location<'static> {
        Location::caller()
    }
}

fn model() {
    let worker = Worker::start("worker".to_owned(), Lane::Fast, None).expect("a model has threads");
    let items: Vec<_> = (0..3)
        .map(|_| Arc::new(Item { state: WorkState::new(), ran: AtomicU32::new(0), canceled: AtomicU32::new(0) }))
        .collect();
    let to_cancel = items[1].clone();
    let canceler = thread::spawn("canceler", move || to_cancel.cancel()).expect("a model has threads");
    items.iter().for_each(|item| worker.enqueue(item.clone()));
    let by_shutdown = worker.cancel_queued();
    worker.join();
    let by_canceler = canceler.join().expect("it does not panic");
    let mut canceled = 0;
    for item in &items {
        let ends = (item.ran.load(Ordering::Relaxed), item.canceled.load(Ordering::Relaxed));
        assert_eq!(ends.0 + ends.1, 1, "each item ends exactly once: {ends:?}");
        canceled += u64::from(ends.1);
    }
    assert_eq!(canceled, by_shutdown + u64::from(by_canceler));
}

/// Shows W12, W17.
#[test]
fn shuttle_each_item_ends_exactly_once_and_the_worker_ends() {
    shuttle::check_random(model, 5_000);
    shuttle::check_pct(model, 5_000, 3);
}
