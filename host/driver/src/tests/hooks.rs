//! The life of a driver: start, prepare_stop, shutdown, stop; and what happens when a hook fails or panics.

use std::sync::Mutex;
use std::time::Duration;

use serde::Deserialize;

use super::{Grenade, Journal, Noted};
use crate::abi::fake::FakeHost;
use crate::{
    BindProperty, ConfigKey, ConfigKind, DispatcherOptions, Driver, DriverContext, DriverEntry, Level, StartError,
    Status, StopError, current, sleep, spawn,
};

/// Does what its configuration says; notes what happens in a journal that the test puts here.
struct Actor {
    journal: Journal,
    config: Config,
    _end: Noted,
}

thread_local! {
    static JOURNAL: Journal = Journal::default();
}

fn journal() -> Journal {
    JOURNAL.with(Journal::clone)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Config {
    start: String,
    prepare_stop: String,
    stop: String,
    count: u32,
    panics_in_drop: bool,
}

fn act(how: &str) -> Result<(), Status> {
    match how {
        "" => Ok(()),
        "panic" => panic!("the hook panicked"),
        _ => Err(Status::NoSpace),
    }
}

impl Driver for Actor {
    const NAME: &'static str = "actor";
    const VERSION: &'static str = "1.2.3";
    const DOC: &'static str = "does as it is told";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::required("start", ConfigKind::Text, "what start does"),
        ConfigKey::optional("count", ConfigKind::Integer, "4", "a number"),
        ConfigKey::optional("stop", ConfigKind::TextList, "", "what stop does"),
    ];
    const BIND: &'static [BindProperty] =
        &[BindProperty::new("protocol", "stage"), BindProperty::new("city", "Prague")];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let journal = journal();
        journal.note(format!("start of {} on {}", cx.name(), current().expect("a dispatcher is current").name()));
        let config: Config = cx.config()?;
        if config.start == "wait" {
            sleep(Duration::from_secs(5)).await?;
            journal.note("start goes on");
        }
        act(if config.start == "wait" { "" } else { &config.start })?;
        let noted = journal.clone();
        cx.dispatcher()
            .post_after(Duration::from_secs(1000), move |told| noted.note(format!("timer told {told:?}")))?;
        cx.publish_address("actor://stage")?;
        cx.logger().target("stage").with("act", 1).info("curtain");
        cx.logger().log(Level::Debug, "never formatted", &[]);
        Ok(Actor { journal: journal.clone(), config, _end: Noted(journal, "driver") })
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        sleep(Duration::ZERO).await?;
        self.journal.note("prepare_stop");
        Ok(act(&self.config.prepare_stop)?)
    }

    async fn stop(self) -> Result<(), StopError> {
        self.journal.note(format!("stop on {}", current().expect("a dispatcher is current").name()));
        let grenade = self.config.panics_in_drop.then(|| Grenade);
        act(&self.config.stop)?;
        drop(grenade);
        Ok(())
    }
}

const ACTOR: DriverEntry = DriverEntry::of::<Actor>();

#[test]
fn an_entry_tells_what_the_driver_is() {
    assert_eq!((ACTOR.name(), ACTOR.version(), ACTOR.doc()), ("actor", "1.2.3", "does as it is told"));
    assert_eq!(ACTOR.bind().collect::<Vec<_>>(), [("protocol", "stage"), ("city", "Prague")]);
    let keys: Vec<_> =
        ACTOR.config().iter().map(|key| (key.name(), key.kind(), key.default(), key.is_required())).collect();
    assert_eq!(
        keys,
        [
            ("start", ConfigKind::Text, None, true),
            ("count", ConfigKind::Integer, Some("4"), false),
            ("stop", ConfigKind::TextList, None, false)
        ]
    );
    assert_eq!(ACTOR.config()[1].doc(), "a number");
    assert_eq!(ACTOR.check(), Ok(()));
}

#[test]
fn a_driver_lives_from_start_to_stop_in_order_and_its_timer_is_told_in_between() {
    let host = FakeHost::new();
    let mut driver = host.start(&ACTOR, "{}", None);
    assert_eq!(driver.started(), Some(Ok(())));
    assert_eq!(journal().take(), ["start of actor on actor"]);
    assert_eq!(driver.addresses(), ["actor://stage"]);
    assert_eq!(driver.lines(), ["3 stage: curtain act=1"]);
    driver.stop_in_order();
    assert_eq!(journal().take(), ["prepare_stop", "timer told Err(Canceled)", "stop on host", "driver dropped"]);
    assert_eq!(host.panics(), [""; 0]);
}

#[test]
fn start_may_take_its_time_and_is_dropped_when_the_dispatcher_shuts_down_first() {
    let host = FakeHost::new();
    let mut driver = host.start(&ACTOR, r#"{"start":"wait"}"#, None);
    assert_eq!(driver.started(), None);
    driver.shutdown();
    let failure = driver.started().expect("the end was told").expect_err("it did not come to its end");
    assert_eq!((failure.status, failure.panicked), (Status::Canceled, false));
    assert_eq!(journal().take(), ["start of actor on actor"]);

    let mut driver = host.start(&ACTOR, r#"{"start":"wait"}"#, None);
    host.advance(Duration::from_secs(5));
    assert_eq!(driver.started(), Some(Ok(())));
    driver.stop_in_order();
}

#[test]
fn a_start_that_fails_tells_status_and_sentence_and_has_no_instance() {
    let host = FakeHost::new();
    let mut driver = host.start(&ACTOR, r#"{"start":"fail"}"#, None);
    let failure = driver.started().expect("the end was told").expect_err("it failed");
    assert_eq!((failure.status, failure.message.as_str(), failure.panicked), (Status::NoSpace, "no space left", false));
    driver.shutdown();
}

#[test]
fn a_panic_in_each_hook_is_caught_and_told() {
    let host = FakeHost::new();
    let told = |failure: crate::abi::host::HookFailure| (failure.status, failure.message, failure.panicked);
    let expected = (Status::Internal, String::from("the hook panicked"), true);

    let mut driver = host.start(&ACTOR, r#"{"start":"panic"}"#, None);
    assert_eq!(told(driver.started().expect("told").expect_err("panicked")), expected);

    let mut driver = host.start(&ACTOR, r#"{"prepare_stop":"panic","stop":"panic"}"#, None);
    assert_eq!(told(driver.prepare_stop().expect("told").expect_err("panicked")), expected);
    driver.shutdown();
    assert_eq!(told(driver.stop().expect("told").expect_err("panicked")), expected);
    assert!(journal().take().contains(&String::from("driver dropped")), "the value is gone all the same");

    let mut driver = host.start(&ACTOR, r#"{"panics_in_drop":true}"#, None);
    driver.started();
    driver.shutdown();
    let failure = driver.stop().expect("told").expect_err("panicked");
    assert_eq!(failure.message, "the destructor panicked");
    assert_eq!(host.panics(), [""; 0], "a hook's panic is told by its completion alone");
}

#[test]
fn a_stop_hook_that_fails_is_told_and_the_driver_is_gone() {
    let host = FakeHost::new();
    let mut driver = host.start(&ACTOR, r#"{"prepare_stop":"fail","stop":"fail"}"#, None);
    assert_eq!(driver.prepare_stop().expect("told").expect_err("failed").status, Status::NoSpace);
    driver.shutdown();
    assert_eq!(driver.stop().expect("told").expect_err("failed").status, Status::NoSpace);
    assert!(journal().take().contains(&String::from("driver dropped")));
}

#[test]
fn destroy_drops_the_driver_without_its_stop_hook() {
    let host = FakeHost::new();
    let mut driver = host.start(&ACTOR, "{}", None);
    assert_eq!(driver.started(), Some(Ok(())));
    driver.shutdown();
    journal().take();
    driver.destroy();
    assert_eq!(journal().take(), ["driver dropped"]);
}

#[test]
fn a_configuration_that_does_not_fit_is_named_without_positions() {
    let host = FakeHost::new();
    let mut driver = host.start(&ACTOR, r#"{"count":"four"}"#, None);
    let failure = driver.started().expect("told").expect_err("it does not fit");
    assert_eq!(failure.status, Status::InvalidArgs);
    let told = "`count`: invalid type: string \"four\", expected a whole number from 0 to 4294967295";
    assert_eq!(failure.message, format!("configuration: {told}"));
}

/// Uses what the context offers beyond the hooks.
struct Busy(#[allow(dead_code, reason = "kept for its drop")] DriverContext);

impl Driver for Busy {
    const NAME: &'static str = "busy";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let noted = journal();
        let options = DispatcherOptions::new("second").shutdown_observer(move || noted.note("second ended"));
        let second = cx.new_dispatcher(options)?;
        let both = DispatcherOptions::new("both").unsynchronized().allow_sync_calls();
        let error = cx.new_dispatcher(both).expect_err("no such dispatcher");
        assert_eq!(error.to_string(), "dispatcher \"both\" cannot be created: not supported");
        assert!(second.is_synchronized() && !second.allows_sync_calls());
        let noted = journal();
        second.post_task(move |told| noted.note(format!("on {} {told:?}", current().expect("current").name())))?;
        let held = Mutex::new(Some(cx.clone()));
        spawn(async move {
            // Ends in the middle of nothing at the shutdown.
            let _held = held.lock().expect("nobody else").take();
            std::future::pending::<()>().await;
        })?;
        cx.fail(Status::IoNotPresent, "the cable is out");
        cx.fail(Status::Internal, "a second reason");
        Ok(Busy(cx))
    }
}

#[test]
fn further_dispatchers_end_with_the_driver_and_their_observers_run_last() {
    let host = FakeHost::new();
    let mut driver = host.start(&DriverEntry::of::<Busy>(), "{}", None);
    assert_eq!(driver.started(), Some(Ok(())));
    assert_eq!(journal().take(), ["on second Ok(())"]);
    assert_eq!(driver.failure(), Some((Status::IoNotPresent, String::from("the cable is out"))));
    driver.stop_in_order();
    assert_eq!(journal().take(), ["second ended"]);
}

/// Says that it is done.
struct Done(#[allow(dead_code, reason = "kept for its drop")] DriverContext);

impl Driver for Done {
    const NAME: &'static str = "done";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        cx.finish();
        cx.fail(Status::Internal, "too late to fail");
        Ok(Done(cx))
    }
}

#[test]
fn a_driver_that_has_done_its_work_says_so_and_has_not_failed() {
    let host = FakeHost::new();
    let mut driver = host.start(&DriverEntry::of::<Done>(), "{}", None);
    assert_eq!(driver.started(), Some(Ok(())));
    assert_eq!((driver.is_finished(), driver.failure()), (true, None));
    driver.stop_in_order();
}

#[test]
fn a_context_that_outlives_its_driver_answers_bad_state() {
    struct Leaver;
    thread_local!(static LEFT: Mutex<Option<DriverContext>> = const { Mutex::new(None) });
    impl Driver for Leaver {
        const NAME: &'static str = "leaver";
        async fn start(cx: DriverContext) -> Result<Self, StartError> {
            LEFT.with(|left| *left.lock().expect("nobody else") = Some(cx));
            Ok(Leaver)
        }
    }
    let host = FakeHost::new();
    let mut driver = host.start(&DriverEntry::of::<Leaver>(), "{}", None);
    driver.stop_in_order();
    let cx = LEFT.with(|left| left.lock().expect("nobody else").take()).expect("it was left");
    assert_eq!(cx.publish_address("x"), Err(Status::BadState));
    assert_eq!(
        cx.new_dispatcher(DispatcherOptions::new("late")).map(drop).map_err(|e| e.status()),
        Err(Status::BadState)
    );
    let refused = cx.dispatcher().post_task(|_| panic!("never called")).expect_err("shut down");
    assert_eq!(refused.status(), Status::BadState);
    assert_eq!(cx.add_child(crate::ChildNode::new("late")).map(drop).map_err(|e| e.status()), Err(Status::BadState));
}
