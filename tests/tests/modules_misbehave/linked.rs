//! The same of the driver that is linked in: there is no other way into it than that of a module, and the image is that of the host.

use std::io::{self, Write};
use std::mem;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuchsine_host::{DriverSummary, Host, Manifest, Registry, Source, StopError, Summary};
use fuchsine_tests::{
    nbd::Address,
    process::{HANG_LIMIT, eventually},
};
use tempfile::TempDir;

use super::MIB;
use super::module_support::converse_at;

/// As long as a stop that ends takes on a machine that is busy; what does not end is asked again.
const STOP_LIMIT: Duration = Duration::from_millis(200);

/// What drivers of this image have logged, which goes straight to the process's subscriber.
static LOG: Mutex<String> = Mutex::new(String::new());
/// Held by the one scene that there is at a time, to which the log belongs.
static ONE: Mutex<()> = Mutex::new(());

fn log() -> MutexGuard<'static, String> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        log().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Scene {
    host: Host,
    folder: TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Scene {
    /// The host, not started. What is done in no hook waits for [`trigger`](Self::trigger).
    fn new(flags: &str) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // Refused from the second time on.
        let _ = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Log).try_init();
        log().clear();
        let folder = TempDir::new().expect("a folder");
        let manifest = format!(
            "[host]\nthreads = 3\n[drivers.ramdisk]\nconfig = {{ size = \"1MiB\" }}\n\
             [drivers.nbd]\nconfig = {{ listen = \"127.0.0.1:0\" }}\n\
             [drivers.clumsy]\ndriver = \"misbehaver\"\nconfig = {{ trigger = \"unix:{}\", {flags} }}\n",
            folder.path().join("trigger").display()
        );
        let drivers = [&fuchsine_ramdisk::DRIVER, &fuchsine_nbd::DRIVER, &fuchsine_misbehaver::DRIVER];
        let registry = Registry::new(drivers).expect("three names");
        let plan =
            Manifest::parse(Source::named("test", manifest)).expect("it is read").plan(&registry).expect("it is one");
        let host = Host::builder(plan).build().expect("there is a runtime");
        host.start();
        Scene { host, folder, _one: one }
    }

    fn started(flags: &str) -> Self {
        let scene = Scene::new(flags);
        scene.host.wait_started(HANG_LIMIT).expect("it starts");
        scene
    }

    /// Has it done.
    fn trigger(&self) {
        drop(UnixStream::connect(self.folder.path().join("trigger")).expect("the driver listens"));
    }

    fn has_said(&self, words: &str) -> bool {
        log().contains(words)
    }

    fn others_work(&self) {
        let address =
            self.host.addresses().into_iter().find(|address| address.starts_with("nbd:")).expect("nbd serves");
        converse_at(&Address::parse(&address), MIB);
    }

    fn clumsy_has_failed(&self) -> bool {
        self.host.drivers().iter().any(|driver| driver.name() == "clumsy" && driver.failure().is_some())
    }

    /// The host stops, whatever the driver has done, and the others have stopped in order.
    fn stop(self, flags: &str) -> Summary {
        let summary = self.host.stop(HANG_LIMIT).unwrap_or_else(|error| panic!("{flags}: {error}"));
        for other in summary.drivers().iter().filter(|driver| driver.driver() != "clumsy") {
            assert_eq!((other.failure(), other.counters().pending), (None, 0), "{flags}: {other:?}");
        }
        assert_eq!(summary.drivers().len(), 3, "{flags}: {summary:?}");
        summary
    }

    /// The host stops but for that driver, whose thread stays with it: the process has to end to be rid of it.
    fn stop_without_clumsy(self, flags: &str) -> StopError {
        let error = loop {
            let error = self.host.stop(STOP_LIMIT).expect_err(flags);
            if error.summary().drivers().len() == 2 {
                break error;
            }
        };
        let Scene { host, .. } = self;
        mem::forget(host);
        error
    }
}

fn clumsy(summary: &Summary) -> &DriverSummary {
    summary.drivers().iter().find(|driver| driver.driver() == "clumsy").expect("it is one of them")
}

#[test]
fn a_panic_anywhere_costs_that_driver_alone_and_is_told() {
    for (moment, says) in [
        ("task", "misbehaves in Task"),
        ("future", "misbehaves in Future"),
        ("prepare_stop", "misbehaves in PrepareStop"),
        ("canceled", "misbehaves in Canceled"),
        ("stop", "misbehaves in Stop"),
        ("drop", "misbehaves in Drop"),
    ] {
        let flags = format!("panic = {moment:?}");
        let scene = Scene::started(&flags);
        scene.trigger();
        if matches!(moment, "task" | "future") {
            eventually(says, || scene.clumsy_has_failed());
        } else {
            eventually("triggered", || scene.has_said("is triggered"));
        }
        scene.others_work();
        let summary = scene.stop(&flags);
        let failure = clumsy(&summary).failure().unwrap_or_else(|| panic!("{flags}: no failure is told"));
        assert!(failure.contains(says), "{flags}: {failure}");
    }
    let scene = Scene::started("panic = \"work\"");
    scene.trigger();
    eventually("it panics", || scene.has_said("moment=Work"));
    scene.others_work();
    assert_eq!(clumsy(&scene.stop("work")).failure(), None, "whoever waits for the work is told");
}

#[test]
fn a_start_that_panics_or_fails_is_told_and_what_had_started_is_stopped() {
    for (flags, says) in [("panic = \"start\"", "misbehaves in Start"), ("fail = \"start\"", "it was told to fail")] {
        let scene = Scene::new(flags);
        let error = scene.host.wait_started(HANG_LIMIT).expect_err(flags).to_string();
        assert!(error.contains("clumsy") && error.contains(says), "{flags}: {error}");
        let summary = scene.host.stop(HANG_LIMIT).expect("the others stop");
        assert!(summary.drivers().iter().all(|driver| driver.counters().pending == 0), "{flags}: {summary:?}");
    }
}

#[test]
fn what_blocks_is_named_and_the_others_work_and_stop() {
    for moment in ["task", "future", "work", "prepare_stop", "canceled", "stop", "drop"] {
        let flags = format!("block = {moment:?}");
        let scene = Scene::started(&flags);
        scene.trigger();
        match moment {
            "task" | "future" | "work" => eventually("it blocks", || scene.has_said("blocks its thread")),
            _ => eventually("triggered", || scene.has_said("is triggered")),
        }
        scene.others_work();
        let error = scene.stop_without_clumsy(&flags).to_string();
        assert!(error.contains("clumsy"), "{flags}: {error}");
    }
}

#[test]
fn whatever_else_it_does_keeps_nobody_from_working_and_stopping() {
    for flags in [
        "leak = \"1MiB\", leak_handles = true",
        "post_forever = true",
        "thread_locals = true",
        "threads = 2",
        "close_everything = true",
    ] {
        let scene = Scene::started(flags);
        scene.trigger();
        eventually("triggered", || scene.has_said("is triggered"));
        scene.others_work();
        let summary = scene.stop(flags);
        assert_eq!(clumsy(&summary).counters().pending, 0, "{flags}: {summary:?}");
    }
}
