//! Threads that a module has started and not ended.
//!
//! A driver owns no thread, but nothing keeps one of a module from starting some. What runs when it has stopped is found
//! by comparison: the threads that the process has, without those that it had when the driver started, and without those
//! of the runtime. Code of a module is never unmapped, so such a thread is no danger by that; but nobody waits for it,
//! and it may use what its driver has given back.

use std::collections::BTreeSet;
use std::time::Duration;

use fuchsine_dispatcher::own_threads;
use parking_lot::Mutex;

use super::scribe;

/// How often the runtime is asked again while it starts a thread, and the pause between. A yield would do on an idle
/// machine; on a loaded one it comes back before the thread that starts has had its turn.
const PATIENCE: usize = 500;
const PAUSE: Duration = Duration::from_millis(1);

/// The threads of the process at some moment.
#[derive(Debug)]
pub(super) struct Census(BTreeSet<u32>);

/// A thread that nobody answers for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stray {
    pub(super) id: u32,
    pub(super) name: String,
}

impl Census {
    /// The threads of this moment; none that the system does not list.
    pub(super) fn take() -> Census {
        Census(threads())
    }

    /// Those that have come since and still run, without those of the runtime; each is told once, whoever asks.
    pub(super) fn strays(&self) -> Vec<Stray> {
        static TOLD: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
        // Looked at before the runtime is asked: what that starts in between is no stray.
        let threads = threads();
        let Some(own) = (0..PATIENCE).find_map(|_| {
            let own = own_threads();
            if own.is_none() {
                std::thread::sleep(PAUSE);
            }
            own
        }) else {
            return Vec::new();
        };
        let mut told = TOLD.lock();
        told.retain(|id| threads.contains(id));
        let strays = threads
            .iter()
            .filter(|id| !self.0.contains(id) && !own.contains(id) && !told.contains(id) && !scribe::is(**id));
        let strays: Vec<Stray> = strays.filter_map(|&id| Some(Stray { id, name: name(id)? })).collect();
        told.extend(strays.iter().map(|stray| stray.id));
        strays
    }
}

fn threads() -> BTreeSet<u32> {
    let listed = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The name of a thread; `None` if it has ended.
fn name(id: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/task/{id}/comm")).ok().map(|name| name.trim_end().to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_that_came_and_stays_is_told_once_and_one_that_was_there_is_not() {
        let start = |name: &str| {
            let (end, until) = mpsc::channel::<()>();
            let (tell, told) = mpsc::channel();
            let body = move || {
                let _ = tell.send(());
                let _ = until.recv();
            };
            let handle = std::thread::Builder::new().name(name.into()).spawn(body).unwrap();
            told.recv().unwrap();
            (end, handle)
        };
        let before = start("was-there");
        let census = Census::take();
        let after = start("came-after");
        let gone = start("came-and-went");
        drop(gone.0);
        gone.1.join().unwrap();
        let runtime = fuchsine_dispatcher::RuntimeBuilder::new().threads(3).build().unwrap();
        // Other tests of this process start threads as well.
        let names: Vec<String> = census.strays().into_iter().map(|stray| stray.name).collect();
        assert!(names.iter().any(|name| name == "came-after"), "{names:?}");
        assert!(!names.iter().any(|name| name == "was-there" || name.starts_with("fuchsine")), "{names:?}");
        assert!(!census.strays().iter().any(|stray| stray.name == "came-after"), "told once");
        drop((runtime, before.0, after.0));
        before.1.join().unwrap();
        after.1.join().unwrap();
    }
}
