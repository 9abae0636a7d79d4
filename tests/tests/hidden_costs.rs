//! Goal: the hot paths do nothing that their callers would not expect: no system call, no reading of the clock.
//! Method: a program does each path so many times, and many more times. What others count of it, for the threads that
//! post and run callbacks, must be the same both times, but for what the operations need by themselves.
//!
//! strace counts system calls. The kernel has the clock read without one, so valgrind counts that: what runs under it
//! does not have the kernel's shared page, and has to make a call.

use std::process::Command;

use fuchsine_tests::clients::require_client;
use fuchsine_tests::command::hot_paths;
use fuchsine_tests::process::run;

const FEW: usize = 1_000;
const MORE: usize = 10_000;

/// So few calls say nothing of the operations: a thread goes to sleep once more or less.
const NOISE: usize = MORE / 100;
/// A busy thread looks whether a timer is due, or a descriptor ready, once in 61 turns.
const LOOKS_IN_ROUND_TRIPS: usize = MORE * 2 / 61;

/// Each system call of a thread is a line that begins with the number of the thread. How the allocator gets its memory is
/// its own affair.
fn system_calls(strace: &Command, path: &str, operations: usize) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("calls");
    let mut command = Command::new(strace.get_program());
    command.args(["-f", "-e", "trace=!%memory", "-o"]).arg(&file).arg(hot_paths()).args([
        "run",
        path,
        &operations.to_string(),
    ]);
    run(&mut command).expect_success();
    let text = std::fs::read_to_string(file).expect("strace writes it");
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    // Signals, the ends of threads, and the ends of calls that another thread's line has cut in two.
    let calls = lines.filter(|(_, what)| !what.trim_start().starts_with(['+', '-', '<']));
    of_the_first_two(calls.map(|(thread, _)| thread))
}

/// Each reading of the clock is a line `SYSCALL[process,thread](number) sys_clock_gettime(…`.
fn clock_readings(valgrind: &Command, path: &str, operations: usize) -> usize {
    let mut command = Command::new(valgrind.get_program());
    command.args(["--tool=none", "--trace-syscalls=yes"]).arg(hot_paths());
    let finished = run(command.args(["run", path, &operations.to_string()])).expect_success();
    let calls = finished.stderr.lines().filter_map(|line| line.strip_prefix("SYSCALL["));
    let calls = calls.filter_map(|call| {
        let (thread, call) = call.split_once(']')?;
        Some((thread.split_once(',')?.1, call.contains("clock_gettime")))
    });
    let calls: Vec<_> = calls.collect();
    assert!(!calls.is_empty(), "valgrind lists no system call:\n{}", finished.stderr);
    calls.iter().filter(|(thread, is_clock)| *is_clock && ["1", "2"].contains(thread)).count()
}

/// How many there are of the first two threads: the one that posts, and the one of the pool. Others come later, such as
/// the pool's watch, which looks at times.
fn of_the_first_two<'a>(threads: impl Iterator<Item = &'a str>) -> usize {
    let mut first: Vec<&str> = Vec::new();
    threads
        .filter(|thread| {
            if first.len() < 2 && !first.contains(thread) {
                first.push(thread);
            }
            first.contains(thread)
        })
        .count()
}

/// How many more there are for so many more operations.
fn growth(count: impl Fn(usize) -> usize) -> usize {
    let few = count(FEW);
    count(FEW + MORE).saturating_sub(few)
}

#[test]
fn posts_calls_wakes_and_timers_on_an_awake_pool_make_no_system_call() {
    let Some(strace) = require_client("strace").map(Command::new) else { return };
    for path in ["self-post", "outside-post", "inline", "wake", "spawn", "timer", "shutdown"] {
        let calls = growth(|operations| system_calls(&strace, path, operations));
        assert!(calls < NOISE, "{path}: {calls} system calls for {MORE} operations");
    }
}

#[test]
fn a_busy_thread_asks_the_system_for_nothing_while_no_descriptor_is_waited_for() {
    let Some(strace) = require_client("strace").map(Command::new) else { return };
    for path in ["cross-post", "hop"] {
        let calls = growth(|operations| system_calls(&strace, path, operations));
        assert!(calls < NOISE, "{path}: {calls} system calls for {MORE} round trips");
    }
}

#[test]
fn no_callback_reads_the_clock() {
    let Some(valgrind) = require_client("valgrind").map(Command::new) else { return };
    for path in ["self-post", "outside-post", "inline", "wake", "spawn", "shutdown"] {
        let readings = growth(|operations| clock_readings(&valgrind, path, operations));
        assert!(readings < NOISE, "{path}: the clock was read {readings} times for {MORE} operations");
    }
    // From now on so long: that takes one reading.
    let readings = growth(|operations| clock_readings(&valgrind, "timer", operations));
    assert!(readings < MORE + NOISE, "the clock was read {readings} times for {MORE} timers");
    // A look reads it twice: before, and after.
    let readings = growth(|operations| clock_readings(&valgrind, "cross-post", operations));
    assert!(readings < 2 * LOOKS_IN_ROUND_TRIPS + NOISE, "{readings} times for {MORE} round trips");
}
