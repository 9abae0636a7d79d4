//! Models of the pause with workers as they are, and of several loops that pause, turn and end as they like.
//!
//! Run as `shuttle_worker`. Each explores 5,000 random schedules, and 5,000 of depth 3 chosen for the bugs that need few
//! preemptions.
//!
//! Not covered: memory orderings weaker than what a mutex gives, which `loom_pause` looks at, and deadlines.

use std::panic::Location;

use crate::event_loop::lane::Lane;
use crate::event_loop::pause_gate::{PauseGate, Turn};
use crate::event_loop::worker::{WorkItem, Worker, WorkerShared};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, thread};
use crate::time::Instant;

const LOOPS: u32 = 3;

/// What everybody looks at: how many callbacks and items run at this moment, and whether somebody wants to be alone.
#[derive(Default)]
struct Watched {
    running: AtomicU32,
    alone: AtomicU32,
    items: AtomicU32,
}

impl Watched {
    fn run(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.alone.load(Ordering::Relaxed), 0, "something runs during a pause");
        thread::yield_now();
        assert_eq!(self.alone.load(Ordering::Relaxed), 0, "a pause began around something that runs");
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    fn be_alone(&self) {
        assert_eq!(self.alone.fetch_add(1, Ordering::Relaxed), 0, "two are alone");
        assert_eq!(self.running.load(Ordering::Relaxed), 0, "somebody else runs");
        thread::yield_now();
        assert_eq!(self.running.load(Ordering::Relaxed), 0, "somebody else runs");
        self.alone.fetch_sub(1, Ordering::Relaxed);
    }
}

type Gate = PauseGate<WorkerShared>;

fn pause(gate: &Gate, watched: &Watched, tid: u32, workers_too: bool, turn: Turn) {
    if gate.begin(tid, workers_too, turn).is_ok() {
        assert!(gate.complete(tid, Instant::INFINITE).is_ok());
        watched.be_alone();
        gate.end(tid);
    }
}

struct Item(Arc<Watched>);

impl WorkItem for Item {
    fn run(&self) {
        self.0.run();
        self.0.items.fetch_add(1, Ordering::Relaxed);
    }

    fn cancel(&self) -> bool {
        false
    }

    fn given(&self) -> &'static Location<'static> {
        Location::caller()
    }
}

fn loops_that_pause_turn_and_end() {
    let (gate, watched) = (Arc::new(Gate::new(LOOPS as usize)), Arc::new(Watched::default()));
    let threads: Vec<_> = (0..LOOPS)
        .map(|tid| {
            let (gate, watched) = (gate.clone(), watched.clone());
            let body = move || {
                gate.pass(tid);
                watched.run();
                match tid {
                    0 => pause(&gate, &watched, tid, false, Turn::Wait),
                    1 => pause(&gate, &watched, tid, false, Turn::Try),
                    // This one ends while others pause.
                    _ => {}
                }
                gate.pass(tid);
                watched.run();
                gate.leave(tid);
            };
            thread::spawn("loop", body).expect("a model has threads")
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no loop panics"));
    assert!(!gate.is_paused());
}

fn a_pause_against_workers_that_are_started_fed_and_joined() {
    let (gate, watched) = (Arc::new(Gate::new(2)), Arc::new(Watched::default()));
    let (of_loop, of_watched) = (gate.clone(), watched.clone());
    let body = move || {
        of_loop.pass(1);
        let worker =
            Worker::start("worker".to_owned(), Lane::Fast, Some(of_loop.clone())).expect("a model has threads");
        worker.enqueue(Arc::new(Item(of_watched.clone())));
        of_loop.pass(1);
        worker.enqueue(Arc::new(Item(of_watched)));
        // The end of the loop: the worker may be halted meanwhile.
        of_loop.standing(1, move || worker.join());
        of_loop.leave(1);
    };
    let thread = thread::spawn("loop", body).expect("a model has threads");
    gate.pass(0);
    pause(&gate, &watched, 0, true, Turn::Wait);
    gate.pass(0);
    pause(&gate, &watched, 0, true, Turn::Wait);
    gate.leave(0);
    thread.join().expect("no loop panics");
    assert_eq!(watched.items.load(Ordering::Relaxed), 2, "each item was run, once");
}

#[test]
fn shuttle_who_pauses_is_alone_and_nobody_is_left_standing() {
    shuttle::check_random(loops_that_pause_turn_and_end, 5_000);
    shuttle::check_pct(loops_that_pause_turn_and_end, 5_000, 3);
}

#[test]
fn shuttle_a_pause_with_workers_meets_none_that_works_and_ends_none() {
    shuttle::check_random(a_pause_against_workers_that_are_started_fed_and_joined, 5_000);
    shuttle::check_pct(a_pause_against_workers_that_are_started_fed_and_joined, 5_000, 3);
}
