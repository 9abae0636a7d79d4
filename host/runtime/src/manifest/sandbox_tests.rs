//! Sandboxes in manifests. Goal: each key is read, each mistake is told with its place, and a sandbox counts for all drivers of
//! its process. Method: whole messages are compared as text; drivers that are never started.

use std::path::PathBuf;

use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};

use super::*;
use crate::process::{Enforce, Refusal, Sandbox, SystemCalls};
use crate::registry::Registry;

struct Plain;
impl Driver for Plain {
    const NAME: &'static str = "plain";
    async fn start(_: DriverContext) -> Result<Self, StartError> {
        unreachable!("plans start nothing")
    }
}
static PLAIN: DriverEntry = DriverEntry::of::<Plain>();

fn plan(text: &str) -> Result<Plan, ManifestError> {
    let registry = Registry::new([&PLAIN]).unwrap();
    Manifest::parse(Source::file("/etc/host.toml", text))?.plan(&registry)
}

/// The sandboxes of the drivers of a manifest.
#[track_caller]
fn sandboxes(text: &str) -> Vec<Option<Sandbox>> {
    let plan = plan(text).unwrap_or_else(|error| panic!("{}", error.render()));
    plan.drivers().iter().map(|driver| driver.apart.as_ref().and_then(|apart| apart.sandbox.clone())).collect()
}

fn with(keys: &str) -> String {
    format!("[drivers.plain]\nprocess = \"own\"\nsandbox = {{ {keys} }}\n")
}

#[test]
fn every_key_of_a_sandbox_is_read_and_an_empty_one_allows_least() {
    assert_eq!(sandboxes(&with("")), [Some(Sandbox::default())]);
    let text = with(
        "read = [\"data\"], write = [\"/var/x\"], execute = [\"/bin/true\"], network = true, unix_sockets = true, \
         system_calls = \"any\", allow_calls = [\"bpf\"], refuse_calls = [\"ptrace\"], refused_calls = \"kill\", \
         memory = \"1GiB\", files = 100, processes = 50, cpu_seconds = 60, core = 4096, user = 1000, group = \"disk\", \
         groups = [\"tty\"], capabilities = [\"net_admin\"], enforce = \"best-effort\"",
    );
    let texts = |text: &str| vec![text.to_owned()];
    let all = Sandbox {
        no_new_privileges: true,
        read: vec!["/etc/data".into()],
        write: vec!["/var/x".into()],
        execute: vec!["/bin/true".into()],
        network: true,
        unix_sockets: true,
        system_calls: SystemCalls::Any,
        allow_calls: texts("bpf"),
        refuse_calls: texts("ptrace"),
        refused_calls: Refusal::Kill,
        memory: Some(1 << 30),
        files: Some(100),
        processes: Some(50),
        cpu_seconds: Some(60),
        core: 4096,
        user: Some("1000".to_owned()),
        group: Some("disk".to_owned()),
        groups: texts("tty"),
        capabilities: texts("net_admin"),
        enforce: Enforce::BestEffort,
    };
    assert_eq!(sandboxes(&text), [Some(all)]);
}

#[test]
fn mistakes_in_a_sandbox_are_told_with_their_place() {
    for (keys, message) in [
        ("wirte = []", "3:13: unknown key `wirte` in `sandbox`; did you mean `write`?"),
        ("read = \"/x\"", "3:20: `read` must be an array of strings, and this is a string"),
        ("memory = \"much\"", "3:22: `memory` must be a size"),
        ("files = 3", "3:21: `files` must lie between 32 and"),
        ("user = true", "3:20: `user` must be a name or a number, and this is a boolean"),
        ("system_calls = \"all\"", "3:28: unknown list of system calls `all`"),
        ("refuse_calls = [\"ptraec\"]", "3:1: there is no system call `ptraec` on this kind of machine"),
        ("capabilities = [\"root\"]", "3:1: there is no capability `root`"),
        ("no_new_privileges = false", "3:1: `no_new_privileges = false` needs"),
    ] {
        let error = plan(&with(keys)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("/etc/host.toml:{message}")), "{error}");
    }
    let error = plan("[drivers.plain]\nsandbox = {}\n").unwrap_err();
    let text = "/etc/host.toml:2:1: `sandbox` counts for a process, and this driver is in that of the host";
    assert_eq!(error.to_string(), text);
}

#[test]
fn drivers_of_one_process_have_one_sandbox() {
    let drivers = |first: &str, second: &str| {
        format!(
            "[drivers.a]\ndriver = \"plain\"\nprocess = \"both\"\n{first}\n\
             [drivers.b]\ndriver = \"plain\"\nprocess = \"both\"\n{second}\n\
             [drivers.c]\ndriver = \"plain\"\nprocess = \"own\"\n"
        )
    };
    let (fenced, other) = ("sandbox = { read = [\"/x\"] }", "sandbox = { read = [\"/y\"] }");
    for text in [drivers(fenced, ""), drivers("", fenced), drivers(fenced, fenced)] {
        let found = sandboxes(&text);
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0].as_ref().unwrap().read, [PathBuf::from("/x")]);
        assert_eq!(found[2], None, "it is in another process");
    }
    let error = plan(&drivers(fenced, other)).unwrap_err().render();
    assert!(error.contains("the drivers of process `both` have different sandboxes"), "{error}");
    assert!(
        error.contains("/etc/host.toml:8:1") && error.contains("the other one is at /etc/host.toml:4:1"),
        "{error}"
    );
}

#[test]
fn another_sandbox_is_another_process() {
    let (before, after) = (plan(&with("")).unwrap(), plan(&with("network = true")).unwrap());
    let changes = before.changes(&after);
    assert_eq!(changes.iter().map(|change| change.kind).collect::<Vec<_>>(), [ChangeKind::Restarted]);
    assert!(after.changes(&plan(&with("network = true")).unwrap()).is_empty());
}
