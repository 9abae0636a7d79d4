//! Goal: a service manager knows when a host is ready, reloads and stops, and notices when it is stuck.
//! Method: the command with a `NOTIFY_SOCKET` of the test's own; the unit file read as text, and by systemd where it is there.

mod module_support;

use std::{
    fs,
    os::{linux::net::SocketAddrExt, unix::net::SocketAddr, unix::net::UnixDatagram, unix::net::UnixStream},
    process::Command,
    time::Duration,
};

use fuchsine_tests::{
    clients::skipped,
    host::{self, Host, bare_command},
    process::{HANG_LIMIT, eventually, run},
    source,
};
use module_support::Folder;
use rustix::process::Signal;
use tempfile::TempDir;

const MANIFEST: &str = "[drivers.disk]\ndriver = \"ramdisk\"\nconfig.size = \"1MiB\"\n";

/// The service manager's end.
struct Manager(UnixDatagram);

impl Manager {
    fn new(socket: UnixDatagram) -> Manager {
        socket.set_read_timeout(Some(HANG_LIMIT)).expect("a socket");
        Manager(socket)
    }

    /// The next message, as lines.
    #[track_caller]
    fn next(&self) -> Vec<String> {
        let mut bytes = [0; 4096];
        let count = self.0.recv(&mut bytes).expect("a message comes");
        String::from_utf8_lossy(&bytes[..count]).lines().map(str::to_owned).collect()
    }

    /// The next message but those of the watchdog.
    #[track_caller]
    fn next_state(&self) -> Vec<String> {
        loop {
            let message = self.next();
            if message != ["WATCHDOG=1"] {
                return message;
            }
        }
    }
}

#[test]
fn a_host_tells_that_it_is_ready_reloads_and_stops() {
    let folder = TempDir::new().expect("a folder");
    let (path, socket) = (folder.path().join("host.toml"), folder.path().join("notify"));
    fs::write(&path, MANIFEST).expect("writable");
    let manager = Manager::new(UnixDatagram::bind(&socket).expect("a socket"));
    let host = Host::start_command(host::command().arg(&path).env("NOTIFY_SOCKET", &socket));
    assert_eq!(manager.next(), ["READY=1", "STATUS=ready:"]);

    host.signal(Signal::HUP);
    let reloading = manager.next();
    assert_eq!(reloading[0], "RELOADING=1");
    assert!(reloading[1].strip_prefix("MONOTONIC_USEC=").is_some_and(|us| us.parse::<u64>().is_ok()), "{reloading:?}");
    assert_eq!(manager.next(), ["READY=1", "STATUS=running"]);

    fs::write(&path, "[drivers]").expect("writable");
    host.signal(Signal::HUP);
    assert_eq!(manager.next()[0], "RELOADING=1");
    let ready = manager.next();
    assert_eq!(ready[0], "READY=1");
    assert!(ready[1].contains("cannot be run"), "{ready:?}");

    host.stop();
    let stopping = manager.next();
    assert_eq!(stopping[..2], ["STOPPING=1", "STATUS=stopping"]);
    assert_eq!(stopping[2], "EXTEND_TIMEOUT_USEC=15000000");
}

#[test]
fn an_abstract_socket_and_a_watchdog_are_served_from_the_start_on() {
    let name = format!("fuchsine-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let manager = Manager::new(UnixDatagram::bind_addr(&address).expect("a socket"));
    let mut command = host::command();
    command.args(["--set", "nbd.listen=127.0.0.1:0"]);
    let host = Host::start_command(command.env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", "20000"));
    assert_eq!(manager.next_state()[0], "READY=1");
    for _ in 0..5 {
        assert_eq!(manager.next(), ["WATCHDOG=1"]);
    }
    host.stop();
    assert_eq!(manager.next_state()[0], "STOPPING=1");
}

#[test]
fn a_host_whose_threads_are_all_stuck_feeds_no_watchdog_and_still_says_where() {
    let folder = Folder::new();
    folder.module("misbehaver");
    let (trigger, control) = (folder.path().join("trigger"), folder.path().join("control"));
    let manifest = format!(
        "[host]\nthreads = 1\nstop_timeout_ms = 200\n[drivers.clumsy]\nmodule = \"libmisbehaver.so\"\n\
         config = {{ trigger = \"unix:{}\", block = \"task\" }}\n",
        trigger.display()
    );
    let socket = folder.path().join("notify");
    let manager = Manager::new(UnixDatagram::bind(&socket).expect("a socket"));
    let mut command = host::command();
    command.arg(folder.manifest(&manifest)).args(["--log", "debug", "--control"]).arg(&control);
    let host = Host::start_command(command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "20000"));
    assert_eq!(manager.next_state()[0], "READY=1");
    assert_eq!(manager.next(), ["WATCHDOG=1"]);
    drop(UnixStream::connect(&trigger).expect("the driver listens"));
    eventually("it blocks", || host.stderr_so_far().contains("blocks its thread"));

    // What was sent before is still there. Then nothing comes, for as long as one looks: here for thirty intervals.
    manager.0.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
    let mut bytes = [0; 64];
    let until = std::time::Instant::now() + HANG_LIMIT;
    while manager.0.recv(&mut bytes).is_ok() {
        assert!(std::time::Instant::now() < until, "a host that is stuck feeds its watchdog");
    }
    let ask = |arguments: &[&str]| run(bare_command().args(arguments).arg("--control").arg(&control)).expect_success();
    assert!(ask(&["ps"]).stdout.join("\n").contains("clumsy"));
    let dump = ask(&["dump", "--driver", "clumsy"]).stdout.join("\n");
    assert!(dump.contains("deeds.rs") || dump.contains("running on"), "{dump}");
    host.signal(Signal::TERM);
    host.wait(HANG_LIMIT).expect_code(6);
}

#[test]
fn the_unit_file_calls_the_command_as_it_is() {
    let path = source::root().join("host/cli/systemd/fuchsine@.service");
    let unit = fs::read_to_string(&path).expect("it is there");
    for line in ["Type=notify", "WatchdogSec=30s", "RuntimeDirectory=fuchsine", "RestartPreventExitStatus=2 4"] {
        assert!(unit.lines().any(|one| one == line), "{line} is missing");
    }
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("x.toml"), MANIFEST).expect("writable");
    let calls: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("Exec")?.split_once('=')).collect();
    assert_eq!(calls.len(), 3);
    for (_, call) in calls {
        let call = call.replace("/etc/fuchsine/%i", &folder.path().join("x").display().to_string());
        let call = call.replace("/run/fuchsine/%i", &folder.path().join("x").display().to_string());
        let words: Vec<_> = call.split_whitespace().skip(1).collect();
        // With `--help` the words are read and nothing is done; what is no option or command is wrong usage.
        run(bare_command().args(&words).arg("--help")).expect_success();
    }
    // Where systemd is, it reads the file too. It wants the programs to be there, so others stand for them.
    let analyze = Command::new("systemd-analyze").arg("--version").output();
    if analyze.is_err() {
        skipped("systemd is not here: it does not read the unit file");
        return;
    }
    let copy = folder.path().join("fuchsine@x.service");
    fs::write(&copy, unit.replace("/usr/bin/fuchsine", "/bin/true")).expect("writable");
    let finished = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy));
    let about_it: Vec<_> = finished.stderr.lines().filter(|line| line.contains("fuchsine@")).collect();
    assert!(about_it.is_empty(), "{about_it:?}");
}
