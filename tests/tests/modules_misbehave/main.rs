//! Goal: whatever a driver does wrong, the others live on, and the log says what happened and who did it.
//! Method: the example `misbehaver` as a module (here), linked in (`linked`), and its like in C (`in_c`), beside a linked ramdisk
//! that is served by a linked nbd; one misdeed a host, a conversation with the others while it happens, and the exit code and
//! the log of the stop.

mod in_c;
mod linked;
#[path = "../module_support/mod.rs"]
mod module_support;

use std::os::unix::net::UnixStream;

use fuchsine_tests::{
    host::{Host, command},
    process::{Finished, HANG_LIMIT, Process, eventually, run},
    summary::Summary,
};
use module_support::{Folder, converse};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
/// Exit code: a driver failed.
const DRIVER_FAILED: i32 = 1;
/// Exit code: the stop deadline passed.
const STOP_DEADLINE: i32 = 6;

/// A host with one that misbehaves and two that do not.
struct Scene {
    folder: Folder,
    manifest: String,
}

impl Scene {
    /// `flags` is what the driver is told to do. What it does in no hook waits for [`trigger`](Self::trigger).
    fn new(flags: &str) -> Self {
        let folder = Folder::new();
        folder.module("misbehaver");
        let trigger = folder.path().join("trigger");
        Self::of(folder, "libmisbehaver.so", &format!("trigger = \"unix:{}\", {flags}", trigger.display()))
    }

    /// One with this module of the folder.
    fn of(folder: Folder, module: &str, flags: &str) -> Self {
        // Only one that blocks is to be given up: to print a panic takes a busy machine a second.
        let stop_timeout_ms = if flags.contains("block") { 700 } else { 60_000 };
        let manifest = format!(
            "[host]\nthreads = 3\nstop_timeout_ms = {stop_timeout_ms}\n\
             [drivers.ramdisk]\nconfig = {{ size = \"1MiB\" }}\n\
             [drivers.nbd]\nconfig = {{ listen = \"127.0.0.1:0\" }}\n\
             [drivers.clumsy]\nmodule = {module:?}\nconfig = {{ {flags} }}\n",
        );
        Self { folder, manifest }
    }

    fn start(&self) -> Host {
        self.folder.run(&self.manifest, &["--log", "debug"])
    }

    /// Has it done, and waits until the host has logged `sign`.
    fn trigger(&self, host: &Host, sign: &str) {
        drop(UnixStream::connect(self.folder.path().join("trigger")).expect("the driver listens"));
        eventually(sign, || host.stderr_so_far().contains(sign));
    }
}

fn end(host: Host, code: i32) -> Finished {
    host.signal(Signal::TERM);
    host.wait(HANG_LIMIT).expect_code(code)
}

/// The other drivers have stopped in order.
#[track_caller]
fn others_are_well(finished: &Finished) {
    let summary = Summary::parse(&finished.stderr);
    let others: Vec<_> = summary.drivers().filter(|driver| driver.name != "clumsy").collect();
    assert_eq!(others.len(), 2, "{}", finished.stderr);
    assert!(others.iter().all(|driver| driver.pending == 0), "{others:?}");
}

/// A line of the log with all these words.
#[track_caller]
fn said(finished: &Finished, words: &[&str]) {
    let line = finished.stderr.lines().find(|line| words.iter().all(|word| line.contains(word)));
    assert!(line.is_some(), "no line with {words:?} in\n{}", finished.stderr);
}

#[test]
fn a_panic_while_it_runs_stops_that_driver_alone() {
    for (moment, says) in [("task", "misbehaves in Task"), ("future", "misbehaves in Future")] {
        let scene = Scene::new(&format!("panic = \"{moment}\""));
        let host = scene.start();
        scene.trigger(&host, &format!("panicked: {says}"));
        converse(&host, MIB);
        let finished = end(host, DRIVER_FAILED);
        others_are_well(&finished);
        said(&finished, &["ERROR", &format!("panic: {says}"), "driver=\"clumsy\"", "deeds.rs:"]);
    }
}

#[test]
fn a_panic_of_offloaded_work_is_told_to_whoever_waits_for_it_and_ends_nobody() {
    let scene = Scene::new("panic = \"work\"");
    let host = scene.start();
    scene.trigger(&host, "panic: misbehaves in Work");
    converse(&host, MIB);
    let finished = end(host, 0);
    others_are_well(&finished);
    said(&finished, &["ERROR", "panic: misbehaves in Work", "driver=\"clumsy\""]);
}

#[test]
fn a_panic_in_each_hook_of_the_stop_is_caught_and_the_stop_goes_on() {
    for (moment, says) in
        [("prepare_stop", "PrepareStop"), ("stop", "Stop"), ("drop", "Drop"), ("canceled", "Canceled")]
    {
        let scene = Scene::new(&format!("panic = \"{moment}\""));
        let host = scene.start();
        if moment == "canceled" {
            scene.trigger(&host, "is triggered");
        }
        converse(&host, MIB);
        let finished = end(host, DRIVER_FAILED);
        others_are_well(&finished);
        said(&finished, &["ERROR", &format!("panic: misbehaves in {says}"), "driver=\"clumsy\""]);
    }
}

#[test]
fn a_start_that_panics_or_fails_is_told_and_what_had_started_is_stopped() {
    for (flags, says) in [("panic = \"start\"", "misbehaves in Start"), ("fail = \"start\"", "it was told to fail")] {
        let scene = Scene::new(flags);
        let manifest = scene.folder.manifest(&scene.manifest);
        let finished = run(command().arg(manifest)).expect_code(DRIVER_FAILED);
        assert!(finished.stdout.is_empty(), "no ready line: {:?}", finished.stdout);
        others_are_well(&finished);
        said(&finished, &["ERROR", says, "driver=\"clumsy\""]);
    }
}

#[test]
fn a_thread_that_is_blocked_holds_up_nobody_else_and_is_named_at_the_stop() {
    for moment in ["task", "future", "work"] {
        let scene = Scene::new(&format!("block = \"{moment}\""));
        let host = scene.start();
        scene.trigger(&host, "blocks its thread");
        converse(&host, MIB);
        let finished = end(host, STOP_DEADLINE);
        said(&finished, &["has not stopped: the host waits for", "driver=\"clumsy\""]);
        let others = ["nbd", "ramdisk"].map(|name| format!("driver=\"{name}\" node="));
        assert!(
            others.iter().all(|other| finished.stderr.contains(&format!("stopped {other}"))),
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn a_hook_of_the_stop_that_blocks_is_named_and_the_others_have_stopped() {
    for moment in ["prepare_stop", "stop", "drop", "canceled"] {
        let scene = Scene::new(&format!("block = \"{moment}\""));
        let host = scene.start();
        if moment == "canceled" {
            scene.trigger(&host, "is triggered");
        }
        converse(&host, MIB);
        let finished = end(host, STOP_DEADLINE);
        said(&finished, &["blocks its thread", "driver=\"clumsy\""]);
        said(&finished, &["has not stopped: the host waits for", "driver=\"clumsy\""]);
        said(&finished, &["stopped", "driver=\"nbd\""]);
        said(&finished, &["stopped", "driver=\"ramdisk\""]);
    }
}

#[test]
fn a_start_that_blocks_keeps_the_host_from_being_ready_and_not_from_ending() {
    let scene = Scene::new("block = \"start\"");
    let manifest = scene.folder.manifest(&scene.manifest);
    let process = Process::start(command().arg(manifest));
    eventually("it blocks", || process.stderr_so_far().contains("blocks its thread"));
    process.signal(Signal::TERM);
    let finished = process.wait(HANG_LIMIT).expect_code(STOP_DEADLINE);
    said(&finished, &["has not stopped", "driver=\"clumsy\""]);
}

/// The others have a conversation, and all stop with nothing pending.
fn works_and_stops(host: Host, flags: &str) {
    converse(&host, MIB);
    let finished = end(host, 0);
    others_are_well(&finished);
    let summary = Summary::parse(&finished.stderr);
    let clumsy = summary.drivers().find(|driver| driver.name == "clumsy").expect("it has stopped too");
    assert_eq!(clumsy.pending, 0, "{flags}: {clumsy:?}");
}

#[test]
fn what_it_leaks_and_posts_for_ever_keeps_nobody_from_working_and_stopping() {
    for flags in ["leak = \"1MiB\", leak_handles = true", "post_forever = true"] {
        let scene = Scene::new(flags);
        let host = scene.start();
        scene.trigger(&host, "is triggered");
        works_and_stops(host, flags);
    }
}

#[test]
fn values_that_it_leaves_on_threads_are_dropped_by_its_code_when_they_end() {
    let scene = Scene::new("thread_locals = true");
    let host = scene.start();
    scene.trigger(&host, "is triggered");
    converse(&host, MIB);
    let finished = end(host, 0);
    others_are_well(&finished);
    // The driver is gone by then, and its code is not.
    let (gone, dropped) = ("all drivers have stopped", "a value left on a thread is dropped");
    said(&finished, &[gone]);
    said(&finished, &[dropped, "driver=\"misbehaver\""]);
}

#[test]
fn threads_that_it_leaves_behind_are_named_and_end_with_the_process() {
    let scene = Scene::new("threads = 3");
    let host = scene.start();
    scene.trigger(&host, "leaves a thread behind");
    converse(&host, MIB);
    let finished = end(host, 0);
    others_are_well(&finished);
    for n in 0..3 {
        said(&finished, &["WARN", "left a thread behind", "driver=\"clumsy\"", &format!("thread=\"left-behind-{n}\"")]);
    }
    let told = finished.stderr.matches("left a thread behind, which").count();
    assert_eq!(told, 3, "and none but these: {}", finished.stderr);
}

#[test]
fn one_that_shuts_its_own_dispatcher_down_harms_itself_only() {
    let scene = Scene::new("close_everything = true");
    let host = scene.start();
    scene.trigger(&host, "is triggered");
    converse(&host, MIB);
    host.signal(Signal::TERM);
    let finished = host.wait(HANG_LIMIT);
    assert!(matches!(finished.status.code(), Some(0 | DRIVER_FAILED)), "{finished:?}");
    others_are_well(&finished);
}
