//! Goal: a clean driver of a module can be started and stopped as often as one likes: nothing is left of it each time.
//! Method: ten thousand hosts one after the other, each with one instance of a loaded driver; the memory of the process
//! is looked at when everything that is kept for ever has been made, and at the end.

mod module_support;

use std::time::Duration;

use fuchsine_host::{Host, Manifest, Module, Registry, Source};
use fuchsine_tests::process::{HANG_LIMIT, open_files, resident_bytes};
use module_support::Folder;

const CYCLES: usize = 10_000;
/// What an allocator may take more for the same work; a leak of 100 bytes a cycle is more.
const SLACK: u64 = 768 << 10;

#[test]
fn ten_thousand_starts_and_stops_of_a_loaded_driver_leave_nothing_behind() {
    let folder = Folder::new();
    let module = Module::load(&folder.module("misbehaver")).expect("it is loaded");
    let registry = Registry::new(module.drivers().iter().copied()).unwrap();
    let manifest = Manifest::parse(Source::named("test", "[host]\nthreads = 1\n[drivers.misbehaver]\n")).unwrap();
    let plan = manifest.plan(&registry).unwrap();
    let me = rustix::process::getpid();
    let cycle = || {
        let host = Host::builder(plan.clone()).build().unwrap();
        host.start();
        host.wait_started(HANG_LIMIT).expect("it starts");
        let summary = host.stop(Duration::from_secs(60)).expect("it stops");
        assert!(!summary.has_failed());
    };
    (0..CYCLES / 5).for_each(|_| cycle());
    let (memory, files) = (resident_bytes(me), open_files(me));
    (0..CYCLES - CYCLES / 5).for_each(|_| cycle());
    let grown = resident_bytes(me).saturating_sub(memory);
    assert!(grown < SLACK, "{grown} bytes more after {CYCLES} cycles");
    assert_eq!(open_files(me), files, "open files");
}
