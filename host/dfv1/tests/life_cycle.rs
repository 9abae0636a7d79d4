//! Devices of the older life cycle on a real host. Goal: hooks come once and in the documented order, whoever begins a
//! removal, and whatever fails. Method: devices that write down what happens to them, driven by scripts, on threads and in
//! the foreground.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use fuchsine_dfv1::{Adapter, Device, DeviceArgs, DeviceOps, Dfv1, InitTxn, ParentDevice, UnbindTxn};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_driver::{BindProperty, Driver, DriverContext, DriverEntry, StartError, Status, StopError, sleep, spawn};
use fuchsine_host::{Host, HostState, Manifest, Registry, Source};

const HANG_LIMIT: Duration = Duration::from_secs(60);

/// What happened, and how a scene is to go.
#[derive(Default)]
struct Scene {
    lines: Mutex<Vec<String>>,
    devices: Mutex<HashMap<String, Device>>,
}

impl Scene {
    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn has(&self, line: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|found| found == line)
    }
}

fn scenes() -> &'static Mutex<HashMap<String, Arc<Scene>>> {
    static SCENES: OnceLock<Mutex<HashMap<String, Arc<Scene>>>> = OnceLock::new();
    SCENES.get_or_init(Mutex::default)
}

/// The scene of a driver's name, which every test and world has one of.
fn scene(name: &str) -> Arc<Scene> {
    Arc::clone(scenes().lock().unwrap().entry(name.to_owned()).or_default())
}

struct Probe {
    name: String,
    scene: Arc<Scene>,
    init: Result<(), Status>,
    /// Whether it takes its time for its replies.
    slow: bool,
}

fn later(act: impl FnOnce() + Send + 'static) {
    let slept = spawn(async move {
        let _ = sleep(Duration::from_millis(1)).await;
        act();
    });
    drop(slept.expect("hooks run on a dispatcher"));
}

impl DeviceOps for Probe {
    fn init(&self, txn: InitTxn) {
        self.scene.note(format!("init {}", self.name));
        let outcome = self.init;
        match self.slow {
            true => later(move || txn.reply(outcome)),
            false => txn.reply(outcome),
        }
    }

    fn unbind(&self, txn: UnbindTxn) {
        self.scene.note(format!("unbind {}", self.name));
        let (scene, name) = (Arc::clone(&self.scene), self.name.clone());
        let reply = move || {
            scene.note(format!("unbound {name}"));
            txn.reply();
        };
        match self.slow {
            true => later(reply),
            false => reply(),
        }
    }

    fn release(self: Box<Self>) {
        self.scene.note(format!("release {}", self.name));
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.scene.note(format!("drop {}", self.name));
    }
}

struct Scripted;

impl Dfv1 for Scripted {
    const NAME: &'static str = "scripted";

    async fn bind(parent: ParentDevice) -> Result<(), StartError> {
        let name = parent.context().name();
        let scene = scene(&name);
        let probe = |name: &str, init, slow| Probe { name: name.to_owned(), scene: Arc::clone(&scene), init, slow };
        let keep = |device: Device| scene.devices.lock().unwrap().insert(device.name().to_owned(), device);
        let story = name.split('-').next().unwrap_or_default();
        if story == "nothing" {
            return Ok(());
        }
        let slow = story == "slow";
        let init = if story == "broken" { Err(Status::Io) } else { Ok(()) };
        let main = parent.add(DeviceArgs::new("main").property("kind", "main"), probe("main", init, slow))?;
        if story == "tree" || slow {
            let child = main.add(DeviceArgs::new("child").property("kind", "child"), probe("child", Ok(()), slow))?;
            let leaf = child.add(DeviceArgs::new("leaf").non_bindable(), probe("leaf", Ok(()), slow))?;
            let refused = main.add(DeviceArgs::new("child"), probe("again", Ok(()), slow)).unwrap_err();
            assert_eq!(refused.to_string(), "device `child` cannot be added: already exists");
            keep(leaf);
            keep(child);
        }
        keep(main);
        match story {
            "fails" => Err(StartError::new(Status::NotFound, "no such hardware")),
            _ => Ok(()),
        }
    }
}

static SCRIPTED: DriverEntry = DriverEntry::of::<Adapter<Scripted>>();

/// Is bound to devices that are visible, and writes down its life.
struct Above(Arc<Scene>, String);

impl Driver for Above {
    const NAME: &'static str = "above";
    const BIND: &'static [BindProperty] = &[];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let scene = scene(&cx.node().property("parent").unwrap_or_default());
        scene.note(format!("above {} starts", cx.node().name()));
        Ok(Above(scene, cx.node().name()))
    }

    async fn stop(self) -> Result<(), StopError> {
        self.0.note(format!("above {} stops", self.1));
        Ok(())
    }
}

static ABOVE: DriverEntry = DriverEntry::of::<Above>();

struct World(Option<ForegroundRuntime>);

fn worlds() -> [World; 2] {
    [World(None), World(Some(ForegroundRuntime::new()))]
}

impl World {
    /// A host with the driver of a story, and one bound to what it adds.
    fn host(&self, story: &str) -> (Host, Arc<Scene>) {
        let name = format!("{story}-{}", if self.0.is_some() { "foreground" } else { "threads" });
        let text = format!(
            "[drivers.{name}]\ndriver = \"scripted\"\n[drivers.above]\nbind = {{ kind = [\"main\", \"child\"] }}\n\
             [drivers.other]\ndriver = \"above\"\n"
        );
        let plan = Manifest::parse(Source::named("test", text)).unwrap();
        let builder = Host::builder(plan.plan(&Registry::new([&SCRIPTED, &ABOVE]).unwrap()).unwrap());
        let builder = self.0.iter().fold(builder, |builder, runtime| builder.runtime((*runtime).clone()));
        let host = builder.build().unwrap();
        host.start();
        (host, scene(&name))
    }

    #[track_caller]
    fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        match &self.0 {
            Some(runtime) => assert!(runtime.run_until_condition(condition), "it does not come about: {what}"),
            None => {
                let deadline = Instant::now() + HANG_LIMIT;
                while !condition() {
                    assert!(Instant::now() < deadline, "it does not come about: {what}");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    fn stop(&self, host: &Host) -> fuchsine_host::Summary {
        host.begin_stop();
        self.until("the host stops", || host.state() == HostState::Stopped);
        host.summary()
    }
}

/// Where each of these lines stands; all must be there, in this order.
#[track_caller]
fn in_order(lines: &[String], expected: &[&str]) {
    let at: Vec<usize> = expected
        .iter()
        .map(|line| {
            lines.iter().position(|found| found == line).unwrap_or_else(|| panic!("`{line}` is not in {lines:?}"))
        })
        .collect();
    assert!(at.is_sorted(), "{expected:?} in {lines:?}");
    let mut once = lines.to_vec();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), lines.len(), "something happened twice: {lines:?}");
}

#[test]
fn devices_go_from_the_leaves_up_after_the_drivers_that_are_bound_to_them() {
    for story in ["tree", "slow"] {
        for world in worlds() {
            let (host, scene) = world.host(story);
            world.until("both are bound", || scene.has("above main starts") && scene.has("above main.child starts"));
            assert!(host.nodes().iter().all(|node| node.name() != "main.child.leaf"), "it is not bindable");
            let summary = world.stop(&host);
            assert!(!summary.has_failed(), "{summary:?}");
            let lines = scene.lines();
            in_order(
                &lines,
                &[
                    "init main",
                    "above main starts",
                    "above main stops",
                    "unbind leaf",
                    "unbound leaf",
                    "release leaf",
                    "drop leaf",
                    "unbind child",
                    "unbound child",
                    "release child",
                    "drop child",
                    "unbind main",
                    "unbound main",
                    "release main",
                    "drop main",
                ],
            );
            in_order(&lines, &["init child", "above main.child starts", "above main.child stops", "unbind leaf"]);
        }
    }
}

#[test]
fn a_device_that_is_removed_takes_its_children_along_and_leaves_the_rest() {
    for world in worlds() {
        let (host, scene) = world.host("tree-partly");
        world.until("both are bound", || scene.has("above main starts") && scene.has("above main.child starts"));
        let child = scene.devices.lock().unwrap()["child"].clone();
        child.remove();
        child.remove();
        let probe = Probe { name: "late".into(), scene: Arc::clone(&scene), init: Ok(()), slow: false };
        world.until("it is gone", || scene.has("release child"));
        assert_eq!(child.add(DeviceArgs::new("late"), probe).unwrap_err().status(), Status::BadState);
        in_order(
            &scene.lines(),
            &["above main.child stops", "release leaf", "unbind child", "release child", "drop late"],
        );
        assert!(!scene.has("unbind main") && host.state() != HostState::Stopped);
        assert!(!world.stop(&host).has_failed());
        in_order(&scene.lines(), &["release child", "above main stops", "unbind main", "release main"]);
    }
}

#[test]
fn the_removal_of_the_last_device_ends_the_driver_which_is_no_failure() {
    for world in worlds() {
        let (host, scene) = world.host("lone");
        world.until("it is bound", || scene.has("above main starts"));
        scene.devices.lock().unwrap()["main"].remove();
        world.until("it is released", || scene.has("drop main"));
        in_order(&scene.lines(), &["above main stops", "unbind main", "unbound main", "release main", "drop main"]);
        assert!(!world.stop(&host).has_failed());
    }
}

#[test]
fn a_device_whose_init_fails_is_never_visible_and_is_unbound_and_released() {
    for world in worlds() {
        let (host, scene) = world.host("broken");
        world.until("it is released", || scene.has("drop main"));
        assert_eq!(scene.lines(), ["init main", "unbind main", "unbound main", "release main", "drop main"]);
        let summary = world.stop(&host);
        let failed: Vec<_> = summary.drivers().iter().filter_map(|driver| driver.failure()).collect();
        assert_eq!(failed.len(), 1);
        assert!(failed[0].contains("device `main` is removed, as its init failed: input/output error"), "{failed:?}");
    }
}

#[test]
fn a_bind_that_fails_or_adds_nothing_is_a_failed_start_and_is_unwound() {
    for (story, why) in [("fails", "no such hardware"), ("nothing", "its bind has added no device")] {
        for world in worlds() {
            let (host, scene) = world.host(story);
            world.until("it has failed", || host.summary().has_failed());
            let summary = world.stop(&host);
            let failed: Vec<_> = summary.drivers().iter().filter_map(|driver| driver.failure()).collect();
            assert_eq!(failed, [format!("failed to start: {why}")]);
            let lines = scene.lines();
            match story {
                "fails" => in_order(&lines, &["init main", "unbind main", "release main", "drop main"]),
                _ => assert!(lines.is_empty()),
            }
        }
    }
}

#[test]
fn a_dropped_reply_to_init_is_a_failure_and_one_to_unbind_a_reply() {
    struct Careless(Arc<Scene>);
    impl DeviceOps for Careless {
        fn init(&self, txn: InitTxn) {
            drop(txn);
        }
        fn unbind(&self, txn: UnbindTxn) {
            drop(txn);
        }
        fn release(self: Box<Self>) {
            self.0.note("release".into());
        }
    }
    struct Drops;
    impl Dfv1 for Drops {
        const NAME: &'static str = "drops";
        async fn bind(parent: ParentDevice) -> Result<(), StartError> {
            parent.add(DeviceArgs::new("main"), Careless(scene(&parent.context().name())))?;
            Ok(())
        }
    }
    static DROPS: DriverEntry = DriverEntry::of::<Adapter<Drops>>();
    let plan = Manifest::parse(Source::named("test", "[drivers.drops]")).unwrap();
    let host = Host::builder(plan.plan(&Registry::new([&DROPS]).unwrap()).unwrap()).build().unwrap();
    host.start();
    World(None).until("it has failed", || host.summary().has_failed());
    assert!(host.stop(HANG_LIMIT).is_ok());
    assert_eq!(scene("drops").lines(), ["release"]);
}
