//! What becomes of drivers that end, on real runtimes. Goal: each policy leads where the manifest says, and the rest of the
//! host goes on. Method: drivers that end in a way that their configuration names, so often as it says; on threads and in
//! the foreground, where waits pass at once.

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{HANG_LIMIT, Part, World, failures, journal, note, worlds};
use fuchsine_driver::{
    ConfigKey, ConfigKind, Driver, DriverContext, DriverEntry, StartError, Status, StopError, sleep, spawn,
};
use fuchsine_host::{Host, HostEvent, HostState, Manifest, NotStarted, Registry, Source};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Config {
    journal: String,
    how: String,
    times: usize,
    /// Whether it waits for [`LET_DIE`] in its journal.
    waits: bool,
}

/// What the journal says when those that wait for it are to end.
const LET_DIE: &str = "they may end";

/// Ends as `how` says in the first `times` of its lives, and stays then.
struct Mortal(DriverContext, String);

impl Driver for Mortal {
    const NAME: &'static str = "mortal";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::required("journal", ConfigKind::Text, "where to write what happens"),
        ConfigKey::required("how", ConfigKind::Text, "how it ends"),
        ConfigKey::optional("times", ConfigKind::Integer, "1", "how often"),
        ConfigKey::optional("waits", ConfigKind::Boolean, "false", "whether the test says when"),
    ];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        note(&config.journal, format!("{} start", cx.name()));
        if common::count(&config.journal, &format!("{} start", cx.name())) > config.times {
            return Ok(Mortal(cx, config.journal));
        }
        if config.how == "start" {
            return Err(StartError::new(Status::Internal, "not yet"));
        }
        let (ending, journal) = (cx.clone(), config.journal.clone());
        let end = spawn(async move {
            while sleep(Duration::from_millis(1)).await.is_ok()
                && config.waits
                && common::count(&config.journal, LET_DIE) == 0
            {}
            match config.how.as_str() {
                "fail" => ending.fail(Status::IoNotPresent, "the device is gone"),
                "finish" => ending.finish(),
                _ => panic!("it was told to"),
            }
        });
        drop(end.map_err(|_| StartError::new(Status::BadState, "no dispatcher"))?);
        Ok(Mortal(cx, journal))
    }

    async fn stop(self) -> Result<(), StopError> {
        note(&self.1, format!("{} stop", self.0.name()));
        Ok(())
    }
}

static MORTAL: DriverEntry = DriverEntry::of::<Mortal>();

fn host(world: &World, book: &str, how: &str, times: usize, policy: &str) -> Host {
    let rest = common::manifest(book, &[Part("other", None, "")]);
    let manifest = format!(
        "[drivers.it]\ndriver = \"mortal\"\n{policy}\nconfig.journal = {book:?}\nconfig.how = {how:?}\nconfig.times = {times}\n{rest}"
    );
    world.host_of(&[&MORTAL, common::entry()], &manifest)
}

/// The lines of one driver.
fn of(lines: &[String], driver: &str) -> Vec<String> {
    let prefix = format!("{driver} ");
    lines.iter().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

#[test]
fn a_driver_that_fails_is_started_again_and_the_rest_does_not_notice() {
    for world in worlds() {
        for (how, restart) in
            [("fail", "on-failure"), ("panic", "on-failure"), ("start", "on-failure"), ("finish", "always")]
        {
            let book = world.journal(&format!("again after {how}"));
            let host = host(&world, &book, how, 2, &format!("restart = {restart:?}\nbackoff.initial = \"1ms\""));
            assert_eq!(world.started(&host), Ok(vec![]), "{how}");
            world.until("it runs for the third time", || common::count(&book, "it start") == 3);
            world.settle();
            assert_eq!(host.state(), HostState::Running);
            let summary = world.stop(&host);
            assert!(!summary.has_failed(), "it was started again each time");
            assert_eq!(failures(&summary).len(), if how == "finish" { 0 } else { 2 }, "{how}: {summary:?}");
            let lines = journal(&book);
            assert_eq!(of(&lines, "other"), ["start", "prepare_stop", "stop", "dropped"], "{how}");
            let stops = of(&lines, "it").iter().filter(|line| *line == "stop").count();
            assert_eq!(stops, if matches!(how, "fail" | "finish") { 3 } else { 1 }, "{how}: {lines:?}");
        }
    }
}

#[test]
fn a_driver_that_is_not_to_be_started_again_stays_down() {
    for world in worlds() {
        for (how, policy) in [
            ("fail", ""),
            ("panic", "restart = \"always\"\non_panic = \"stop\""),
            ("finish", "restart = \"on-failure\""),
        ] {
            let book = world.journal(&format!("down after {how}"));
            let host = host(&world, &book, how, 9, &format!("config.waits = true\n{policy}"));
            assert_eq!(world.started(&host), Ok(vec![]));
            // Before all have started it would be the end of the host.
            note(&book, LET_DIE.to_owned());
            world.until("it is gone", || host.summary().drivers().len() == 1);
            world.settle();
            let node = host.nodes().into_iter().find(|node| node.path() == "/it").expect("the node stays");
            assert_eq!((node.driver(), node.is_quarantined()), (None, how != "finish"), "{how}: {}", node.state());
            assert_eq!(world.stop(&host).has_failed(), how != "finish", "{how}");
            assert_eq!(of(&journal(&book), "it").iter().filter(|line| *line == "start").count(), 1);
        }
    }
}

#[test]
fn a_panic_can_be_a_reason_to_restart_when_other_failures_are_none() {
    for world in worlds() {
        let book = world.journal("panic restarts");
        let host = host(&world, &book, "panic", 1, "on_panic = \"restart\"\nbackoff.initial = \"1ms\"");
        assert_eq!(world.started(&host), Ok(vec![]));
        world.until("it runs again", || common::count(&book, "it start") == 2);
        assert!(!world.stop(&host).has_failed());
        journal(&book);
    }
}

#[test]
fn a_driver_that_fails_too_often_is_given_up_and_fails_the_host_only_before_all_have_started() {
    for world in worlds() {
        for (how, starts_up) in [("start", false), ("fail", true)] {
            let book = world.journal(&format!("too often: {how}"));
            let policy =
                "restart = \"on-failure\"\nbackoff = { initial = \"1ms\", max = \"1ms\" }\nlimit = { count = 3 }";
            let host = host(&world, &book, how, usize::MAX >> 1, policy);
            let started = world.started(&host);
            assert_eq!(started.is_ok(), starts_up, "{how}: {started:?}");
            world.until("it is given up", || host.summary().has_failed());
            assert_eq!(common::count(&book, "it start"), 4, "once, and three restarts");
            if !starts_up {
                assert!(matches!(started, Err(NotStarted::Failed { driver, .. }) if driver == "it"));
            }
            assert!(world.stop(&host).has_failed());
            journal(&book);
        }
    }
}

#[test]
fn waits_between_restarts_grow_on_the_clock_of_the_runtime() {
    let [_, world] = worlds();
    let World::Foreground(runtime) = &world else { unreachable!("the second one") };
    let book = world.journal("waits");
    let policy = "restart = \"on-failure\"\nbackoff = { initial = \"1s\", factor = 3, max = \"5s\" }";
    let host = host(&world, &book, "start", 3, policy);
    let mut starts = vec![];
    let begin = runtime.now();
    while starts.len() < 4 {
        let before = common::count(&book, "it start");
        assert!(
            runtime
                .run_until_condition(|| common::count(&book, "it start") > before || before == 0 && !starts.is_empty())
        );
        starts.push(runtime.now().duration_since(begin).as_secs());
    }
    assert_eq!(starts, [0, 1, 4, 9], "after one second, three, and five instead of nine");
    world.stop(&host);
    journal(&book);
}

#[test]
fn a_node_whose_driver_stays_down_can_be_for_another() {
    for world in worlds() {
        let book = world.journal("rematch");
        let manifest = format!(
            "[drivers.it]\ndriver = \"mortal\"\nbind = {{ kind = \"block\" }}\nrematch = true\n\
             config = {{ journal = {book:?}, how = \"fail\", times = 9 }}\n{}",
            common::manifest(&book, &[Part("disk", None, "child = \"block\""), Part("spare", Some("block"), "")])
        );
        let host = world.host_of(&[&MORTAL, common::entry()], &manifest);
        world.until("the other one has it", || common::count(&book, "spare start") == 1);
        assert_eq!(world.started(&host), Ok(vec![]));
        let explained = host.explain("/disk/block").expect("the node is there").to_string();
        assert!(explained.contains("spare: has it"), "{explained}");
        assert_eq!(world.stop(&host).drivers().len(), 3);
        journal(&book);
    }
}

#[test]
fn a_driver_is_stopped_started_and_restarted_by_request_with_what_is_below_it() {
    for world in worlds() {
        let book = world.journal("by request");
        let host = world.host(&book, &[Part("disk", None, "child = \"block\""), Part("nbd", Some("block"), "")]);
        world.started(&host).unwrap();
        host.stop_driver("disk").unwrap();
        world.until("both are gone", || host.summary().drivers().len() == 2);
        world.settle();
        assert_eq!(host.state(), HostState::Running, "somebody may want to start it again");
        assert_eq!(
            host.nodes().iter().map(|node| (node.path(), node.state())).collect::<Vec<_>>(),
            [("/disk", "`disk` was stopped here by request")]
        );
        assert!(!host.summary().has_failed());
        host.start_driver("/disk").unwrap();
        world.until("both are back", || common::count(&book, "nbd start") == 2);
        host.restart_driver("nbd").unwrap();
        world.until("it is back again", || common::count(&book, "nbd start") == 3);
        assert_eq!(common::count(&book, "disk start"), 2, "nobody touched it");
        host.stop_driver("nbd").unwrap();
        host.restart_driver("disk").unwrap();
        world.until("disk is back", || common::count(&book, "disk start") == 3);
        world.settle();
        world.until("its node is there", || host.nodes().len() == 2);
        let explained = host.explain("/disk/block").unwrap().to_string();
        assert!(explained.contains("nbd: matches, but it was stopped by request; start it first"), "{explained}");
        assert_eq!(host.stop_driver("nobody").unwrap_err().to_string(), "there is no driver `nobody` in the manifest");
        assert_eq!(host.rematch("/disk/x").unwrap_err().to_string(), "there is no node `/disk/x`");
        assert_eq!(host.stop_driver("/disk/block").unwrap_err().to_string(), "no driver is bound to `/disk/block`");
        host.rematch("/disk").unwrap();
        world.until("disk is back once more", || common::count(&book, "disk start") == 4);
        assert!(!world.stop(&host).has_failed());
        assert_eq!(host.start_driver("disk").unwrap_err().to_string(), "the host is stopping");
        journal(&book);
    }
}

#[test]
fn a_new_plan_touches_only_what_is_different() {
    for world in worlds() {
        let book = world.journal("reload");
        let parts = |nbd: &'static str, more: Option<Part>| {
            let parts =
                [Part("disk", None, "child = \"block\""), Part("nbd", Some("block"), nbd), Part("old", None, "")];
            let kept = if more.is_some() { 2 } else { 3 };
            let parts: Vec<Part> = parts.into_iter().take(kept).chain(more).collect();
            common::manifest(&book, &parts)
        };
        let plan = |text: &str| {
            let registry = Registry::new([common::entry()]).unwrap();
            Manifest::parse(Source::named("test", text)).unwrap().plan(&registry).unwrap()
        };
        let first = parts("", None);
        let host = world.host_of(&[common::entry()], &first);
        world.started(&host).unwrap();
        assert_eq!(host.reload(plan(&first)).unwrap(), []);
        let changes = host.reload(plan(&parts("address = \"x://y\"", Some(Part("new", None, ""))))).unwrap();
        let told: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            ["driver `old` was removed", "driver `nbd` is restarted with its new configuration", "driver `new` is new"]
        );
        world.until("the change is through", || {
            common::count(&book, "nbd start") == 2
                && common::count(&book, "new start") == 1
                && common::count(&book, "old dropped") == 1
        });
        world.settle();
        assert_eq!(common::count(&book, "disk start"), 1, "it goes on");
        assert_eq!(common::count(&book, "disk prepare_stop"), 0);
        let rebound = first.replace("kind = \"block\"", "kind = \"tape\"");
        let told: Vec<String> = host.reload(plan(&rebound)).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(told, ["driver `new` was removed", "driver `nbd` is bound anew", "driver `old` is new"]);
        world.until("nbd is gone, and old is back under its name", || {
            common::count(&book, "nbd dropped") == 2 && common::count(&book, "old start") == 2
        });
        assert_eq!(common::count(&book, "disk start"), 1, "it goes on");
        assert!(!world.stop(&host).has_failed());
        journal(&book);
    }
}

#[test]
fn a_driver_that_does_not_stop_in_time_is_hurried_and_tells_what_it_waits_for() {
    for world in worlds() {
        for (config, phase) in
            [("prepare = \"hang\"", "its prepare_stop to end"), ("stop = \"hang\"", "its stop to end")]
        {
            let book = world.journal(&format!("hurried: {config}"));
            let manifest = common::manifest(&book, &[Part("disk", None, config), Part("other", None, "")]).replacen(
                "driver = \"probe\"",
                "driver = \"probe\"\nstop_timeout = \"50ms\"",
                1,
            );
            let host = world.host_of(&[common::entry()], &manifest);
            world.started(&host).unwrap();
            host.stop_driver("disk").unwrap();
            world.until("it is gone", || host.summary().drivers().len() == 1);
            let summary = world.stop(&host);
            let [(driver, why)] = failures(&summary)[..] else { panic!("{summary:?}") };
            assert_eq!(driver, "disk");
            let told = format!("did not stop well: the time of its stop (50ms) is up: the host waits for {phase}");
            assert!(why.starts_with(&told), "{why}");
            assert!(!summary.drivers()[0].is_given_up());
            assert!(journal(&book).contains(&"disk dropped".to_owned()), "nothing of it is left");
        }
    }
}

/// Blocks a thread in the hook that its configuration names, until the test lets it go.
struct Blocker(String);

static LET_GO: std::sync::Mutex<()> = std::sync::Mutex::new(());

impl Driver for Blocker {
    const NAME: &'static str = "blocker";
    const CONFIG: &'static [ConfigKey] = &[ConfigKey::required("how", ConfigKind::Text, "where it blocks")];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        #[derive(Deserialize)]
        struct Config {
            how: String,
        }
        Ok(Blocker(cx.config::<Config>()?.how))
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        if self.0 == "prepare_stop" {
            drop(LET_GO.lock());
        }
        // What panics is destroyed without another call.
        assert_ne!(self.0, "destruction");
        Ok(())
    }

    async fn stop(self) -> Result<(), StopError> {
        if self.0 == "stop" {
            drop(LET_GO.lock());
        }
        Ok(())
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        if ["drop", "destruction"].contains(&self.0.as_str()) {
            drop(LET_GO.lock());
        }
    }
}

static BLOCKER: DriverEntry = DriverEntry::of::<Blocker>();

#[test]
fn a_driver_whose_hook_blocks_its_thread_is_given_up_by_name_and_the_host_goes_on_without_it() {
    let held = LET_GO.lock().unwrap();
    for how in ["prepare_stop", "stop", "drop", "destruction"] {
        let book = format!("given up: {how}");
        let manifest = format!(
            "[drivers.stuck]\ndriver = \"blocker\"\nstop_timeout = \"50ms\"\nrestart = \"always\"\nconfig.how = {how:?}\n{}",
            common::manifest(&book, &[Part("disk", None, "child = \"block\""), Part("nbd", Some("block"), "")])
        );
        let registry = Registry::new([&BLOCKER, common::entry()]).unwrap();
        let plan = Manifest::parse(Source::named("test", manifest)).unwrap().plan(&registry).unwrap();
        let (sender, events) = mpsc::channel();
        let host = Host::builder(plan).observer(move |event| sender.send(event).unwrap_or(())).build().unwrap();
        host.start();
        host.wait_started(HANG_LIMIT).unwrap();
        host.stop_driver("stuck").unwrap();
        let given_up = loop {
            if let HostEvent::GivenUp { driver } = events.recv_timeout(HANG_LIMIT).expect("it is given up") {
                break driver;
            }
        };
        assert_eq!(given_up, "stuck");
        assert_eq!(host.state(), HostState::Running);
        host.restart_driver("disk").unwrap();
        World::Threads.until("the others go on", || common::count(&book, "nbd start") == 2);
        let summary = host.stop(HANG_LIMIT).expect("the host does not wait for what was given up");
        let stuck = summary.drivers().iter().find(|driver| driver.driver() == "stuck").unwrap();
        assert!(summary.has_failed());
        let why = stuck.stuck_in().expect("it is given up");
        assert!(why.contains("; thread `") && why.contains("of dispatcher `stuck"), "the thread is named: {why}");
        journal(&book);
    }
    drop(held);
}

#[test]
fn a_panic_that_is_to_abort_ends_the_process_and_says_which_driver_it_was() {
    const CHILD: &str = "FUCHSINE_TEST_ABORTS";
    let book = "aborts";
    if std::env::var_os(CHILD).is_none() {
        let name = "a_panic_that_is_to_abort_ends_the_process_and_says_which_driver_it_was";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
        let told = String::from_utf8_lossy(&ended.stdout);
        assert!(told.contains("aborting: it"), "{told}{}", String::from_utf8_lossy(&ended.stderr));
        let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
        assert_eq!(signal, Some(6), "{:?}", ended.status);
        return;
    }
    let manifest = format!(
        "[drivers.it]\ndriver = \"mortal\"\non_panic = \"abort\"\nconfig = {{ journal = {book:?}, how = \"panic\" }}\n"
    );
    let plan = Manifest::parse(Source::named("test", manifest)).unwrap();
    let plan = plan.plan(&Registry::new([&MORTAL]).unwrap()).unwrap();
    let tell = |event| {
        if let HostEvent::Aborting { driver } = event {
            println!("aborting: {driver}");
        }
    };
    let host = Host::builder(plan).observer(tell).build().unwrap();
    host.start();
    std::thread::sleep(HANG_LIMIT);
    panic!("the process goes on: {host:?}");
}
