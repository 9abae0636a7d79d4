//! Goal: what the table says of dispatchers holds on the real runtime: pinned ones, sealed ones, and posts that allocate
//! nothing.
//! Method: small drivers in the harness, on a foreground runtime and on threads; allocations are counted on the foreground
//! runtime, where everything is on one thread.

use std::sync::mpsc;
use std::time::Duration;

use fuchsine_driver::{
    Canceled, ConfigKey, ConfigKind, Dispatcher, DispatcherOptions, Driver, DriverContext, DriverEntry, StartError,
    Status, current,
};
use fuchsine_testing::{ForegroundRuntime, Harness, Place};
use serde::Deserialize;

fn in_each_place(test: impl Fn(Place<'_>)) {
    test(Place::Foreground(&ForegroundRuntime::new()));
    test(Place::Threads);
}

/// Looks at what its dispatchers are and do.
struct Looker;

/// Posts to a pinned dispatcher from another one, again and again, and tells on which threads that ran.
async fn threads_of(pinned: &Dispatcher) -> Result<Vec<std::thread::ThreadId>, StartError> {
    let (sender, receiver) = mpsc::channel();
    for _ in 0..50 {
        let sender = sender.clone();
        pinned.post_task(move |_| sender.send(std::thread::current().id()).expect("the test waits"))?;
        fuchsine_driver::sleep(Duration::from_micros(10)).await?;
    }
    drop(sender);
    let last = pinned.spawn(async {})?;
    last.await?;
    Ok(receiver.try_iter().collect())
}

impl Driver for Looker {
    const NAME: &'static str = "looker";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let pinned = cx.new_dispatcher(DispatcherOptions::new("pinned").no_thread_migration())?;
        assert!(!pinned.allows_thread_migration() && cx.dispatcher().allows_thread_migration());
        let threads = threads_of(&pinned).await?;
        assert_eq!(threads.len(), 50);
        assert!(threads.iter().all(|thread| *thread == threads[0]), "it runs on one thread: {threads:?}");
        for wrong in [
            DispatcherOptions::new("wrong").no_thread_migration().unsynchronized(),
            DispatcherOptions::new("wrong").no_thread_migration().allow_sync_calls(),
        ] {
            assert_eq!(cx.new_dispatcher(wrong).unwrap_err().status(), Status::NotSupported);
        }

        let blocks = cx.new_dispatcher(DispatcherOptions::new("blocks").allow_sync_calls())?;
        assert_eq!(blocks.seal_allow_sync_calls(), Err(Status::BadState), "another one is current");
        let own = blocks.clone();
        let sealing = blocks.spawn(async move {
            assert!(own.allows_sync_calls() && fuchsine_driver::blocking(|| ()).is_ok());
            assert_eq!(own.seal_allow_sync_calls(), Ok(()));
            assert!(!own.allows_sync_calls());
            assert_eq!(fuchsine_driver::blocking(|| ()).unwrap_err().status(), Status::BadState);
            assert_eq!(own.seal_allow_sync_calls(), Err(Status::AlreadyExists));
        })?;
        sealing.await?;
        Ok(Looker)
    }
}

static LOOKER: DriverEntry = DriverEntry::of::<Looker>();

#[test]
fn a_pinned_dispatcher_stays_on_one_thread_and_a_sealed_one_blocks_no_more() {
    in_each_place(|place| drop(Harness::builder(&LOOKER).start(place).unwrap().stop().unwrap()));
}

/// Posts to itself so many times in a row.
struct Chain;

#[derive(Deserialize)]
struct Config {
    posts: u64,
}

fn post_next(left: u64) {
    let Some(own) = current().filter(|_| left > 0) else { return };
    let posted = own.post_task(move |told: Result<(), Canceled>| {
        if told.is_ok() {
            post_next(left - 1);
        }
    });
    posted.expect("it runs");
}

impl Driver for Chain {
    const NAME: &'static str = "chain";
    const CONFIG: &'static [ConfigKey] = &[ConfigKey::required("posts", ConfigKind::Integer, "how many")];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let Config { posts } = cx.config()?;
        cx.dispatcher().post_after(Duration::from_secs(1), move |_| post_next(posts))?;
        Ok(Chain)
    }
}

static CHAIN: DriverEntry = DriverEntry::of::<Chain>();

/// How often a driver that posts so many times asks the allocator for something.
fn allocations(posts: u64) -> u64 {
    let runtime = ForegroundRuntime::new();
    let harness = Harness::builder(&CHAIN).config(format!("posts = {posts}")).start(&runtime).unwrap();
    let counted = allocation_counter::measure(|| runtime.advance(Duration::from_secs(2))).count_total;
    let dump = harness.dump();
    let chain = dump.drivers.iter().find(|driver| driver.name == "chain").expect("it runs");
    assert!(chain.counters.ran > posts, "{chain}");
    harness.stop().unwrap();
    counted
}

/// The run queue is a list of blocks of 63 runnables, and a dispatcher goes through it at least every ten callbacks.
#[test]
fn a_driver_that_posts_allocates_nothing_for_it() {
    allocations(200);
    let (few, many) = (allocations(1_000), allocations(20_000));
    let turns = 20_000 / 10 + 1;
    assert!(many <= few + turns / 63 + 2, "{few} allocations of 1,000 posts, {many} of 20,000");
}
