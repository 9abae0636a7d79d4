//! More of what is done at each place: explorations of a runtime inside of whatever this is.

use std::time::Duration;

use fuchsine_dispatcher::DispatcherBuilder;
use fuchsine_dispatcher::testing::{
    Explorer, Fallible, ForegroundRuntime, Injector, Recording, Schedule, Seeds, Strategy, Target, assert_canceled,
    assert_fifo, assert_never_parallel, explore, fail_every, panic_at_every_callback, shutdown_at_every_step,
};
use fuchsine_dispatcher::{Kind, RuntimeBuilder};

use super::operations::{Operation, done, silent};

/// The operations.
pub(crate) const OPERATIONS: &[Operation] = &[
    silent("explore", |_| done(explore(2, two_posts))),
    silent("explore with everything set", |_| {
        let explorer = Explorer::new()
            .seeds(Seeds::from_environment_or(0..2))
            .strategy(Strategy::Pct { preemptions: 2 })
            .inline_choices(false)
            .overlap(false)
            .slow_time(true)
            .allow_panics()
            .builder(RuntimeBuilder::new)
            .max_steps(1000)
            .check_determinism(true)
            .allow_foreign_threads()
            .hang_limit(Duration::from_secs(20))
            .shrink(false);
        done((explorer.explore(two_posts).to_string(), Seeds::from(7).count()));
    }),
    silent("explore what fails", |_| {
        let only = "picks:1.0x3".parse::<Schedule>().expect("it is one");
        let found = Explorer::new().only(only).try_explore(|_| panic!("of a scenario")).expect_err("it fails");
        done((found.trace.lines().len(), found.to_string()));
    }),
    silent("inject everything", |_| {
        let shutdowns = shutdown_at_every_step(injected_into, Target::runtime()).to_string();
        // While a panic unwinds nothing is injected into callbacks, which is told.
        let panics = std::panic::catch_unwind(|| panic_at_every_callback(injected_into)).is_err();
        done((shutdowns, panics, fail_every(Fallible::Dispatcher, injected_into)));
    }),
    silent("inject with everything set", |_| {
        let injector = || Injector::new().explorer(Explorer::new().seeds(2)).one_step_a_seed().bound(50);
        done(injector().shutdown(Target::driver("explored"), injected_into));
        let targets = [Target::dispatcher("nobody"), Target::custom("by itself")];
        done(targets.map(|target| injector().try_shutdown(target, injected_into).is_err()));
        let panics = std::panic::catch_unwind(|| injector().panics(injected_into)).is_err();
        done((panics, injector().refusals(Fallible::Dispatcher, injected_into)));
    }),
    silent("record and assert", |_| {
        let runtime = ForegroundRuntime::new();
        let recording = Recording::of(&runtime);
        two_posts(&runtime);
        let (all, named) = (recording.callbacks(), recording.callbacks_of("nobody"));
        assert_fifo(&all);
        assert_never_parallel(&all);
        let canceled = std::panic::catch_unwind(|| assert_canceled(&named));
        done((canceled.is_err(), recording.callbacks_of_kind("nobody", Kind::Task)));
    }),
    silent("ask who waits", |_| {
        let waits = ForegroundRuntime::new().waits();
        done((waits.is_empty(), waits.is_deadlock(), waits.to_string()));
    }),
    silent("inject into what fails", |_| {
        let fails = |_: &ForegroundRuntime| panic!("of a scenario");
        let found = [
            Injector::new().try_shutdown(Target::runtime(), fails),
            Injector::new().try_panics(fails),
            Injector::new().try_refusals(Fallible::Thread, fails),
        ];
        done(found.map(|found| found.expect_err("it fails").to_string()));
    }),
];

fn injected_into(runtime: &ForegroundRuntime) {
    runtime.on_injection(|| ());
    let driver = runtime.new_driver("explored");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new());
    drop(runtime.pending());
    let posted = dispatcher.as_ref().is_ok_and(|dispatcher| dispatcher.post_task(|_| ()).is_ok());
    runtime.run_until_idle();
    assert!(posted || runtime.was_injected());
}

fn two_posts(runtime: &ForegroundRuntime) {
    let driver = runtime.new_driver("explored");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("it is made");
    for _ in 0..2 {
        dispatcher.post_task(|_| ()).expect("it runs");
    }
    runtime.run_until_idle();
}
