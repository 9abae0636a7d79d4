//! Goal: SIGHUP changes what the manifest changes and nothing else, and never ends a host.
//! Method: the command with a manifest that is rewritten while a client talks to a driver that stays.

use std::{fs, path::Path};

use fuchsine_tests::{
    host::{self, Host},
    process::eventually,
};
use rustix::process::Signal;

/// A host that runs the manifest at `path`, with a log.
fn run(path: &Path) -> Host {
    Host::start_command(host::command().arg("--log").arg("info").arg(path))
}

/// Two disks, each served on its own Unix socket; the second one with this configuration.
fn manifest(folder: &Path, second: &str) -> String {
    let served = |name: &str| {
        let socket = folder.join(format!("{name}.sock"));
        format!(
            "[drivers.serve-{name}]\ndriver = \"nbd\"\nbind = {{ parent = \"{name}\" }}\n\
             config.listen = \"unix:{}\"\n",
            socket.display()
        )
    };
    format!(
        "[drivers.one]\ndriver = \"ramdisk\"\nconfig.size = \"1MiB\"\n{}[drivers.two]\ndriver = \"ramdisk\"\n{second}\n{}",
        served("one"),
        served("two")
    )
}

#[test]
fn a_hangup_applies_what_is_different_and_touches_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("host.toml");
    fs::write(&path, manifest(folder.path(), "config.size = \"1MiB\"")).expect("writable");
    let mut host = run(&path);

    fs::write(&path, manifest(folder.path(), "config.size = \"2MiB\"")).expect("writable");
    host.signal(Signal::HUP);
    eventually("the change", || host.stderr_so_far().contains("the manifest was read again changes=1"));
    assert!(host.stderr_so_far().contains("driver `two` is restarted with its new configuration"));

    fs::write(&path, "[drivers.one]\ndirver = \"ramdisk\"\n").expect("writable");
    host.signal(Signal::HUP);
    eventually("the mistake", || host.stderr_so_far().contains("cannot be run; the host goes on as it is"));
    assert!(host.stderr_so_far().contains("unknown key `dirver` in driver `one`; did you mean `driver`?"));
    assert!(host.is_running());

    let text = manifest(folder.path(), "");
    let without = text.find("[drivers.two]").expect("it is there");
    fs::write(&path, &text[..without]).expect("writable");
    host.signal(Signal::HUP);
    eventually("the removal", || host.stderr_so_far().contains("the manifest was read again changes=2"));
    eventually("its end", || !folder.path().join("two.sock").exists());
    assert!(folder.path().join("one.sock").exists(), "nobody touched the other one");

    // Further files, in the folder that belongs to it.
    let more = folder.path().join("host.d/more.toml");
    fs::create_dir(folder.path().join("host.d")).expect("writable");
    fs::write(&more, "[drivers.three]\ndriver = \"ramdisk\"\n").expect("writable");
    host.signal(Signal::HUP);
    eventually("another driver", || host.stderr_so_far().contains("driver `three` is new"));
    fs::write(&more, "[drivers.one]\ndriver = \"ramdisk\"\n").expect("writable");
    host.signal(Signal::HUP);
    eventually("the mistake", || host.stderr_so_far().contains("driver `one` is in two files"));
    assert!(host.is_running());

    let finished = host.stop().expect_success();
    // Of each instance one line: those of `two` before and after its restart, and those of `one` once.
    let ends = |driver: &str| finished.stderr.matches(&format!("stopped driver=\"{driver}\"")).count();
    assert_eq!([ends("one"), ends("serve-one"), ends("two"), ends("serve-two")], [1, 1, 2, 2], "{}", finished.stderr);
}

#[test]
fn a_hangup_without_a_manifest_ends_nothing() {
    let mut host = Host::start_command(host::command().args(["--set", "nbd.listen=127.0.0.1:0", "--log", "info"]));
    host.signal(Signal::HUP);
    eventually("the answer", || host.stderr_so_far().contains("there is nothing to read again"));
    assert!(host.is_running());
    host.stop().expect_success();
}
