//! [`TaskScope`]: tasks and futures that end with the scope that they were posted in.
//!
//! Each has an entry in the list of the scope from its post to its end. An entry is made before the post and filled after
//! it, so a task that ends in between finds its entry and removes it. The drop of the scope takes the list and takes back
//! or cancels what is in it, with no lock held.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::join::JoinHandle;
use super::spawn::SpawnError;
use crate::runtime::callback_queue::{Invoke, Outcome};
use crate::runtime::{DispatcherHandle, PostError, TaskHandle};
use crate::status::Status;
use crate::sync::{Arc, FirstPanic, Mutex};
use crate::time::Instant;

/// Posts tasks and futures that live no longer than the scope itself.
///
/// When the scope is dropped, what waits is taken back and its closures are dropped there and then; futures are canceled,
/// and dropped on their dispatcher. What is running at that moment finishes. When the dispatcher shuts down first, what
/// waits is dropped on it, uncalled. So a task is called at most once, and needs no word for "canceled". If the drop of a
/// closure panics, the others end all the same, then the panic goes on.
///
/// A member of an object that its tasks refer to is the place for it: when the object goes, so do they.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{DispatcherBuilder, TaskScope};
/// use fuchsine_dispatcher::testing::ForegroundRuntime;
/// use std::time::Duration;
///
/// let runtime = ForegroundRuntime::new();
/// let dispatcher = runtime.new_driver("lamp").new_dispatcher(DispatcherBuilder::new())?;
/// let scope = TaskScope::new(&dispatcher);
/// scope.post(|| println!("on"))?;
/// runtime.run_until_idle();
/// scope.post_after(Duration::from_secs(60), || unreachable!("the lamp is gone"))?;
/// drop(scope);
/// runtime.advance(Duration::from_secs(60));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the scope ends what was posted in it"]
pub struct TaskScope {
    dispatcher: DispatcherHandle,
    entries: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    next: u64,
    /// By number, so the oldest first.
    list: BTreeMap<u64, Entry>,
}

enum Entry {
    /// Its post is under way.
    Posting,
    Task(TaskHandle),
    Future(JoinHandle<()>),
}

/// Removes an entry when the task or the future ends.
struct Ticket {
    entries: Arc<Mutex<Entries>>,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let entry = self.entries.lock().list.remove(&self.number);
        drop(entry);
    }
}

struct ScopedFn<F> {
    task: F,
    ticket: Ticket,
}

impl<F: FnOnce() + Send + 'static> Invoke for ScopedFn<F> {
    fn invoke(self, outcome: Outcome) {
        // It runs from here on, and whoever drops the scope now leaves it alone.
        drop(self.ticket);
        if let Outcome::Done(_) = outcome {
            (self.task)();
        }
    }
}

impl TaskScope {
    /// A scope for tasks of `dispatcher`.
    pub fn new(dispatcher: &DispatcherHandle) -> Self {
        TaskScope { dispatcher: dispatcher.clone(), entries: Arc::default() }
    }

    /// The dispatcher that everything in the scope runs on.
    pub fn dispatcher(&self) -> &DispatcherHandle {
        &self.dispatcher
    }

    /// How many tasks and futures of the scope have not begun, or, for futures, not ended.
    pub fn len(&self) -> usize {
        self.entries.lock().list.len()
    }

    /// Whether nothing of the scope waits or lives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Posts a task.
    ///
    /// # Errors
    /// [`PostError`] with the task, when the dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread. The task is never called before this returns.
    #[track_caller]
    pub fn post<F: FnOnce() + Send + 'static>(&self, task: F) -> Result<(), PostError<F>> {
        let mut task = Some(task);
        let ticket = self.ticket();
        let (number, wrap) = (ticket.number, || wrap(&mut task, ticket));
        let posted = self.dispatcher.post_made(wrap);
        self.note(number, posted, task)
    }

    /// Posts a task that runs once `delay` has passed, by the clock of the runtime.
    ///
    /// # Errors
    /// As [`post`](TaskScope::post), and [`Status::InvalidArgs`] for a delay beyond the range of the clock.
    ///
    /// # Thread requirements
    /// As [`post`](TaskScope::post).
    #[track_caller]
    pub fn post_after<F: FnOnce() + Send + 'static>(&self, delay: Duration, task: F) -> Result<(), PostError<F>> {
        self.post_at(self.dispatcher.now() + delay, task)
    }

    /// Posts a task that runs once `deadline` has come.
    ///
    /// # Errors
    /// As [`post`](TaskScope::post), and [`Status::InvalidArgs`] for [`Instant::INFINITE`].
    ///
    /// # Thread requirements
    /// As [`post`](TaskScope::post).
    #[track_caller]
    pub fn post_at<F: FnOnce() + Send + 'static>(&self, deadline: Instant, task: F) -> Result<(), PostError<F>> {
        let mut task = Some(task);
        let ticket = self.ticket();
        let (number, wrap) = (ticket.number, || wrap(&mut task, ticket));
        let posted = self.dispatcher.post_made_at(self.dispatcher.now(), deadline, wrap);
        self.note(number, posted, task)
    }

    /// Spawns a future.
    ///
    /// # Errors
    /// [`SpawnError`] with the future, when the dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<(), SpawnError<F>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let ticket = self.ticket();
        let number = ticket.number;
        let joining = self.dispatcher.spawn_made(future, |future| scoped(future, ticket))?;
        self.fill(number, Entry::Future(joining));
        Ok(())
    }

    /// Spawns a future that need not be `Send`; see [`DispatcherHandle::spawn_local`].
    ///
    /// # Errors
    /// [`SpawnError`] with the future, as there.
    ///
    /// # Thread requirements
    /// The dispatcher's own callbacks.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> Result<(), SpawnError<F>>
    where
        F: Future<Output = ()> + 'static,
    {
        let ticket = self.ticket();
        let number = ticket.number;
        let joining = self.dispatcher.spawn_local_made(future, |future| scoped(future, ticket))?;
        self.fill(number, Entry::Future(joining));
        Ok(())
    }

    fn ticket(&self) -> Ticket {
        let mut entries = self.entries.lock();
        let number = entries.next;
        entries.next += 1;
        entries.list.insert(number, Entry::Posting);
        Ticket { entries: Arc::clone(&self.entries), number }
    }

    fn note<F>(&self, number: u64, posted: Result<TaskHandle, Status>, task: Option<F>) -> Result<(), PostError<F>> {
        match (posted, task) {
            (Ok(handle), _) => {
                self.fill(number, Entry::Task(handle));
                Ok(())
            }
            (Err(status), task) => {
                let task = task.expect("a refused task was not wrapped");
                Err(PostError::with_status(task, status))
            }
        }
    }

    /// Completes an entry, unless what it is about has ended.
    fn fill(&self, number: u64, entry: Entry) {
        let mut entries = self.entries.lock();
        let before = match entries.list.get_mut(&number) {
            Some(place) => std::mem::replace(place, entry),
            None => entry,
        };
        drop(entries);
        drop(before);
    }
}

/// A future whose entry goes with it, however it ends.
async fn scoped(future: impl Future<Output = ()>, ticket: Ticket) {
    let _ticket = ticket;
    future.await;
}

fn wrap<F>(task: &mut Option<F>, ticket: Ticket) -> ScopedFn<F> {
    ScopedFn { task: task.take().expect("an accepted task is wrapped once"), ticket }
}

impl Drop for TaskScope {
    fn drop(&mut self) {
        let list = std::mem::take(&mut self.entries.lock().list);
        // The drop of a closure may panic, which is no reason to let the others run.
        let mut panicked = FirstPanic::none();
        for entry in list.into_values() {
            panicked.guard(|| match entry {
                // Not taken back: it runs or has ended.
                Entry::Task(task) => drop(task.cancel()),
                Entry::Future(future) => future.cancel(),
                Entry::Posting => {}
            });
        }
        panicked.go_on();
    }
}

impl fmt::Debug for TaskScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskScope").field("dispatcher", &self.dispatcher).field("len", &self.len()).finish()
    }
}
