//! The same of a driver in C, `host/abi/tests/c/clumsy.c`. It does not panic, as C does not; a signal ends the process, which is
//! for drivers with one of their own.

use fuchsine_tests::{
    command::c_library,
    host::{Host, command},
    process::{HANG_LIMIT, Process, eventually},
    source,
};
use rustix::process::Signal;

use super::module_support::{Folder, build, build_with, converse};
use super::{DRIVER_FAILED, MIB, STOP_DEADLINE, Scene, end, others_are_well, said, works_and_stops};

const SOURCE: &str = "host/abi/tests/c/clumsy.c";

/// A host with it that runs and, where that is to come by itself, has done what it is told to; `None` after a loud line if there
/// is no compiler.
#[track_caller]
fn scene(flags: &str, sign: &str) -> Option<(Scene, Host)> {
    let folder = Folder::new();
    build(&source::root().join(SOURCE), &folder, "libclumsy.so")?;
    let scene = Scene::of(folder, "libclumsy.so", flags);
    let host = scene.start();
    eventually(sign, || host.stderr_so_far().contains(sign));
    Some((scene, host))
}

#[test]
fn a_callback_that_blocks_holds_up_nobody_else_and_is_named_at_the_stop() {
    for (moment, sign) in
        [("task", "blocks its thread"), ("canceled", "is clumsy"), ("stop", "is clumsy"), ("destroy", "is clumsy")]
    {
        let Some((_scene, host)) = scene(&format!("block = {moment:?}"), sign) else { return };
        converse(&host, MIB);
        let finished = end(host, STOP_DEADLINE);
        said(&finished, &["has not stopped: the host waits for", "driver=\"clumsy\""]);
        said(&finished, &["stopped", "driver=\"nbd\""]);
        said(&finished, &["stopped", "driver=\"ramdisk\""]);
    }
}

#[test]
fn a_start_that_blocks_keeps_the_host_from_being_ready_and_not_from_ending() {
    for initialize in [false, true] {
        let folder = Folder::new();
        let library = c_library().parent().expect("a file is in a folder").display().to_string();
        let mut options = vec!["-L".to_owned(), library.clone(), "-lfuchsine".into(), format!("-Wl,-rpath,{library}")];
        options.extend(initialize.then(|| "-DCLUMSY_INITIALIZE".into()));
        let Some(_) = build_with(&source::root().join(SOURCE), &folder, "libclumsy.so", &options) else { return };
        let scene = Scene::of(folder, "libclumsy.so", "block = \"start\"");
        let process = Process::start(command().arg(scene.folder.manifest(&scene.manifest)));
        eventually("it blocks", || process.stderr_so_far().contains("blocks its thread"));
        process.signal(Signal::TERM);
        let finished = process.wait(HANG_LIMIT).expect_code(STOP_DEADLINE);
        said(&finished, &["has not stopped", "driver=\"clumsy\""]);
    }
}

#[test]
fn what_it_leaks_and_posts_for_ever_keeps_nobody_from_working_and_stopping() {
    for flags in ["leak = true", "post = true"] {
        let Some((_scene, host)) = scene(flags, "is clumsy") else { return };
        works_and_stops(host, flags);
    }
}

#[test]
fn threads_that_it_leaves_behind_are_named_and_end_with_the_process() {
    let Some((_scene, host)) = scene("threads = 2", "is clumsy") else { return };
    converse(&host, MIB);
    let finished = end(host, 0);
    others_are_well(&finished);
    for n in 0..2 {
        said(&finished, &["WARN", "left a thread behind", "driver=\"clumsy\"", &format!("thread=\"left-behind-{n}\"")]);
    }
}

#[test]
fn one_that_closes_its_node_or_everything_harms_itself_only() {
    for what in ["node", "everything"] {
        let Some((_scene, host)) = scene(&format!("close = {what:?}"), &format!("closes {what}")) else { return };
        converse(&host, MIB);
        host.signal(Signal::TERM);
        let finished = host.wait(HANG_LIMIT);
        assert!(matches!(finished.status.code(), Some(0 | DRIVER_FAILED)), "{what}: {finished:?}");
        others_are_well(&finished);
    }
}
