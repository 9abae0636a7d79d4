//! A recording of what becomes of callbacks, for tests that assert something about their order.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use super::ForegroundRuntime;
use crate::runtime::{Kind, users_type};
use crate::site::Site;
use crate::sync::probe::{self, Actor, Attached, Choice, Fate, Note, Others, Point, Probe, Scarce, Ticket, Told};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, Mutex, Weak};

/// How a callback ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// It has not.
    Pending,
    /// It was called with what it waited for.
    Ran,
    /// It was called with `Canceled`, or dropped if it is a future.
    Canceled,
    /// Whoever posted it took it back.
    TakenBack,
}

/// What became of one callback. Its text names it: kind, type of the closure, where it was posted, dispatcher.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedCallback {
    /// The driver of its dispatcher.
    pub driver: String,
    /// Its dispatcher.
    pub dispatcher: String,
    /// What sort of callback it is, as in dumps.
    pub kind: &'static str,
    /// The type of its closure.
    pub type_name: &'static str,
    /// Where it was posted.
    pub posted_from: Site,
    /// How it ended.
    pub ending: Ending,
    /// When it began and when it had returned, by the count of everything that was recorded; the thread.
    pub(super) ran: Option<(u64, Option<u64>, ThreadId)>,
}

impl fmt::Display for RecordedCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordedCallback { driver, dispatcher, kind, type_name, posted_from, .. } = self;
        write!(f, "{kind} of {type_name} ({posted_from}) on {driver}/{dispatcher}")
    }
}

#[derive(Default)]
struct Log {
    drivers: HashMap<u64, &'static str>,
    dispatchers: HashMap<u64, (u64, &'static str)>,
    /// Those that have not ended, by their place in `callbacks`.
    open: BTreeMap<Ticket, usize>,
    callbacks: Vec<RecordedCallback>,
    count: u64,
}

impl Log {
    fn hear(&mut self, note: &Note) {
        self.count += 1;
        let now = self.count;
        match *note {
            Note::DriverMade { driver, name, .. } => drop(self.drivers.insert(driver, name)),
            Note::DispatcherMade { dispatcher, driver, name, .. } => {
                self.dispatchers.insert(dispatcher, (driver, name));
            }
            Note::Accepted { ticket, kind, type_name, location, .. } => {
                self.accepted(ticket, kind, type_name, location)
            }
            Note::Begun { ticket, told, .. } => {
                if let Some(callback) = self.open(ticket) {
                    callback.ran = Some((now, None, thread::current_id()));
                    callback.ending = if told == Told::Canceled { Ending::Canceled } else { Ending::Ran };
                }
            }
            Note::Ended { ticket } => {
                if let Some(callback) = self.open(ticket)
                    && let Some((_, ended, _)) = &mut callback.ran
                {
                    *ended = Some(now);
                }
                self.open.remove(&ticket);
            }
            Note::TakenBack { ticket } => self.end(ticket, Ending::TakenBack),
            Note::FutureEnded { ticket, fate } => self.end(
                ticket,
                match fate {
                    Fate::Ran => Ending::Ran,
                    Fate::Canceled => Ending::Canceled,
                    Fate::TakenBack => Ending::TakenBack,
                },
            ),
            Note::RefusedAfterAll { ticket } => {
                // As if it had never been.
                if let Some(at) = self.open.remove(&ticket) {
                    self.callbacks.remove(at);
                    self.open.values_mut().filter(|other| **other > at).for_each(|other| *other -= 1);
                }
            }
            _ => {}
        }
    }

    fn accepted(&mut self, ticket: Ticket, kind: &'static str, type_name: &'static str, posted_from: Site) {
        if !ticket.is_future && matches!(kind, "future" | "irq trigger") {
            // A delivery to a callback is none itself.
            return;
        }
        let (driver, dispatcher) = self.dispatchers.get(&ticket.dispatcher).copied().unwrap_or_default();
        let driver = self.drivers.get(&driver).copied().unwrap_or_default();
        self.open.insert(ticket, self.callbacks.len());
        self.callbacks.push(RecordedCallback {
            driver: driver.to_owned(),
            dispatcher: dispatcher.to_owned(),
            kind,
            type_name: users_type(type_name),
            posted_from,
            ending: Ending::Pending,
            ran: None,
        });
    }

    fn open(&mut self, ticket: Ticket) -> Option<&mut RecordedCallback> {
        self.open.get(&ticket).and_then(|&at| self.callbacks.get_mut(at))
    }

    fn end(&mut self, ticket: Ticket, ending: Ending) {
        if let Some(callback) = self.open(ticket) {
            callback.ending = ending;
        }
        self.open.remove(&ticket);
    }
}

/// Hears everything, and passes it on to whom the thread had before.
struct Microphone {
    before: Option<Arc<dyn Probe>>,
    log: Arc<Mutex<Log>>,
}

impl Probe for Microphone {
    fn choose(&self, choice: Choice, of: usize) -> usize {
        self.before.as_ref().map_or(0, |before| before.choose(choice, of))
    }

    fn turn(&self, others: Weak<dyn Others>) {
        if let Some(before) = &self.before {
            before.turn(others);
        }
    }

    fn is_interrupted(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.is_interrupted())
    }

    fn lets_time_pass(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.lets_time_pass())
    }

    fn next(&self, actors: &[Actor]) -> usize {
        self.before.as_ref().map_or(0, |before| before.next(actors))
    }

    fn point(&self, point: Point) {
        if let Some(before) = &self.before {
            before.point(point);
        }
    }

    fn note(&self, note: Note) {
        self.log.lock().hear(&note);
        if let Some(before) = &self.before {
            before.note(note);
        }
    }

    fn refuses(&self, what: Scarce) -> bool {
        self.before.as_ref().is_some_and(|before| before.refuses(what))
    }

    fn panicked(&self, message: &str, location: Option<&Location<'_>>) {
        if let Some(before) = &self.before {
            before.panicked(message, location);
        }
    }
}

/// A recording of a run, from when it is made until it is dropped: what becomes of the callbacks of dispatchers that are
/// made meanwhile.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::DispatcherBuilder;
/// use fuchsine_dispatcher::testing::{ForegroundRuntime, Recording, assert_canceled, assert_fifo};
///
/// let runtime = ForegroundRuntime::new();
/// let recording = Recording::of(&runtime);
/// let driver = runtime.new_driver("printer");
/// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("spool"))?;
/// for _ in 0..2 {
///     dispatcher.post_task(|_| ())?;
/// }
/// runtime.run_until_idle();
/// assert_fifo(&recording.callbacks_of("spool"));
///
/// let late = recording.callbacks_of("spool").len();
/// dispatcher.post_task(|_| ())?;
/// dispatcher.shutdown_async();
/// runtime.run_until_idle();
/// assert_canceled(&recording.callbacks_of("spool")[late..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recording {
    log: Arc<Mutex<Log>>,
    _attached: Attached,
    /// It belongs to the thread that made it.
    _here: PhantomData<*const ()>,
}

impl Recording {
    /// Records what the runtime does from here on.
    ///
    /// # Thread requirements
    /// The thread that turns the crank. Drop recordings in the reverse order of their making.
    pub fn of(runtime: &ForegroundRuntime) -> Self {
        // What is recorded is what this thread is told; the runtime says that there is one that it turns.
        let _ = runtime;
        let log = Arc::<Mutex<Log>>::default();
        let probe = Microphone { before: probe::current(), log: Arc::clone(&log) };
        Recording { log, _attached: probe::attach(Some(Arc::new(probe))), _here: PhantomData }
    }

    /// All callbacks, in the order in which they were accepted.
    pub fn callbacks(&self) -> Vec<RecordedCallback> {
        self.log.lock().callbacks.clone()
    }

    /// Those of the dispatchers of this name.
    pub fn callbacks_of(&self, dispatcher: &str) -> Vec<RecordedCallback> {
        let mut callbacks = self.callbacks();
        callbacks.retain(|callback| callback.dispatcher == dispatcher);
        callbacks
    }

    /// Those of one kind of the dispatchers of this name.
    pub fn callbacks_of_kind(&self, dispatcher: &str, kind: Kind) -> Vec<RecordedCallback> {
        let mut callbacks = self.callbacks_of(dispatcher);
        callbacks.retain(|callback| callback.kind == kind.as_str());
        callbacks
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("callbacks", &self.log.lock().callbacks.len()).finish_non_exhaustive()
    }
}
