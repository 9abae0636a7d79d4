//! Goal: a program in C behaves against our library as against the driver runtime of Fuchsia.
//! Method: each file of `host/abi/tests/c` is compiled and linked, and each of its claims runs in a process of its own.

use fuchsine_tests::c::check;

#[test]
fn dispatchers_are_made_current_and_shut_down_as_in_fdf() {
    check("dispatcher.c");
}

#[test]
fn the_environment_starts_ends_and_starts_again() {
    check("env.c");
}

#[test]
fn tasks_receivers_and_sequence_ids_are_those_of_lib_async() {
    check("async.c");
}

#[test]
fn unmanaged_dispatchers_run_when_a_test_runs_them() {
    check("testing.c");
}

#[test]
fn waits_and_interrupts_follow_the_signals_of_objects() {
    check("wait.c");
}

#[test]
fn arenas_channels_calls_and_tokens_keep_the_duties_of_fdf() {
    check("channel.c");
}
