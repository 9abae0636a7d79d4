//! Model checks of the lanes: nobody is woken for an item that a worker waits for awake, and it is run all the same.
//!
//! Real: the lanes, their workers, what these learn. A wait is one look in a model, and each worker waits awake before it
//! sleeps. An item that is forgotten shows as a deadlock.

use super::lanes::{LaneItem, Lanes};
use crate::event_loop::Lane;
use crate::sync::{Arc, Completion, thread};

/// An item that says when it runs.
struct Tells(Completion<()>);

impl LaneItem for Tells {
    fn work(&self) -> bool {
        true
    }

    fn tell(&self) {
        self.0.complete(()).expect("an item runs once");
    }
}

fn explore(model: fn()) {
    let iterations =
        std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|iterations| iterations.parse().ok()).unwrap_or(500);
    shuttle::check_random(model, iterations);
    shuttle::check_pct(model, iterations, 3);
}

fn submit_and_wait(lanes: &Lanes) {
    let item = Arc::new(Tells(Completion::new()));
    lanes.submit(Lane::Fast, Arc::clone(&item) as Arc<dyn LaneItem>).expect("a worker");
    item.0.wait();
}

/// Two threads submit one item after the other, each when its last one has run.
#[test]
fn shuttle_an_item_that_comes_while_a_worker_waits_awake_is_run() {
    explore(|| {
        let lanes = Arc::new(Lanes::new("model".to_owned(), false));
        let beside = Arc::clone(&lanes);
        let other = thread::spawn("other", move || submit_and_wait(&beside)).expect("a thread");
        for _ in 0..3 {
            submit_and_wait(&lanes);
        }
        other.join().expect("it ends");
        lanes.close();
        lanes.join();
        assert!(lanes.is_at_rest());
        assert!(!lanes.is_at_work());
    });
}

/// An item that does not end before its partner has begun.
struct Meets {
    here: Arc<Completion<()>>,
    partner: Arc<Completion<()>>,
    told: Completion<()>,
}

impl LaneItem for Meets {
    fn work(&self) -> bool {
        self.here.complete(()).expect("an item runs once");
        self.partner.wait();
        true
    }

    fn tell(&self) {
        self.told.complete(()).expect("an item runs once");
    }
}

/// Two items run beside each other, also when the worker that waits awake is the only one that is told of them.
#[test]
fn shuttle_who_waited_awake_has_another_one_woken_for_the_second_item() {
    explore(|| {
        let lanes = Arc::new(Lanes::new("model".to_owned(), false));
        let beside = Arc::clone(&lanes);
        let other = thread::spawn("other", move || submit_and_wait(&beside)).expect("a thread");
        submit_and_wait(&lanes);
        other.join().expect("it ends");
        let (one, two) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
        let pair = [(&one, &two), (&two, &one)].map(|(here, partner)| {
            let (here, partner) = (Arc::clone(here), Arc::clone(partner));
            Arc::new(Meets { here, partner, told: Completion::new() })
        });
        for item in &pair {
            lanes.submit(Lane::Fast, Arc::clone(item) as Arc<dyn LaneItem>).expect("a worker");
        }
        pair.iter().for_each(|item| item.told.wait());
        lanes.close();
        lanes.join();
    });
}
