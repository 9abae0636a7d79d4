//! Signals: they end the loops, or call a handler. All tests of this file take turns, as a signal concerns the whole
//! process.

mod loop_support;

use std::io::{ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};

use fuchsine_dispatcher::Status;
use fuchsine_dispatcher::event_loop::LoopManager;
use loop_support::{Log, join, run_one, shutdown};
use rustix::process::{Signal, getpid, kill_process};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn send(signal: Signal) {
    kill_process(getpid(), signal).unwrap();
}

fn ends_by(signal: Signal) {
    let _turn = turn();
    let log = Log::new();
    let (started, torn_down) = (log.clone(), log.clone());
    let manager = LoopManager::builder()
        .loops(2)
        .setup(1, move |_| {
            started.add("setup");
            send(signal);
        })
        .teardown(0, move |event_loop| {
            assert!(event_loop.is_shutting_down());
            torn_down.add("teardown");
        })
        .build()
        .unwrap();
    join(manager.spawn().unwrap());
    assert_eq!(log.text(), "setup teardown");
}

/// Shows L3, S5, C10.
#[test]
fn sigterm_ends_the_loops_in_order() {
    ends_by(Signal::TERM);
}

/// Shows L3, S5.
#[test]
fn sigint_ends_the_loops_in_order() {
    ends_by(Signal::INT);
}

/// Shows S1.
#[test]
fn a_handler_is_called_on_its_loop_and_two_handlers_are_both_called() {
    let _turn = turn();
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let loop_thread = std::thread::current().id();
        let number = Signal::USR1.as_raw();
        let first = entries.clone();
        let one = event_loop.signal(number, move |_, signal| {
            assert_eq!((signal, std::thread::current().id()), (number, loop_thread));
            first.add("one");
        });
        let other = event_loop.signal(number, move |event_loop, _| {
            entries.add("other");
            event_loop.async_run(shutdown).unwrap();
        });
        let handlers = (one.unwrap(), other.unwrap());
        assert_eq!(handlers.0.signal(), number);
        event_loop.teardown(move |_| drop(handlers)).unwrap();
        send(Signal::USR1);
    });
    assert_eq!(log.text(), "one other");
}

/// Shows S4.
#[test]
fn signals_in_quick_succession_lead_to_at_least_one_call() {
    let _turn = turn();
    run_one(|event_loop| {
        let handler = event_loop.signal(Signal::USR2.as_raw(), |event_loop, _| shutdown(event_loop)).unwrap();
        (0..3).for_each(|_| send(Signal::USR2));
        // Never dropped: a signal that another thread takes late must not meet the default action.
        std::mem::forget(handler);
    });
}

#[test]
fn a_signal_that_no_program_can_handle_is_refused() {
    run_one(|event_loop| {
        for signal in [Signal::KILL, Signal::STOP, Signal::SEGV] {
            let refused = event_loop.signal(signal.as_raw(), |_, _| {}).unwrap_err();
            assert_eq!(refused.status(), Status::InvalidArgs, "{refused}");
        }
        assert!(event_loop.signal(4_000, |_, _| {}).is_err(), "there is no such signal");
        shutdown(event_loop);
    });
}

/// Set for a process of this test binary that is to die of a signal.
const CHILD: &str = "FUCHSINE_TEST_SIGNAL_CHILD";

/// Shows L14, S6.
#[test]
fn once_the_loops_have_ended_the_signal_does_again_what_it_does_by_default() {
    if std::env::var_os(CHILD).is_some() {
        join(LoopManager::builder().loops(1).setup(0, |_| send(Signal::TERM)).build().unwrap().spawn().unwrap());
        send(Signal::TERM);
        loop {
            std::thread::park();
        }
    }
    let _turn = turn();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "once_the_loops_have_ended_the_signal_does_again_what_it_does_by_default"])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()), "{status}");
}

#[test]
fn loops_that_leave_signals_alone_are_not_ended_by_them() {
    let _turn = turn();
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        // A handler of our own keeps the default action away; the manager has none.
        let handler = event_loop.signal(Signal::TERM.as_raw(), move |event_loop, _| {
            entries.add("handler");
            assert!(!event_loop.is_shutting_down());
            event_loop.async_run(shutdown).unwrap();
        });
        let handler = handler.unwrap();
        event_loop.teardown(move |_| drop(handler)).unwrap();
        send(Signal::TERM);
    });
    assert_eq!(log.text(), "handler");
}

/// Shows S7.
#[test]
fn writing_to_a_pipe_that_nobody_reads_is_an_error_and_no_signal() {
    let _turn = turn();
    run_one(|event_loop| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(writer.write_all(b"!").unwrap_err().kind(), ErrorKind::BrokenPipe);
        shutdown(event_loop);
    });
}

/// Shows L23, S6.
#[test]
fn a_handler_can_be_taken_away_for_a_while_and_made_again() {
    let _turn = turn();
    run_one(|event_loop| {
        let signal = Signal::USR1;
        let first = event_loop.signal(signal.as_raw(), |_, _| unreachable!("it was taken away")).unwrap();
        drop(first);
        let again = event_loop
            .signal(signal.as_raw(), |event_loop, number| {
                assert_eq!(number, Signal::USR1.as_raw());
                shutdown(event_loop);
            })
            .unwrap();
        send(signal);
        event_loop.teardown(move |_| drop(again)).unwrap();
    });
}

/// Shows S3, L19.
#[test]
fn a_handler_that_is_never_dropped_keeps_no_loop_from_ending() {
    let _turn = turn();
    let summary = run_one(|event_loop| {
        std::mem::forget(event_loop.signal(Signal::WINCH.as_raw(), |_, _| {}).unwrap());
        shutdown(event_loop);
    });
    assert_eq!(summary.loops[0].dropped, []);
}
