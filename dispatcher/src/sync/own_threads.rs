//! Which threads of the process this crate has started: what tells them from those of anybody else.

use super::unmodelled::Mutex;
use crate::sys::thread_id;

/// So many threads that have ended are remembered: the system may list one for a moment after it has left its code.
const REMEMBERED: usize = 64;

static THREADS: Mutex<Threads> = Mutex::new(Threads { starting: 0, running: Vec::new(), ended: Vec::new() });

struct Threads {
    /// Started, and not told their number yet.
    starting: usize,
    running: Vec<u32>,
    /// The last ones, the newest last.
    ended: Vec<u32>,
}

/// The numbers that the operating system has given to the threads of all runtimes and loop managers of this process,
/// those that ended a moment ago included; `None` while one is being started whose number is not known yet, or where the
/// system has no such numbers. Ask again then.
///
/// Whoever hosts code of others finds with it which threads that code has started.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{RuntimeBuilder, own_threads};
///
/// let runtime = RuntimeBuilder::new().threads(2).build()?;
/// let dispatcher = runtime.new_driver("driver").new_dispatcher(fuchsine_dispatcher::DispatcherBuilder::new())?;
/// # #[cfg(target_os = "linux")]
/// let ours = loop {
///     match own_threads() {
///         Some(threads) => break threads,
///         None => std::thread::yield_now(),
///     }
/// };
/// # #[cfg(target_os = "linux")]
/// assert!(ours.len() >= 2);
/// # drop(dispatcher);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn own_threads() -> Option<Vec<u32>> {
    let threads = THREADS.lock();
    (threads.starting == 0).then(|| threads.running.iter().chain(&threads.ended).copied().collect())
}

/// A thread that is being started: dropped if it is not, and otherwise moved into it.
pub(super) struct Starting;

/// A thread that runs.
pub(super) struct Running(Option<u32>);

impl Starting {
    pub(super) fn new() -> Starting {
        THREADS.lock().starting += 1;
        Starting
    }

    /// On the thread itself.
    pub(super) fn runs(self) -> Running {
        let id = thread_id::current();
        THREADS.lock().running.extend(id);
        Running(id)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        THREADS.lock().starting -= 1;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(id) = self.0 else { return };
        let mut threads = THREADS.lock();
        threads.running.retain(|&one| one != id);
        if threads.ended.len() == REMEMBERED {
            threads.ended.remove(0);
        }
        threads.ended.push(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::thread;

    fn own() -> Vec<u32> {
        loop {
            match own_threads() {
                Some(threads) => return threads,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_thread_is_ours_from_its_start_and_a_while_longer_than_its_end() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, until) = std::sync::mpsc::channel::<()>();
        let ours = thread::spawn("ours", move || {
            let _ = tell.send(thread_id::current());
            let _ = until.recv();
        });
        let id = told.recv().unwrap().expect("a system with numbers");
        assert!(own().contains(&id));
        drop(end);
        ours.unwrap().join().unwrap();
        assert!(own().contains(&id));
        #[expect(clippy::disallowed_methods, reason = "a thread that is not ours")]
        let others = std::thread::spawn(thread_id::current);
        assert!(!own().contains(&others.join().unwrap().unwrap()));
    }

    #[test]
    fn those_that_ended_are_forgotten_in_the_end() {
        for _ in 0..2 * REMEMBERED {
            thread::spawn("short", || {}).unwrap().join().unwrap();
        }
        assert!(THREADS.lock().ended.len() <= REMEMBERED);
    }
}
