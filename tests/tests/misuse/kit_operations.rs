//! More of what is done at each place: explorations of a runtime inside of whatever this is.

use fuchsine_dispatcher::DispatcherBuilder;
use fuchsine_dispatcher::RuntimeBuilder;
use fuchsine_dispatcher::testing::{Explorer, ForegroundRuntime, Schedule, Strategy, explore};

use super::operations::{Operation, done, silent};

/// The operations.
pub(crate) const OPERATIONS: &[Operation] = &[
    silent("explore", |_| done(explore(2, two_posts))),
    silent("explore with everything set", |_| {
        let explorer = Explorer::new()
            .seeds(0..2)
            .strategy(Strategy::Pct { preemptions: 2 })
            .inline_choices(false)
            .overlap(false)
            .slow_time(true)
            .allow_panics()
            .builder(RuntimeBuilder::new)
            .max_steps(1000)
            .check_determinism(true)
            .shrink(false);
        done(explorer.explore(two_posts));
    }),
    silent("explore what fails", |_| {
        let only = "picks:1.0x3".parse::<Schedule>().expect("it is one");
        let found = Explorer::new().only(only).try_explore(|_| panic!("of a scenario")).expect_err("it fails");
        done((found.trace.lines().len(), found.to_string()));
    }),
];

fn two_posts(runtime: &ForegroundRuntime) {
    let driver = runtime.new_driver("explored");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("it is made");
    for _ in 0..2 {
        dispatcher.post_task(|_| ()).expect("it runs");
    }
    runtime.run_until_idle();
}
