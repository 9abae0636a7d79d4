//! Model of one item of work: its worker, two who cancel it, and the end that is reported.
//!
//! Run as the models of `sync`. Explored with a preemption bound of 3: 106 schedules.
//!
//! The second of those who cancel stands for a shutdown whose policy is to cancel. Not covered here: the worker's
//! thread and queue, which `shuttle_worker` runs as they are.

use crate::event_loop::work_state::WorkState;
use crate::sync::{Arc, Inbox, thread};

struct Item {
    state: WorkState,
    ends: Inbox<&'static str>,
}

impl Item {
    fn end(&self, won: bool, how: &'static str) -> bool {
        if won {
            let _ = self.ends.push(how).expect("the loop is there");
        }
        won
    }
}

/// Shows W9, E9, E10.
#[test]
fn loom_work_ends_exactly_once_whoever_comes_first() {
    loom::model(|| {
        let item = Arc::new(Item { state: WorkState::new(), ends: Inbox::new() });
        let (of_worker, of_canceler) = (item.clone(), item.clone());
        let worker = thread::spawn("worker", move || of_worker.end(of_worker.state.start(), "ran")).unwrap();
        let canceler =
            thread::spawn("canceler", move || of_canceler.end(of_canceler.state.cancel(), "canceled")).unwrap();
        let by_shutdown = item.end(item.state.cancel(), "canceled");
        let ran = worker.join().unwrap();
        let canceled = canceler.join().unwrap();
        assert_eq!([ran, canceled, by_shutdown].iter().filter(|won| **won).count(), 1);
        let ends: Vec<_> = item.ends.take_all().collect();
        assert_eq!(ends, [if ran { "ran" } else { "canceled" }], "the end is reported exactly once");
    });
}
