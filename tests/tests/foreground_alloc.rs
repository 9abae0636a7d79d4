//! Goal: turning the crank of a foreground runtime asks the allocator for nothing by itself.
//! Method: count the allocations of the thread that turns it, without anything to do and with few and many tasks, which
//! are stored in place.

use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{DispatcherBuilder, DispatcherHandle};

/// How often the thread allocates in so many turns of a chain of tasks, each of which posts the next.
fn chain(turns: u32) -> u64 {
    fn next(home: DispatcherHandle, left: u32) {
        let Some(left) = left.checked_sub(1) else { return };
        let again = home.clone();
        home.post_task(move |_| next(again, left)).expect("accepted");
    }
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("chain");
    let home = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let other_role = DispatcherBuilder::new().scheduler_role("another pool");
    let _other = driver.new_dispatcher(other_role).expect("created");
    next(home.handle(), turns);
    let allocations = allocation_counter::measure(|| while runtime.run_once() {});
    assert_eq!(home.counters().ran, u64::from(turns));
    allocations.count_total
}

#[test]
fn a_turn_with_nothing_to_do_allocates_nothing() {
    let runtime = ForegroundRuntime::new();
    runtime.run_until_idle();
    let allocations = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            assert!(!runtime.run_once());
        }
    });
    assert_eq!(allocations.count_total, 0);
}

/// The run queue has a block for each 63 runnables that pass through it, so what a chain allocates is that and no more.
#[test]
fn a_turn_with_a_task_allocates_nothing_but_blocks_of_the_run_queue() {
    chain(10);
    let (few, many) = (chain(100), chain(6_400));
    assert!(many - few <= 6_300 / 63 + 1, "{few} allocations of 100 turns, {many} of 6,400");
}
