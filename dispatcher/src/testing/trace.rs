//! Traces: what happened in a run, a line a step, in words that are the same whenever the run is.
//!
//! Dispatchers are called by their names, and what has no name is numbered in the order of being seen first: no address,
//! no thread, and no number that counts through the process.

use std::collections::HashMap;
use std::fmt;

use crate::site::Site;
use crate::sync::probe::{Actor, Choice, Fate, Note, Point, Ticket, Told};

/// What happened in a run, a line a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    lines: Vec<String>,
}

impl Trace {
    /// The lines, first to last.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// How many lines of a long trace are shown of its beginning, and how many of its end.
const SHOWN: (usize, usize) = (100, 300);

/// All lines; of a long trace the first and the last ones.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = &self.lines;
        let (first, last) = match lines.len().checked_sub(SHOWN.0 + SHOWN.1) {
            Some(left_out) if left_out > 0 => (SHOWN.0, SHOWN.0 + left_out),
            _ => (lines.len(), lines.len()),
        };
        lines[..first].iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if last > first {
            writeln!(f, "     … {} lines are left out here; `trace` of the failure has them", last - first)?;
        }
        lines[last..].iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Writes down what happens: cheap, as each run does and few are read.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
enum Entry {
    Step(u64, What),
    Then(Then),
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// A turn; who goes on is not known before it is picked, and nobody does where nothing can.
    Turn(Option<Actor>),
    Point(Point),
}

#[derive(Debug, Clone, Copy)]
enum Then {
    Decided(Choice, usize, usize),
    Noted(Note),
}

/// What reads a record: the names of what it is about.
#[derive(Debug, Default)]
struct Reader {
    dispatchers: HashMap<u64, String>,
    drivers: HashMap<u64, &'static str>,
    accepted: HashMap<Ticket, (&'static str, Option<&'static str>, Site)>,
}

impl Recorder {
    pub(super) fn turn(&mut self, step: u64) {
        self.entries.push(Entry::Step(step, What::Turn(None)));
    }

    pub(super) fn goes_on(&mut self, actor: Actor) {
        let last = self.entries.iter_mut().rev().find(|entry| matches!(entry, Entry::Step(..)));
        if let Some(Entry::Step(_, what @ What::Turn(_))) = last {
            *what = What::Turn(Some(actor));
        }
    }

    pub(super) fn point(&mut self, step: u64, point: Point) {
        self.entries.push(Entry::Step(step, What::Point(point)));
    }

    pub(super) fn decision(&mut self, choice: Choice, of: usize, picked: usize) {
        self.entries.push(Entry::Then(Then::Decided(choice, of, picked)));
    }

    pub(super) fn note(&mut self, note: &Note) {
        // Who is inside of what can be seen from what runs.
        if !matches!(note, Note::Entered { .. } | Note::Left) {
            self.entries.push(Entry::Then(Then::Noted(*note)));
        }
    }

    /// The trace. Turns in which nothing could go on and nothing happened are left out.
    pub(super) fn trace(&self) -> Trace {
        let mut lines = Vec::new();
        let mut reader = Reader::default();
        let mut then = Vec::new();
        let mut step = (0, What::Turn(None));
        for entry in &self.entries {
            match *entry {
                Entry::Then(next) => then.push(next),
                Entry::Step(number, what) => {
                    lines.extend(reader.line(step, &then));
                    then.clear();
                    step = (number, what);
                }
            }
        }
        lines.extend(reader.line(step, &then));
        Trace { lines }
    }
}

impl Reader {
    /// Takes the names from what was made and accepted.
    fn learn(&mut self, note: &Note) {
        match *note {
            Note::Accepted { ticket, kind, type_name, location, .. } => {
                self.accepted.insert(ticket, (kind, function_in(type_name), location));
            }
            Note::DriverMade { driver, name, .. } => {
                self.drivers.insert(driver, name);
            }
            Note::DispatcherMade { dispatcher, driver, name, .. } => {
                let driver = self.drivers.get(&driver).copied().unwrap_or_default();
                let name = if name.is_empty() { format!("#{}", self.dispatchers.len() + 1) } else { name.to_owned() };
                self.dispatchers.insert(dispatcher, format!("{driver}/{name}"));
            }
            _ => {}
        }
    }

    fn line(&mut self, (step, what): (u64, What), then: &[Then]) -> Option<String> {
        for then in then {
            if let Then::Noted(note) = then {
                self.learn(note);
            }
        }
        let is_said = |nth: usize| nth > 0 && is_what_an_acceptance_says(then[nth - 1], then[nth]);
        let then = then.iter().enumerate().filter(|&(nth, _)| !is_said(nth));
        let then: Vec<String> = then.map(|(_, then)| self.then_text(*then)).collect();
        let head = match what {
            What::Turn(None) if then.is_empty() => return None,
            What::Turn(None) => "nobody".to_owned(),
            What::Turn(Some(actor)) => self.actor(actor),
            What::Point(point) => format!("  {}", point_text(point)),
        };
        let colon = if then.is_empty() { "" } else { ": " };
        Some(format!("{step:>6}  {head}{colon}{}", then.join("; ")))
    }

    fn actor(&self, actor: Actor) -> String {
        match actor {
            Actor::Dispatcher(id) => self.dispatcher(id),
            Actor::Driver(id) => self.driver(id),
            Actor::Work { lane, .. } => if lane == 0 { "fast work" } else { "slow work" }.to_owned(),
            Actor::Events { .. } => "an event".to_owned(),
            Actor::Time => "time passes".to_owned(),
            Actor::Call => "a call of the test".to_owned(),
        }
    }

    fn dispatcher(&self, id: u64) -> String {
        self.dispatchers.get(&id).cloned().unwrap_or_else(|| "a dispatcher".to_owned())
    }

    fn driver(&self, id: u64) -> String {
        self.drivers.get(&id).map_or_else(|| "a driver".to_owned(), |name| format!("driver {name}"))
    }

    fn callback(&self, ticket: Ticket) -> String {
        let what = self.accepted.get(&ticket).map(|(kind, function, location)| match function {
            Some(function) => format!("{kind} of {function} ({location})"),
            None => format!("{kind} of {location}"),
        });
        let what = what.unwrap_or_else(|| if ticket.is_future { "a future" } else { "a callback" }.to_owned());
        format!("{} on {}", what, self.dispatcher(ticket.dispatcher))
    }

    fn then_text(&self, then: Then) -> String {
        let note = match then {
            Then::Decided(choice, of, picked) => return decision_text(choice, of, picked),
            Then::Noted(note) => note,
        };
        match note {
            Note::DriverMade { driver, .. } => format!("makes {}", self.driver(driver)),
            Note::DispatcherMade { dispatcher, .. } => format!("makes {}", self.dispatcher(dispatcher)),
            Note::Panicked { dispatcher: Some(dispatcher) } => format!("panics on {}", self.dispatcher(dispatcher)),
            Note::Panicked { dispatcher: None } => "panics".to_owned(),
            Note::Accepted { ticket, .. } => format!("accepts {}", self.callback(ticket)),
            Note::Refused { dispatcher } => format!("{} refuses", self.dispatcher(dispatcher)),
            Note::RefusedAfterAll { ticket } => format!("refuses {} after all", self.callback(ticket)),
            Note::Ready { ticket, told } => format!("ready{} is {}", told_text(told), self.callback(ticket)),
            Note::Parked { ticket, .. } => format!("parks {}", self.callback(ticket)),
            Note::Unparked { dispatcher } => format!("{} is resumed", self.dispatcher(dispatcher)),
            Note::WorkBegun { ticket } => format!("works for {}", self.callback(ticket)),
            Note::CancelAsked { ticket } => format!("cancels {}", self.callback(ticket)),
            Note::Begun { ticket, told, inline } => {
                let inline = if inline { " inline" } else { "" };
                format!("runs{inline}{} {}", told_text(told), self.callback(ticket))
            }
            Note::Ended { ticket } => format!("ends {}", self.callback(ticket)),
            Note::TakenBack { ticket } => format!("takes back {}", self.callback(ticket)),
            Note::FutureDropped { ticket } => format!("drops {}", self.callback(ticket)),
            Note::FutureEnded { ticket, fate: Fate::Ran } => format!("finishes {}", self.callback(ticket)),
            Note::FutureEnded { ticket, .. } => format!("gives up {}", self.callback(ticket)),
            Note::Entered { .. } | Note::Left => String::new(),
            Note::ShutdownBegan { dispatcher } => format!("{} begins to shut down", self.dispatcher(dispatcher)),
            Note::ObserverBegun { dispatcher } => format!("observer of {}", self.dispatcher(dispatcher)),
            Note::ObserverEnded { dispatcher } => format!("{} has shut down", self.dispatcher(dispatcher)),
            Note::DriverShutdownBegan { driver } => format!("{} begins to shut down", self.driver(driver)),
            Note::DriverObserverBegun { driver } => format!("observer of {}", self.driver(driver)),
            Note::DriverObserverEnded { driver } => format!("{} has shut down", self.driver(driver)),
            Note::Made { what, location, .. } => format!("makes {what} at {location}"),
            Note::Gone { what, .. } => format!("{what} is gone"),
        }
    }
}

/// The function that is the type of a callback, where one is: a hook of a driver, all of which come from one line, or what a
/// driver in C says. A closure or the future of an `async` block is told well enough by its line.
fn function_in(type_name: &'static str) -> Option<&'static str> {
    let name = match type_name.strip_prefix('<') {
        Some(of_trait) => of_trait.rsplit_once(">::")?.1,
        None => type_name,
    };
    let is_word = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_word && !name.is_empty()).then_some(name)
}

/// Whether it is what is accepted as ready.
fn is_what_an_acceptance_says(before: Then, then: Then) -> bool {
    match (before, then) {
        (Then::Noted(Note::Accepted { ticket: accepted, .. }), Then::Noted(Note::Ready { ticket, .. })) => {
            accepted == ticket
        }
        _ => false,
    }
}

fn told_text(told: Told) -> &'static str {
    match told {
        Told::Outcome => "",
        Told::Failure => ", failed,",
        Told::Canceled => ", canceled,",
    }
}

pub(super) fn point_text(point: Point) -> &'static str {
    match point {
        Point::Post => "before a post",
        Point::Cancel => "before a cancel",
        Point::Write => "before a write",
        Point::Read => "before a read",
        Point::Close => "before a close",
        Point::Await => "around a poll",
        Point::Wake => "before a wake",
        Point::Shutdown => "before a shutdown",
        Point::Begin => "its code begins",
    }
}

fn decision_text(choice: Choice, of: usize, picked: usize) -> String {
    let nth = picked + 1;
    match (choice, picked) {
        (Choice::Next, _) => format!("{nth} of {of} that can go on"),
        (Choice::Event, _) => format!("{nth} of {of} events"),
        (Choice::Claim, _) => format!("{nth} of {of} that are ready"),
        (Choice::Inline, 0) => "calls inline".to_owned(),
        (Choice::Inline, _) => "defers the inline call".to_owned(),
        (Choice::Apart, 0) => "without a break".to_owned(),
        (Choice::Apart, _) => "with breaks".to_owned(),
        (Choice::Overlap, 0) => "goes on".to_owned(),
        (Choice::Overlap, _) => "lets others go first".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::function_in;

    #[test]
    fn a_function_that_is_called_is_told_and_a_closure_is_not() {
        assert_eq!(function_in("<nbd::Nbd as fuchsine_driver::driver::Driver>::prepare_stop"), Some("prepare_stop"));
        assert_eq!(function_in("on_sample"), Some("on_sample"));
        for other in
            ["", "nbd::serve::{{closure}}", "<nbd::Nbd as Driver>::start::{{closure}}", "<nbd::Nbd<u8>>", "&str"]
        {
            assert_eq!(function_in(other), None, "{other}");
        }
    }
}
