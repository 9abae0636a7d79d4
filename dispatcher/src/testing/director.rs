//! The director: decides how one run goes on, counts its steps, and tells its listeners.
//!
//! A *step* is one moment at which something could come in between: each turn of the crank, and each [`Point`] that a
//! callback comes to. A *decision* is one pick of several legal ways to go on; where there is one way nothing is decided.
//! A run is its decisions: the same ones, asked for in the same order, make the same run.
//!
//! 1. The crank announces a turn. The listeners are told, then the crank lists who can go on, and one is picked.
//! 2. Code that comes to a point, an inline call and so on asks its thread's probe, which is the director.
//! 3. The first thing that is wrong (a panic, a promise that a listener saw broken, too many steps) fails the run; the
//!    next turn ends it by a panic of its own that unwinds the scenario.
//! 4. When the run is over everything goes on in the usual order, and nobody is told any more.
//!
//! # Invariants
//! - No lock of the director is held while a listener is told of a turn or a point, as it may do anything there.
//! - A listener that is being told is not told of anything else; what is noted meanwhile reaches it when it returns.

use std::io::Write;
use std::panic::{Location, resume_unwind};

use super::schedule::Schedule;
use super::strategy::Picker;
use super::trace::Recorder;
use crate::pool::batons;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::probe::{Actor, Choice, Note, Others, Point, Probe, Scarce};
use crate::sync::thread::ThreadId;
use crate::sync::{Arc, Mutex, Weak};

/// Is told what happens in a run, and may bring things about.
pub(super) trait Listener: Send {
    /// A callback has come to a point, on its thread: no lock is held, and anything may be done.
    fn point(&mut self, step: u64, point: Point) {
        let _ = (step, point);
    }

    /// The crank is about to be turned, on its thread: no lock is held, and anything but to turn it may be done.
    fn turn(&mut self, step: u64) {
        let _ = step;
    }

    /// Something was asked for that can be refused; whether it is. Locks may be held, as for a note.
    fn refuses(&mut self, step: u64, what: Scarce) -> bool {
        let _ = (step, what);
        false
    }

    /// Something has happened. Locks may be held: nothing of the runtime may be called.
    fn note(&mut self, step: u64, note: &Note) {
        let _ = (step, note);
    }

    /// The runtime has shut down, and its numbers add up: nothing is left to come.
    fn end(&mut self, step: u64) {
        let _ = step;
    }

    /// What kept it from seeing all of the run, if anything did; asked when the run is over.
    fn partial(&mut self) -> Option<String> {
        None
    }

    /// At which step the innermost callback of a dispatcher began that runs, if that is known.
    fn began_at(&self, dispatcher: u64) -> Option<u64> {
        let _ = dispatcher;
        None
    }

    /// What a thread runs, in words.
    fn running_on(&self, thread: ThreadId) -> Option<String> {
        let _ = thread;
        None
    }

    /// What is wrong, if anything is; asked after each turn and at the end.
    fn broken(&mut self) -> Option<String> {
        None
    }
}

/// One pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Decision {
    pub(super) step: u64,
    pub(super) choice: Choice,
    pub(super) of: usize,
    pub(super) picked: usize,
}

/// What is wrong with a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) step: u64,
    pub(super) message: String,
}

/// How a director goes about a run.
pub(super) struct Direction {
    pub(super) picker: Box<dyn Picker>,
    pub(super) allows_panics: bool,
    pub(super) max_steps: u64,
    pub(super) inline_choices: bool,
    pub(super) overlaps: bool,
    pub(super) slow_time: bool,
    /// The number of the moment at which something is injected, if something is.
    pub(super) moment: Option<u64>,
}

/// What the crank's turn panics with to end a run that has failed.
struct Stop;

/// Decides how one run goes on.
pub(super) struct Director {
    state: Mutex<State>,
    listeners: Mutex<Vec<Seat>>,
    max_steps: u64,
    allows_panics: bool,
    inline_choices: bool,
    overlaps: bool,
    slow_time: bool,
    moment: Option<u64>,
    /// How many callbacks stand aside.
    interrupted: AtomicUsize,
    /// How often the crank was turned and a point was come to, also after the end.
    beats: AtomicU64,
    /// Whether the crank ever went on without a callback.
    had_outside: AtomicBool,
}

struct State {
    picker: Box<dyn Picker>,
    step: u64,
    decisions: Vec<Decision>,
    recorder: Recorder,
    /// What goes on by the crank that was turned last.
    others: Option<Weak<dyn Others>>,
    broken: Option<Broken>,
    last_panic: Option<String>,
    is_over: bool,
}

/// The place of a listener.
struct Seat {
    /// `None` while it is being told.
    listener: Option<Box<dyn Listener>>,
    /// What was noted meanwhile.
    missed: Vec<(u64, Note)>,
}

/// What a run was.
pub(super) struct Directed {
    pub(super) steps: u64,
    pub(super) decisions: Vec<Decision>,
    pub(super) broken: Option<Broken>,
    pub(super) recorder: Recorder,
    pub(super) partial: Option<String>,
    pub(super) had_outside: bool,
}

impl Director {
    pub(super) fn new(direction: Direction) -> Arc<Self> {
        let Direction { picker, allows_panics, max_steps, inline_choices, overlaps, slow_time, moment } = direction;
        let state = State {
            picker,
            step: 0,
            decisions: Vec::new(),
            recorder: Recorder::default(),
            others: None,
            broken: None,
            last_panic: None,
            is_over: false,
        };
        let listeners = Mutex::new(Vec::new());
        Arc::new(Director {
            state: Mutex::new(state),
            listeners,
            max_steps,
            allows_panics,
            inline_choices,
            overlaps,
            slow_time,
            moment,
            interrupted: AtomicUsize::new(0),
            beats: AtomicU64::new(0),
            had_outside: AtomicBool::new(false),
        })
    }

    pub(super) fn listen(&self, listener: Box<dyn Listener>) {
        self.listeners.lock().push(Seat { listener: Some(listener), missed: Vec::new() });
    }

    /// How many steps were made so far.
    pub(super) fn step(&self) -> u64 {
        self.state.lock().step
    }

    /// A number that grows whenever something goes on.
    pub(super) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Fails the run, unless it has failed before.
    pub(super) fn fail(&self, message: String) {
        let mut state = self.state.lock();
        let step = state.step;
        state.broken.get_or_insert(Broken { step, message });
    }

    /// Fails the run, or adds to what it has failed by.
    pub(super) fn fail_or_add(&self, message: String) {
        let mut state = self.state.lock();
        let step = state.step;
        match &mut state.broken {
            Some(broken) => broken.message = format!("{}\n{message}", broken.message),
            None => state.broken = Some(Broken { step, message }),
        }
    }

    /// What the last panic said, and where it was.
    pub(super) fn last_panic(&self) -> Option<String> {
        self.state.lock().last_panic.clone()
    }

    /// Tells the listeners that nothing is left to come.
    pub(super) fn tell_end(&self) {
        let step = self.step();
        self.tell(|listener| listener.end(step));
        self.ask_listeners();
    }

    /// The run is over: from here on nothing is decided and nobody is told.
    pub(super) fn close(&self) -> Directed {
        let mut listeners = std::mem::take(&mut *self.listeners.lock());
        let seated = listeners.iter_mut().filter_map(|seat| seat.listener.as_mut());
        let partial = seated.fold(None, |partial, listener| partial.or_else(|| listener.partial()));
        drop(listeners);
        let mut state = self.state.lock();
        state.is_over = true;
        let directed = Directed {
            steps: state.step,
            decisions: std::mem::take(&mut state.decisions),
            broken: state.broken.take(),
            recorder: std::mem::take(&mut state.recorder),
            partial,
            had_outside: self.had_outside.load(Ordering::Relaxed),
        };
        drop(state);
        directed
    }

    /// Counts a step; `None` when the run is over.
    fn begin_step(&self, record: impl FnOnce(&mut Recorder, u64)) -> Option<u64> {
        self.beats.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        if state.is_over {
            return None;
        }
        state.step += 1;
        let step = state.step;
        state.picker.step(step);
        if step > self.max_steps {
            let message = format!("it is not at its end after {} steps", self.max_steps);
            state.broken.get_or_insert(Broken { step, message });
        }
        record(&mut state.recorder, step);
        Some(step)
    }

    /// Tells each listener of something that it may answer by doing anything.
    fn tell(&self, tell: impl Fn(&mut dyn Listener)) {
        let count = self.listeners.lock().len();
        for nth in 0..count {
            let Some(listener) = self.listeners.lock().get_mut(nth).and_then(|seat| seat.listener.take()) else {
                continue;
            };
            let mut stood_up = StoodUp { director: self, nth, listener: Some(listener) };
            if let Some(listener) = &mut stood_up.listener {
                tell(&mut **listener);
            }
        }
    }

    fn ask_listeners(&self) {
        let broken = {
            let mut seats = self.listeners.lock();
            seats.iter_mut().filter_map(|seat| seat.listener.as_mut()).find_map(|listener| listener.broken())
        };
        if let Some(message) = broken {
            self.fail(message);
        }
    }

    /// See [`Listener::began_at`].
    pub(super) fn began_at(&self, dispatcher: u64) -> Option<u64> {
        let seats = self.listeners.lock();
        seats.iter().filter_map(|seat| seat.listener.as_ref()).find_map(|listener| listener.began_at(dispatcher))
    }

    /// Says for the watchdog where it stands: by which schedule one comes there, what the thread runs, and what happened.
    pub(super) fn report(&self, thread: ThreadId, to: &mut dyn Write) -> std::io::Result<()> {
        let running = {
            let seats = self.listeners.lock();
            seats.iter().filter_map(|seat| seat.listener.as_ref()).find_map(|listener| listener.running_on(thread))
        };
        writeln!(to, "{}", running.as_deref().unwrap_or("no callback runs on its thread: the scenario itself waits"))?;
        let state = self.state.lock();
        let schedule = Schedule::of_picks(state.decisions.iter().map(|decision| decision.picked).collect());
        let moment = self.moment.map_or_else(String::new, |moment| format!("@{moment}"));
        writeln!(to, "FUCHSINE_SEED={schedule}{moment} leads there again; it hangs at step {} of:", state.step)?;
        write!(to, "{}", state.recorder.trace())
    }

    fn can_others_go_on(&self) -> bool {
        let others = self.state.lock().others.as_ref().and_then(Weak::upgrade);
        others.is_some_and(|others| others.can_go_on())
    }

    fn decide(&self, choice: Choice, of: usize, pick: impl FnOnce(&mut dyn Picker) -> usize) -> usize {
        let mut state = self.state.lock();
        if state.is_over || of < 2 {
            return 0;
        }
        let picked = pick(&mut *state.picker).min(of - 1);
        let step = state.step;
        state.decisions.push(Decision { step, choice, of, picked });
        state.recorder.decision(choice, of, picked);
        picked
    }
}

/// A listener that is being told; it sits down again when this is dropped, also by a panic.
struct StoodUp<'a> {
    director: &'a Director,
    nth: usize,
    listener: Option<Box<dyn Listener>>,
}

impl Drop for StoodUp<'_> {
    fn drop(&mut self) {
        let Some(mut listener) = self.listener.take() else { return };
        let mut seats = self.director.listeners.lock();
        let Some(seat) = seats.get_mut(self.nth) else { return };
        for (step, note) in seat.missed.drain(..) {
            listener.note(step, &note);
        }
        seat.listener = Some(listener);
    }
}

impl Probe for Director {
    fn choose(&self, choice: Choice, of: usize) -> usize {
        if choice == Choice::Inline && !self.inline_choices || choice == Choice::Apart && !self.overlaps {
            return 0;
        }
        self.decide(choice, of, |picker| picker.pick(choice, of))
    }

    fn turn(&self, others: Weak<dyn Others>) {
        self.ask_listeners();
        let has_failed = {
            let mut state = self.state.lock();
            state.others = Some(others);
            // Whoever stands aside may hold a lock that the unwinding scenario wants, so it goes on before.
            !state.is_over && state.broken.is_some() && !self.is_interrupted()
        };
        if has_failed {
            resume_unwind(Box::new(Stop));
        }
        if let Some(step) = self.begin_step(Recorder::turn) {
            self.tell(|listener| listener.turn(step));
        }
    }

    fn is_interrupted(&self) -> bool {
        // Relaxed: the baton that is passed orders it.
        self.interrupted.load(Ordering::Relaxed) > 0
    }

    fn lets_time_pass(&self) -> bool {
        self.slow_time && !self.state.lock().is_over
    }

    fn next(&self, actors: &[Actor]) -> usize {
        let picked = self.decide(Choice::Next, actors.len(), |picker| picker.next(actors));
        self.state.lock().recorder.goes_on(actors[picked]);
        picked
    }

    fn point(&self, point: Point) {
        if std::thread::panicking() {
            // Whatever came in between here would do so while a panic unwinds.
            return;
        }
        let Some(step) = self.begin_step(|recorder, step| recorder.point(step, point)) else { return };
        self.tell(|listener| listener.point(step, point));
        // At its beginning a callback has done nothing yet: to let others go first is to be picked later.
        let may_let_others = self.overlaps && point != Point::Begin && self.state.lock().broken.is_none();
        if let Some(helper) = may_let_others.then(batons::current).flatten()
            && !helper.is_outside()
            && self.can_others_go_on()
            && self.decide(Choice::Overlap, 2, |picker| picker.pick(Choice::Overlap, 2)) == 1
        {
            self.interrupted.fetch_add(1, Ordering::Relaxed);
            helper.step_aside();
            self.interrupted.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn note(&self, note: Note) {
        let step = {
            let mut state = self.state.lock();
            if state.is_over {
                return;
            }
            if let Note::Panicked { .. } = note
                && !self.allows_panics
            {
                let step = state.step;
                let message = state.last_panic.clone().unwrap_or_else(|| "somewhere".to_owned());
                state.broken.get_or_insert(Broken { step, message: format!("a callback panicked: {message}") });
            }
            state.recorder.note(&note);
            state.step
        };
        for seat in &mut *self.listeners.lock() {
            match &mut seat.listener {
                Some(listener) => listener.note(step, &note),
                None => seat.missed.push((step, note)),
            }
        }
    }

    fn refuses(&self, what: Scarce) -> bool {
        let step = {
            let state = self.state.lock();
            if state.is_over {
                return false;
            }
            state.step
        };
        let mut seats = self.listeners.lock();
        seats.iter_mut().filter_map(|seat| seat.listener.as_mut()).any(|listener| listener.refuses(step, what))
    }

    fn went_outside(&self) {
        // Relaxed: it is asked when the run is over, by whoever turned the crank.
        self.had_outside.store(true, Ordering::Relaxed);
    }

    fn panicked(&self, message: &str, location: Option<&Location<'_>>) {
        let place = location.map_or_else(String::new, |location| format!(", at {location}"));
        self.state.lock().last_panic = Some(format!("{message}{place}"));
    }
}

/// Whether a panic is that by which the director ends a run.
pub(super) fn is_stop(payload: &(dyn std::any::Any + Send)) -> bool {
    payload.is::<Stop>()
}
