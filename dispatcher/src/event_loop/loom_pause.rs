//! Models of the pause: against the turns and the end of another loop, against another pause, and with a worker.
//!
//! Run as the models of `sync`. Explored with a preemption bound of 3: 168 schedules (a pause against a loop that turns
//! and ends), 132 (two pauses against each other and the end of both loops), 16 (a pause against a worker).
//!
//! What a loop does in its callbacks is a number that is one meanwhile, written and read with no ordering of its own: a
//! pauser that is not ordered against all of it sees the one in some schedule. Not covered: the wake-up of a loop that
//! sleeps (`loom_wake_word`), deadlines (a modelled wait has none), and the worker's own queue (`shuttle_pause`).

use crate::event_loop::pause_gate::{Halt, NoTurn, PauseGate, Turn};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, Condvar, Mutex, thread};
use crate::time::Instant;

/// Two loops, and what each does in its callbacks.
struct Loops {
    gate: PauseGate<Worker>,
    inside: [AtomicU32; 2],
}

impl Loops {
    fn new() -> Arc<Self> {
        Arc::new(Loops { gate: PauseGate::new(2), inside: [AtomicU32::new(0), AtomicU32::new(0)] })
    }

    fn callback(&self, of: usize) {
        self.inside[of].store(1, Ordering::Relaxed);
        self.inside[of].store(0, Ordering::Relaxed);
    }

    fn turn(&self, tid: u32) {
        self.gate.pass(tid);
        self.callback(tid as usize);
    }

    /// A callback that pauses, sees that it is alone, and resumes.
    fn pause(&self, tid: u32, workers_too: bool) {
        self.gate.begin(tid, workers_too, Turn::Wait).expect("it has no guard");
        assert!(self.gate.complete(tid, Instant::INFINITE).is_ok());
        let others = self.inside.iter().map(|inside| inside.load(Ordering::Relaxed)).sum::<u32>();
        assert_eq!(others, 0, "something runs during the pause");
        assert_eq!(self.gate.begin(tid, false, Turn::Wait), Err(NoTurn::Own));
        self.gate.end(tid);
    }
}

/// Shows P2, P8, E14.
#[test]
fn loom_a_pauser_is_alone_while_the_other_loop_turns_or_ends() {
    loom::model(|| {
        let loops = Loops::new();
        let other = loops.clone();
        let thread = thread::spawn("loop-1", move || {
            other.turn(1);
            other.turn(1);
            other.gate.leave(1);
        })
        .unwrap();
        loops.turn(0);
        // A deadlock here would mean that a loop which has ended was waited for.
        loops.pause(0, false);
        loops.turn(0);
        loops.gate.leave(0);
        thread.join().unwrap();
        assert!(!loops.gate.is_paused());
    });
}

/// Shows P7, E14.
#[test]
fn loom_two_pausers_are_alone_one_after_the_other_also_while_loops_end() {
    loom::model(|| {
        let loops = Loops::new();
        let other = loops.clone();
        let thread = thread::spawn("loop-1", move || {
            other.pause(1, false);
            other.gate.leave(1);
        })
        .unwrap();
        loops.pause(0, false);
        loops.turn(0);
        loops.gate.leave(0);
        thread.join().unwrap();
    });
}

/// A worker with one item, as the gate sees it.
struct Worker {
    state: Mutex<WorkerState>,
    released: Condvar,
}

#[derive(Default)]
struct WorkerState {
    halted: bool,
    busy: bool,
}

impl Halt for Worker {
    fn halt(&self) {
        self.state.lock().halted = true;
    }

    fn release(&self) {
        self.state.lock().halted = false;
        self.released.notify_one();
    }

    fn is_busy(&self) -> bool {
        self.state.lock().busy
    }
}

/// Shows P2, P3, E13.
#[test]
fn loom_a_worker_is_waited_for_or_starts_nothing_until_it_is_released() {
    loom::model(|| {
        let loops = Arc::new(Loops {
            // One loop: the worker's item takes the place of a second one.
            gate: PauseGate::new(1),
            inside: [AtomicU32::new(0), AtomicU32::new(0)],
        });
        let worker = Arc::new(Worker { state: Mutex::new(WorkerState::default()), released: Condvar::new() });
        loops.gate.enlist(worker.clone());
        let of_thread = (loops.clone(), worker.clone());
        let thread = thread::spawn("worker", move || {
            let (loops, worker) = of_thread;
            let mut state = worker.state.lock();
            while state.halted {
                worker.released.wait(&mut state);
            }
            state.busy = true;
            drop(state);
            loops.callback(1);
            let mut state = worker.state.lock();
            state.busy = false;
            let halted = state.halted;
            drop(state);
            if halted {
                loops.gate.settle();
            }
            // It stays enlisted: its end would wake the pauser, and hide that nothing else did.
        })
        .unwrap();
        loops.pause(0, true);
        loops.gate.standing(0, || thread.join().unwrap());
        loops.gate.leave(0);
    });
}
