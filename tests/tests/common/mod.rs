//! What the tests of the dispatcher share: a log of what happened, pools, hang limits.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuchsine_dispatcher::{Runtime, RuntimeBuilder};

/// After this long a test counts as hung. It is no measure of speed.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// An ordered record of what happened.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn new() -> Self {
        Log::default()
    }

    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(entry.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_empty()
    }
}

/// A runtime with this many threads.
#[track_caller]
pub(crate) fn pool_of(threads: usize) -> Runtime {
    RuntimeBuilder::new().threads(threads).build().expect("the system has threads")
}

/// Waits for one message, but not for ever.
#[track_caller]
pub(crate) fn within<T>(receiver: &Receiver<T>, what: &str) -> T {
    match receiver.recv_timeout(HANG) {
        Ok(value) => value,
        Err(error) => panic!("{what} did not come: {error}"),
    }
}

/// The counters of a runtime that is at rest: they add up, and nothing is pending.
#[track_caller]
pub(crate) fn add_up(runtime: &Runtime) {
    let counters = runtime.counters();
    assert!(counters.add_up(), "{counters:?}");
}

/// What became of a test that ran in a process of its own.
#[derive(Debug)]
pub(crate) struct ChildOutput {
    pub(crate) succeeded: bool,
    /// The signal that ended it, if one did.
    pub(crate) signal: Option<i32>,
    pub(crate) text: String,
}

/// Runs the calling test, whose name is `name`, again in a process of its own, where it may use up what all threads share,
/// or end the process. There `body` is called and the answer is `None`; here the answer is what became of it.
#[track_caller]
pub(crate) fn in_a_process_of_its_own(name: &str, body: impl FnOnce()) -> Option<ChildOutput> {
    const CHILD: &str = "FUCHSINE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        body();
        return None;
    }
    let own = std::env::current_exe().expect("a test knows its program");
    let output = std::process::Command::new(own)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .expect("the child starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("running 1 test"), "the child ran nothing: {text}");
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    Some(ChildOutput { succeeded: output.status.success(), signal, text: text.into_owned() })
}
