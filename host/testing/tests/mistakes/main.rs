//! Goal: the kit finds the classical mistakes of drivers within few seeds, and says which driver, what and at which step;
//! and it finds nothing in their corrected twins.
//! Method: one small driver a file, whose constant parameter tells whether it is the corrected one, with a scenario that
//! says what a client may rely on.

mod support;

mod blocking_on_wrong_dispatcher;
mod double_release;
mod leaked_child;
mod lost_completion;
mod order_on_unsynchronized;
mod post_when_canceled;
mod reentrancy;
mod reply_after_close;
mod shared_state;
mod stop_before_cancel;
mod timer_never_canceled;
mod use_after_transfer;

use fuchsine_driver::DriverEntry;
use fuchsine_testing::{Explorer, Failure, ForegroundRuntime, Harness, HarnessBuilder, Injector, Peer, Seeds, Target};

/// Within so many seeds each mistake is found.
const SEEDS: u64 = 1000;

/// What a client does with the driver, and what it relies on.
type Scenario = fn(&ForegroundRuntime, &'static DriverEntry);

/// How the kit looks for a mistake.
#[derive(Debug, Clone, Copy)]
enum Look {
    /// Other orders of events.
    Explore,
    /// The stop of the host at a moment in the middle.
    Stop,
}

impl Look {
    fn at(self, seeds: impl Into<Seeds>, driver: &'static DriverEntry, scenario: Scenario) -> Result<(), Box<Failure>> {
        let explorer = Explorer::new().seeds(seeds);
        match self {
            Look::Explore => explorer.try_explore(|rt| scenario(rt, driver)).map(drop),
            Look::Stop => {
                let injector = Injector::new().explorer(explorer).one_step_a_seed();
                injector.try_shutdown(Target::custom("the stop of the host"), |rt| scenario(rt, driver)).map(drop)
            }
        }
    }
}

/// Starts a driver.
#[track_caller]
fn begin(rt: &ForegroundRuntime, builder: HarnessBuilder) -> Harness<'_> {
    let harness = builder.start(rt).unwrap_or_else(|problem| panic!("{problem}"));
    rt.on_injection(harness.stopper());
    harness
}

/// The connection of the driver to a service of its parent; `None` if something was injected that kept it from that.
#[track_caller]
fn line<'rt>(rt: &ForegroundRuntime, harness: &Harness<'rt>, service: &str) -> Option<Peer<'rt>> {
    let line = harness.accept(service);
    assert!(line.is_some() || rt.was_injected(), "the driver does not connect to `{service}`");
    line
}

/// Stops it.
#[track_caller]
fn end(harness: Harness<'_>) {
    harness.stop().unwrap_or_else(|problem| panic!("{problem}"));
}

macro_rules! mistakes {
    ($($module:ident: $driver:ident, $look:ident, $says:expr;)*) => {$(
        #[test]
        fn $module() {
            static BROKEN: DriverEntry = DriverEntry::of::<$module::$driver<false>>();
            static FIXED: DriverEntry = DriverEntry::of::<$module::$driver<true>>();
            find(Look::$look, &BROKEN, $module::scenario, $says);
            pass(Look::$look, &FIXED, $module::scenario);
        }
    )*};
}

/// The mistake is found, and the report says what was expected of it, at which step that was, and which operations of the
/// driver led there.
fn find(look: Look, driver: &'static DriverEntry, scenario: Scenario, says: &str) {
    let found = look.at(SEEDS, driver, scenario).expect_err("the kit finds it");
    let report = found.to_string();
    assert!(found.message.contains(says), "the report says {says:?}:\n{report}");
    assert!(report.contains(driver.name()), "the report names the driver:\n{report}");
    assert!(found.step > 0, "it fails at a step:\n{report}");
    assert!(report.contains(&format!("it failed at step {} of:", found.step)), "the report names the step:\n{report}");
    let its_operation = format!(" on {}", driver.name());
    let is_shown = |line: &&String| line.contains(" of ") && line.contains(&its_operation);
    assert!(
        found.trace.lines().iter().any(|line| is_shown(&line)),
        "the trace names no operation of the driver:\n{report}"
    );
    // Some fail without an injection too.
    if let Some(moment) = found.moment {
        let injected = found.injected.as_deref().unwrap_or_default();
        assert!(injected.contains("\"the stop of the host\" begins ") && injected.contains(" at step "), "{report}");
        assert!(report.contains(&format!("@{moment}\n")), "{report}");
    }
}

/// In none of these seeds anything is found in the corrected driver.
fn pass(look: Look, driver: &'static DriverEntry, scenario: Scenario) {
    if let Err(found) = look.at(Seeds::from_environment_or(100), driver, scenario) {
        panic!("nothing is wrong with the corrected driver, but:\n{found}");
    }
}

mistakes! {
    blocking_on_wrong_dispatcher: Archivist, Explore, "the disk may be waited for here";
    double_release: Cloakroom, Explore, "cloakroom: two tags for three";
    leaked_child: Board, Explore, "board: the nodes after the lamp was unplugged";
    lost_completion: Clerk, Stop, "was accepted and has not ended";
    order_on_unsynchronized: Scribe, Explore, "scribe: copies are out of order";
    post_when_canceled: Courier, Stop, "driver `courier` on /test-parent/test: waiting for its stop to end";
    reentrancy: Asker, Explore, "asker: the answer is there when the write returns";
    reply_after_close: Receptionist, Stop, "receptionist: something was said after the goodbye";
    shared_state: Bank, Explore, "bank: the balance after two deposits";
    stop_before_cancel: Diver, Stop, "diver: its stop says why before a read is canceled";
    timer_never_canceled: LockKeeper, Explore, "lock-keeper: closed a lock in its time";
    use_after_transfer: Switchboard, Explore, "switchboard: the line was handed over and is used";
}
