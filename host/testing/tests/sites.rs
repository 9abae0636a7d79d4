//! Goal: dumps, recordings, traces and leak reports name the driver's own lines and types, not the host's code that stands
//! in between.
//! Method: a driver does everything that is listed somewhere, on lines of this file that are marked with a comment; what
//! the reports say is compared with the marks.

use std::time::Duration;

use fuchsine_driver::net::{Listener, Stream};
use fuchsine_driver::{
    Channel, ChildNode, DispatcherOptions, Driver, DriverContext, DriverEntry, Lane, Message, StartError, Status,
    StopError, offload, sleep, spawn, timeout,
};
use fuchsine_testing::{Explorer, ForegroundRuntime, Harness, Place, Recording};

/// The line that is marked with `mark: NAME`.
#[track_caller]
fn line(name: &str) -> u32 {
    let mark = format!("// mark: {name}");
    let mut lines = include_str!("sites.rs").lines().enumerate().filter(|(_, line)| line.trim().ends_with(&mark));
    let (index, _) = lines.next().unwrap_or_else(|| panic!("no line is marked as {name}"));
    assert!(lines.next().is_none(), "two lines are marked as {name}");
    u32::try_from(index).expect("the file is short") + 1
}

/// Waits for everything that a driver can wait for.
struct Waiter {
    _child: fuchsine_driver::Child,
}

impl Driver for Waiter {
    const NAME: &'static str = "waiter";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let here = cx.dispatcher();
        here.post_task(|_| ())?; // mark: task
        drop(here.post_cancelable(|_| ())?); // mark: cancelable
        drop(here.post_after(Duration::from_secs(3600), |_| ())?); // mark: delayed
        drop(here.offload(Lane::Fast, |_| 7, |_| ())?); // mark: offload
        let (near, far) = Channel::pair()?;
        near.begin_read(&here, move |_| drop(far))?; // mark: read
        spawn(async move {
            let near = near;
            std::future::pending::<()>().await;
            drop(near);
        })?;
        let listener = Listener::bind("127.0.0.1:0")?;
        listener.begin_wait(&here, |_| ())?; // mark: wait
        let address = listener.local_address().to_owned();
        spawn(async move {
            let _accepted = listener.accept().await?; // mark: accept
            std::future::pending::<Result<(), Status>>().await
        })?;
        spawn(async move {
            let stream = Stream::connect(&address).await?; // mark: connect
            stream.read(&mut [0; 8]).await?; // mark: stream
            Ok::<_, StartError>(())
        })?;
        let (near, far) = Channel::pair()?;
        spawn(async move {
            let _far = far;
            near.read().await // mark: await a read
        })?;
        spawn(async { sleep(Duration::from_secs(7200)).await })?; // mark: sleep
        spawn(async { timeout(Duration::from_secs(3), std::future::pending::<()>()).await })?; // mark: timeout
        spawn(async { offload(Lane::Slow, |_| 8).await })?; // mark: await an offload
        let parent = cx.node().connect("line").await?; // mark: service
        drop(parent);
        let more = cx.new_dispatcher(DispatcherOptions::new("more"))?;
        more.spawn(async { std::future::pending::<()>().await })?; // mark: elsewhere
        let child = ChildNode::new("port").property("kind", "port").service("port", drop); // mark: offer
        Ok(Waiter { _child: cx.add_child(child)? })
    }

    async fn stop(self) -> Result<(), StopError> {
        Ok(())
    }
}

static WAITER: DriverEntry = DriverEntry::of::<Waiter>(); // mark: entry

/// What is marked as each, as which kind of callback, and what its type is called.
const MARKED: &[(&str, &str, &str)] = &[
    ("task", "task", "<sites::Waiter as"),
    ("cancelable", "task", "<sites::Waiter as"),
    ("delayed", "delayed task", "<sites::Waiter as"),
    ("offload", "offload", "<sites::Waiter as"),
    ("read", "channel read", "<sites::Waiter as"),
    ("wait", "wait", "<sites::Waiter as"),
    ("accept", "wait", "fuchsine_driver::net::listener::Listener"),
    ("connect", "wait", "fuchsine_driver::net::stream::Stream"),
    ("stream", "wait", "fuchsine_driver::net::stream::Stream"),
    ("await a read", "channel read", "fuchsine_driver::channel::Read"),
    ("sleep", "delayed task", "fuchsine_driver::time::Sleep"),
    ("timeout", "delayed task", "fuchsine_driver::time::Sleep"),
    ("await an offload", "offload", "<sites::Waiter as"),
    ("service", "task", "fuchsine_driver::node::Node"),
    ("elsewhere", "future", "<sites::Waiter as"),
    ("offer", "task", "core::mem::drop"),
    ("entry", "future", "<sites::Waiter as fuchsine_driver::driver::Driver>::start"),
    ("entry", "future", "<sites::Waiter as fuchsine_driver::driver::Driver>::stop"),
];

#[test]
fn every_callback_of_a_driver_is_recorded_with_its_own_line_and_type() {
    let runtime = ForegroundRuntime::new();
    let recording = Recording::of(&runtime);
    let builder = Harness::builder(&WAITER).service("line").children([("kind", "port")]);
    let harness = builder.start(&runtime).unwrap();
    harness.accept("line").expect("it connects");
    harness.connect_child("port", "port").unwrap();
    harness.settle();
    harness.stop().unwrap();
    let callbacks = recording.callbacks();
    for (mark, kind, type_name) in MARKED {
        let line = line(mark);
        let is_meant = |site: &fuchsine_dispatcher::Site| site.file() == file!() && site.line() == line;
        let here: Vec<_> = callbacks.iter().filter(|one| is_meant(&one.posted_from)).collect();
        assert!(
            here.iter().any(|one| one.kind == *kind && one.type_name.starts_with(type_name)),
            "{mark}: a {kind} of line {line} ({type_name}) is not among {here:#?}"
        );
    }
    let of_driver = callbacks.iter().filter(|one| one.driver == "waiter");
    let strangers: Vec<_> =
        of_driver.filter(|one| one.posted_from.file() != file!()).map(|one| one.to_string()).collect();
    assert!(strangers.is_empty(), "callbacks of the driver that name other files: {strangers:#?}");
}

#[test]
fn a_dump_lists_what_is_pending_by_the_line_of_the_driver() {
    fn dump(place: Place<'_>) {
        let harness = Harness::builder(&WAITER).service("line").start(place).unwrap();
        harness.accept("line").expect("it connects");
        let dump = harness.dump();
        let drivers: Vec<_> = dump.drivers.iter().filter(|driver| driver.name == "waiter").collect();
        let text = drivers[0].to_string();
        for (mark, what) in [
            ("delayed", "delayed task"),
            ("read", "channel read"),
            ("await a read", "channel read"),
            ("sleep", "delayed task"),
        ] {
            let (_, _, type_name) = MARKED.iter().find(|(name, kind, _)| *name == mark && *kind == what).unwrap();
            let posted = format!(": {what} posted at {}:{}:", file!(), line(mark));
            let listed = text.lines().find(|line| line.contains(&posted));
            assert!(listed.is_some_and(|line| line.contains(&format!(" ({type_name}"))), "{posted:?} in\n{text}");
        }
        assert!(!text.contains("host/runtime/src/load"), "the host is named in\n{text}");
        harness.stop().unwrap();
    }
    dump(Place::Foreground(&ForegroundRuntime::new()));
    dump(Place::Threads);
}

/// Blocks in its one callback until it is told to go on.
struct Blocker;

static GO_ON: std::sync::OnceLock<std::sync::mpsc::Sender<()>> = std::sync::OnceLock::new();

impl Driver for Blocker {
    const NAME: &'static str = "blocker";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        GO_ON.set(sender).expect("there is one");
        let slow = cx.new_dispatcher(DispatcherOptions::new("slow").allow_sync_calls())?;
        slow.post_task(move |_| drop(fuchsine_driver::blocking(move || receiver.recv())))?; // mark: running
        Ok(Blocker)
    }
}

static BLOCKER: DriverEntry = DriverEntry::of::<Blocker>();

#[test]
fn what_runs_is_listed_by_the_line_of_the_driver() {
    let harness = Harness::builder(&BLOCKER).start(Place::Threads).unwrap();
    let mut running = None;
    assert!(harness.run_until(|| {
        let dump = harness.dump();
        let slow = dump.drivers.iter().flat_map(|driver| &driver.dispatchers).find(|one| one.name == "slow").cloned();
        running = slow.and_then(|slow| slow.running.into_iter().next());
        running.is_some()
    }));
    let running = running.expect("it runs");
    let site = running.posted_from.expect("it was posted");
    assert_eq!((site.file(), site.line()), (file!(), line("running")));
    assert!(running.type_name.starts_with("<sites::Blocker as"), "{}", running.type_name);
    GO_ON.get().expect("it runs").send(()).expect("it waits");
    harness.stop().unwrap();
}

/// Leaves something behind.
struct Leaker;

impl Driver for Leaker {
    const NAME: &'static str = "leaker";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        match cx.node().property("leaves").as_deref() {
            Some("a channel") => std::mem::forget(Channel::pair()?), // mark: leaked channel
            Some("a message") => std::mem::forget(Message::from_bytes(b"lost")?), // mark: leaked message
            Some("a socket") => std::mem::forget(Listener::bind("127.0.0.1:0")?), // mark: leaked socket
            _ => return Err(StartError::new(Status::InvalidArgs, "leaves what?")),
        }
        Ok(Leaker)
    }
}

static LEAKER: DriverEntry = DriverEntry::of::<Leaker>();

#[test]
fn what_a_driver_leaks_and_does_is_reported_by_its_line() {
    for (what, mark, says) in [
        ("a channel", "leaked channel", "channel end made at"),
        ("a message", "leaked message", "arena made at"),
        ("a socket", "leaked socket", "simulated descriptor made at"),
    ] {
        let found = Explorer::new().seeds(1).try_explore(|runtime| {
            let harness = Harness::builder(&LEAKER).property("leaves", what).start(runtime).unwrap();
            harness.stop().unwrap();
        });
        let found = found.map(drop).expect_err("something is left").to_string();
        let made = format!("{says} {}:{}:", file!(), line(mark));
        assert!(found.contains(&made), "{made:?} in\n{found}");
        for name in ["start", "prepare_stop", "stop"] {
            let hook = format!("future of {name} ({}:{}:", file!(), line_of_the_entry_of_the_leaker());
            assert!(found.contains(&hook), "{hook:?} in the trace of\n{found}");
        }
        assert!(!found.contains("host/runtime/src/load"), "the host is named in\n{found}");
    }
}

fn line_of_the_entry_of_the_leaker() -> u32 {
    let at = include_str!("sites.rs").lines().position(|line| line.starts_with("static LEAKER"));
    u32::try_from(at.expect("it is there")).expect("the file is short") + 1
}
