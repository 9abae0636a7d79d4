//! Goal: a probe is told of every step in the life of a callback, at the moment when it happens.
//! Method: a probe that writes down what it is told, in words, while a test turns the crank.

use std::panic::Location;
use std::time::Duration;

use super::ForegroundRuntime;
use crate::runtime::DispatcherBuilder;
use crate::sync::probe::{Actor, Choice, Note, Others, Point, Probe, attach};
use crate::sync::{Arc, Mutex, Weak};

#[derive(Default)]
struct Recorder {
    words: Mutex<Vec<String>>,
}

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.words.lock())
    }
}

impl Probe for Recorder {
    fn choose(&self, _choice: Choice, _of: usize) -> usize {
        0
    }

    fn point(&self, point: Point) {
        if point == Point::Begin {
            self.words.lock().push("its code".to_owned());
        }
    }

    fn turn(&self, _others: Weak<dyn Others>) {}

    fn next(&self, _actors: &[Actor]) -> usize {
        0
    }

    fn panicked(&self, _message: &str, _location: Option<&Location<'_>>) {}

    fn note(&self, note: Note) {
        let words = match note {
            Note::Accepted { kind, .. } => format!("accepted: {kind}"),
            Note::Ready { told, .. } => format!("ready: {told:?}"),
            Note::Begun { told, inline, .. } => format!("begun{}: {told:?}", if inline { " inline" } else { "" }),
            Note::FutureEnded { fate, .. } => format!("future ended: {fate:?}"),
            Note::Parked { .. } => "parked".to_owned(),
            Note::Ended { .. } => "ended".to_owned(),
            Note::TakenBack { .. } => "taken back".to_owned(),
            Note::ShutdownBegan { .. } => "shutdown".to_owned(),
            Note::ObserverBegun { .. } => "observer".to_owned(),
            Note::DriverObserverBegun { .. } => "driver's observer".to_owned(),
            Note::Refused { .. } => "refused".to_owned(),
            Note::Made { what, .. } => format!("made: {what}"),
            Note::Gone { what, .. } => format!("gone: {what}"),
            _ => return,
        };
        self.words.lock().push(words);
    }
}

#[test]
fn each_callback_is_told_of_from_its_acceptance_to_its_one_end() {
    let recorder = Arc::new(Recorder::default());
    let _attached = attach(Some(Arc::clone(&recorder) as Arc<dyn Probe>));
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("lamp");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("switch")).expect("it is made");

    dispatcher.post_task(|_| ()).expect("it runs");
    let kept = dispatcher.post_cancelable(|_| ()).expect("it runs");
    assert_eq!(recorder.take(), ["accepted: task", "ready: Outcome", "accepted: task", "ready: Outcome"]);
    kept.cancel().expect("it has not begun");
    runtime.run_until_idle();
    assert_eq!(recorder.take(), ["taken back", "begun: Outcome", "its code", "ended"]);

    let _timer = dispatcher.post_after(Duration::from_secs(1), |_| ()).expect("it runs");
    runtime.advance(Duration::from_secs(1));
    let timer = ["accepted: delayed task", "ready: Outcome", "begun inline: Outcome", "its code", "ended"];
    assert_eq!(recorder.take(), timer);

    drop(dispatcher.spawn(async {}).expect("it runs"));
    runtime.run_until_idle();
    let future = ["accepted: future", "accepted: future", "ready: Outcome", "begun: Outcome", "its code"];
    let recorded = recorder.take();
    assert_eq!(recorded[..5], future);
    assert_eq!(recorded[5..], ["future ended: Ran", "ended"]);

    dispatcher.post_task(|_| ()).expect("it is canceled");
    let _timer = dispatcher.post_after(Duration::from_secs(1), |_| ()).expect("it is canceled");
    recorder.take();
    assert!(driver.shutdown(|| ()).is_ok());
    assert!(dispatcher.post_task(|_| ()).is_err());
    assert_eq!(recorder.take(), ["shutdown", "refused"]);
    runtime.run_until_idle();
    let canceled = ["begun: Canceled", "its code", "ended"];
    let recorded = recorder.take();
    assert_eq!(recorded[..3], canceled);
    assert_eq!(recorded[3..6], canceled);
    assert_eq!(recorded[6..], ["observer", "driver's observer", "its code"]);
}

#[test]
fn what_has_an_end_is_told_of_when_it_is_made_and_when_it_is_gone() {
    let recorder = Arc::new(Recorder::default());
    let _attached = attach(Some(Arc::clone(&recorder) as Arc<dyn Probe>));
    let (one, other) = crate::channel::Channel::pair();
    one.write(crate::channel::Message::from_bytes(b"never read")).expect("it is open");
    drop((one, other));
    let ends = ["made: channel end", "made: channel end", "made: arena"];
    let recorded = recorder.take();
    assert_eq!(recorded[..3], ends);
    assert_eq!(recorded[3..], ["gone: channel end", "gone: channel end", "gone: arena"]);
    drop(crate::channel::Token::pair());
    drop(crate::sys::sim::Event::new());
    let made_and_gone = ["made: token", "gone: token", "made: simulated descriptor", "gone: simulated descriptor"];
    assert_eq!(recorder.take(), made_and_gone);
}
