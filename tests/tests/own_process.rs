//! Goal: a driver with `process = …` is as good as one in the host, and whatever ends its process ends nothing else.
//! Method: the command with drivers in children; clients that talk to a disk in one while it is killed, the `misbehaver` in
//! one, and what the host has open after many restarts. `FUCHSINE_RESTARTS` says how many those are.

mod module_support;

use std::{env, fs, os::unix::net::UnixStream, process::Command, time::Instant};

use fuchsine_tests::{
    clients::require_client,
    host::{Host, bare_command, command},
    nbd::{Address, CMD_WRITE, Client},
    process::{HANG_LIMIT, Process, children, eventually, open_files, resident_bytes, run, threads},
};
use module_support::Folder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Exit code: a driver failed.
const DRIVER_FAILED: i32 = 1;

const KIB: u64 = 1 << 10;

/// Restarts at once, and as often as it takes.
const TIRELESS: &str =
    "restart = \"on-failure\"\nbackoff = { initial = \"1ms\", max = \"1ms\" }\nlimit = { count = 1000000 }\n";

/// A disk with these keys, served on a Unix socket of its own.
fn disk(folder: &Folder, name: &str, keys: &str) -> String {
    let socket = folder.path().join(format!("{name}.sock"));
    format!(
        "[drivers.{name}]\ndriver = \"ramdisk\"\nconfig.size = \"1MiB\"\n{keys}\
         [drivers.serve-{name}]\ndriver = \"nbd\"\nbind = {{ parent = \"{name}\" }}\nconfig.listen = \"unix:{}\"\n",
        socket.display()
    )
}

fn uri(folder: &Folder, name: &str) -> String {
    format!("nbd+unix:///ramdisk?socket={}", folder.path().join(format!("{name}.sock")).display())
}

fn connect(folder: &Folder, name: &str) -> std::io::Result<Client> {
    Client::connect(&Address::parse(&uri(folder, name)))
}

/// A client, once the disk is served (again).
fn reach(folder: &Folder, name: &str) -> Client {
    let mut found = None;
    eventually("a server", || {
        found = connect(folder, name).ok();
        found.is_some()
    });
    found.expect("there is one")
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a number"), Signal::KILL).expect("it is ours");
}

/// Kills the one child, and waits for the next: by then nothing of the drivers is left that had to do with it.
fn replace(host: &Host, child: i32) {
    kill(child);
    eventually("another process", || children(host.pid()).iter().any(|&now| now != child));
}

fn only_child(host: &Host) -> i32 {
    let mut all = children(host.pid());
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn ask(folder: &Folder, word: &str) -> Value {
    let answer = run(bare_command().arg(word).arg("--json").env("FUCHSINE_CONTROL", folder.path().join("control")));
    serde_json::from_str(&answer.expect_success().stdout.join("\n")).expect("it is JSON")
}

fn with_control(folder: &Folder, manifest: &str) -> Host {
    let control = folder.path().join("control");
    folder.run(manifest, &["--log", "debug", "--control", control.to_str().expect("text")])
}

#[test]
fn a_disk_in_a_process_of_its_own_is_served_and_its_death_takes_nobody_along() {
    let folder = Folder::new();
    let own = format!("process = \"own\"\n{TIRELESS}");
    let host = with_control(&folder, &(disk(&folder, "apart", &own) + &disk(&folder, "here", "")));
    let (mut apart, mut here) = (reach(&folder, "apart"), reach(&folder, "here"));
    apart.write(4 * KIB, &[7; 4096]).expect("it is served");
    assert_eq!(apart.read(4 * KIB, 4096).expect("it is served"), [7; 4096]);
    here.write(0, &[1; 512]).expect("it is served");
    if let Some(program) = require_client("qemu-io") {
        let uri = uri(&folder, "apart");
        let mut command = Command::new(program);
        command.args([
            "-f",
            "raw",
            "-c",
            "read -P 7 4k 4k",
            "-c",
            "write -P 9 64k 256k",
            "-c",
            "read -P 9 64k 256k",
            &uri,
        ]);
        let text = run(&mut command).expect_success().stdout.join("\n");
        assert!(!text.contains("failed"), "{text}");
    }

    let first = only_child(&host);
    let drivers = ask(&folder, "ps")["drivers"].clone();
    let found =
        drivers.as_array().expect("a list").iter().find(|driver| driver["name"] == "apart").expect("it is there");
    assert_eq!((&found["process"], &found["process_ids"][0]), (&Value::from("own"), &Value::from(first)));
    let nodes = ask(&folder, "tree")["nodes"].clone();
    let found = nodes.as_array().expect("a list").iter().find(|node| node["path"] == "/apart").expect("it is there");
    assert_eq!(found["process_id"], Value::from(first));
    let dump = ask(&folder, "dump").to_string();
    assert!(dump.contains(&format!("apart (process {first})")), "{dump}");
    let inside = ask(&folder, "dump")["processes"][0].clone();
    assert_eq!(inside["process_id"], Value::from(first));
    let drivers = inside["dump"]["drivers"].as_array().expect("a list").clone();
    assert!(drivers.iter().any(|driver| driver["driver"] == "apart" || driver["name"] == "apart"), "{drivers:?}");

    // In the midst of it.
    let writing = std::thread::spawn(move || {
        let mut write = || apart.command(CMD_WRITE, 0, 8 * KIB, 65536, &[3; 65536]);
        while write().is_ok_and(|error| error == 0) {}
    });
    replace(&host, first);
    writing.join().expect("each request has an answer, or the connection is closed");
    let mut again = reach(&folder, "apart");
    assert_eq!(again.read(4 * KIB, 512).expect("it is served again"), [0; 512], "it is a new disk");
    assert_ne!(only_child(&host), first);
    assert_eq!(here.read(0, 512).expect("nobody has touched it"), [1; 512]);

    let log = host.stop().expect_success().stderr;
    let death =
        format!("cannot go on: its process {first} was killed by signal 9 (SIGKILL); it is started again after 1ms");
    assert!(log.contains(&death), "{log}");
    assert!(!log.contains("is killed, as"), "the last one has ended by itself: {log}");
}

#[test]
fn a_segmentation_fault_is_told_and_the_limit_of_restarts_too() {
    let folder = Folder::new();
    folder.module("misbehaver");
    let trigger = folder.path().join("trigger");
    let clumsy = format!(
        "[drivers.clumsy]\nmodule = \"libmisbehaver.so\"\nprocess = \"own\"\nrestart = \"on-failure\"\n\
         backoff = {{ initial = \"1ms\" }}\nlimit = {{ count = 2 }}\n\
         config = {{ crash = \"segfault\", trigger = \"unix:{}\" }}\n",
        trigger.display()
    );
    let host = folder.run(&(disk(&folder, "here", "") + &clumsy), &["--log", "debug"]);
    eventually("the limit", || {
        // Each time that it is there, it is told to do it again.
        drop(UnixStream::connect(&trigger));
        host.stderr_so_far().contains("it stays down, as it was restarted too often")
    });
    let mut here = reach(&folder, "here");
    here.write(0, &[1; 512]).expect("nobody has touched it");
    assert!(children(host.pid()).is_empty());
    host.signal(Signal::TERM);
    let log = host.wait(HANG_LIMIT).expect_code(DRIVER_FAILED).stderr;
    let deaths = log.lines().filter(|line| line.contains("was killed by signal 11 (SIGSEGV")).count();
    assert_eq!(deaths, 3, "{log}");
    // What it has said last is there, with its name and its process.
    let last = log.lines().find(|line| line.contains("ends the process")).expect("it was logged");
    assert!(last.contains("driver=\"clumsy\"") && last.contains("pid="), "{last}");
    let mut loads = log.lines().filter(|line| line.contains(" loaded "));
    assert!(loads.all(|line| line.contains("pid=")), "the host has loaded nothing of it: {log}");
}

#[test]
fn drivers_with_one_name_of_a_process_are_in_one_and_start_again_in_one() {
    let folder = Folder::new();
    let shared = format!("process = \"storage\"\n{TIRELESS}");
    let host = with_control(&folder, &(disk(&folder, "left", &shared) + &disk(&folder, "right", &shared)));
    for round in 0..2 {
        for name in ["left", "right"] {
            reach(&folder, name).write(0, &[1; 512]).expect("it is served");
        }
        let both = only_child(&host);
        if round == 0 {
            replace(&host, both);
        }
    }
    // One that leaves takes nobody along.
    let mut right = reach(&folder, "right");
    let stopped = run(bare_command().args(["stop", "left"]).env("FUCHSINE_CONTROL", folder.path().join("control")));
    stopped.expect_success();
    right.write(0, &[2; 512]).expect("it is served");
    only_child(&host);
    let log = host.stop().expect_success().stderr;
    assert!(log.contains("was killed by signal 9 (SIGKILL); in it were "), "{log}");
}

#[test]
fn a_composite_in_another_process_gets_a_parent_that_comes_later() {
    let folder = Folder::new();
    let leg = |name: &str| {
        format!("[drivers.{name}]\ndriver = \"ramdisk\"\nconfig.size = \"1MiB\"\nprocess = \"own\"\n{TIRELESS}")
    };
    let parent = |name: &str| format!("bind = {{ protocol = \"block\", parent = \"{name}\" }}");
    let (left, right, served) = (parent("left"), parent("right"), parent("mirror"));
    let manifest = leg("left")
        + &leg("right")
        + &format!(
            "[drivers.mirror]\nprocess = \"own\"\nparents.left = {{ {left} }}\nparents.right = {{ {right}, optional = true }}\n\
             [drivers.nbd]\nprocess = \"own\"\n{served}\nconfig.listen = \"unix:{}\"\n",
            folder.path().join("mirror.sock").display()
        );
    let host = with_control(&folder, &manifest);
    let whole = || host.stderr_so_far().matches("the leg `right` has everything").count();
    // It may have been there from the start.
    let first = ask(&folder, "ps")["drivers"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|driver| driver["name"] == "right")
        .expect("it is there")["process_ids"][0]
        .as_i64()
        .expect("a number");
    eventually("both legs", || whole() >= 1);
    kill(first as i32);
    eventually("the other leg again", || whole() >= 2);
    let uri = uri(&folder, "mirror").replace("ramdisk?", "disk?");
    let mut client = Client::connect(&Address::parse(&uri)).expect("it is served");
    client.write(0, &[5; 512]).expect("it is served");
    host.stop().expect_success();
}

#[test]
fn what_goes_wrong_in_a_hook_is_told_as_if_it_had_happened_here() {
    let folder = Folder::new();
    folder.module("misbehaver");
    let clumsy = |flags: &str, keys: &str| {
        format!("[drivers.clumsy]\nmodule = \"libmisbehaver.so\"\nprocess = \"own\"\nconfig = {{ {flags} }}\n{keys}\n")
    };
    for (flags, keys, told) in [
        ("fail = \"start\"", "", "failed to start: it was told to fail"),
        ("panic = \"task\"", "", "panicked: misbehaves in Task"),
        ("crash = \"exit\"", "", "ended with exit code 7"),
        ("panic = \"task\"", "on_panic = \"abort\"", "was killed by signal 6 (SIGABRT"),
        ("fail = \"stop\"", "", "did not stop well: it was told to fail"),
        ("block = \"stop\"", "stop_timeout = \"100ms\"", "its process is killed, as it does not stop in time"),
    ] {
        let manifest = clumsy(flags, keys) + "[drivers.ramdisk]\n";
        let path = folder.manifest(&manifest);
        let mut host = Process::start(command().arg(path).args(["--log", "debug"]));
        let ends_by_itself = !flags.contains("stop");
        // Until all have started, a failure ends the host; what comes later does not.
        if ends_by_itself {
            eventually(told, || host.stderr_so_far().contains(told));
        } else {
            assert!(host.next_line(HANG_LIMIT).is_some_and(|line| line.starts_with("ready")));
        }
        if host.is_running() {
            host.signal(Signal::TERM);
        }
        let log = host.wait(HANG_LIMIT).expect_code(DRIVER_FAILED).stderr;
        assert!(log.lines().any(|line| line.contains(told) && line.contains("driver=\"clumsy\"")), "{flags}: {log}");
    }
}

#[test]
fn what_the_table_of_drivers_promises_holds_in_another_process() {
    let folder = Folder::new();
    folder.module("selftest");
    let manifest = "[drivers.self]\nmodule = \"libselftest.so\"\nprocess = \"own\"\n";
    let host = folder.run(manifest, &["--log", "info"]);
    assert_eq!(host.addresses(), ["selftest:holds"], "{}", host.stderr_so_far());
    host.stop().expect_success();
}

#[test]
fn children_end_with_a_host_that_is_killed() {
    let folder = Folder::new();
    let host = folder.run(&disk(&folder, "apart", "process = \"own\"\n"), &[]);
    let child = only_child(&host);
    host.signal(Signal::KILL);
    host.wait(HANG_LIMIT);
    eventually("its end", || !fs::exists(format!("/proc/{child}/exe")).unwrap_or(true));
}

#[test]
fn a_reload_moves_a_driver_into_a_process_and_back() {
    let folder = Folder::new();
    let host = folder.run(&disk(&folder, "disk", ""), &["--log", "info"]);
    assert!(children(host.pid()).is_empty());
    for (keys, count) in [("process = \"own\"\n", 1), ("process = \"other\"\n", 1), ("", 0)] {
        let before = children(host.pid());
        folder.manifest(&disk(&folder, "disk", keys));
        host.signal(Signal::HUP);
        eventually("the change", || {
            let now = children(host.pid());
            now.len() == count && (count == 0 || now != before)
        });
        reach(&folder, "disk").write(0, &[1; 512]).expect("it is served");
    }
    host.stop().expect_success();
}

#[test]
fn restarts_leave_nothing_behind_in_the_host() {
    let folder = Folder::new();
    let count = env::var("FUCHSINE_RESTARTS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let host = folder.run(&disk(&folder, "apart", &format!("process = \"own\"\n{TIRELESS}")), &["--log", "error"]);
    let mut settled = None;
    let begun = Instant::now();
    for round in 0..=count {
        drop(reach(&folder, "apart"));
        if round == count / 4 {
            settled = Some((open_files(host.pid()), threads(host.pid()), resident_bytes(host.pid())));
        }
        if round < count {
            replace(&host, only_child(&host));
        }
    }
    let (files, threads_then, memory) = settled.expect("it was looked");
    eventually("as few descriptors as before", || open_files(host.pid()) <= files + 1);
    assert!(threads(host.pid()) <= threads_then + 1);
    let grown = resident_bytes(host.pid()).saturating_sub(memory);
    assert!(grown < 8 << 20, "{grown} bytes in {count} restarts");
    println!("{count} restarts in {:?}, {grown} bytes more", begun.elapsed());
    host.stop().expect_success();
}

/// What the kernel says about a process, without the name of the line.
fn status_of(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("it is said");
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn drivers_work_inside_of_a_sandbox_and_what_it_does_not_allow_fails_them() {
    let folder = Folder::new();
    folder.module("misbehaver");
    let image = folder.path().join("disk.img");
    let file = |name: &str, sandbox: &str| {
        let path = image.display();
        format!(
            "[drivers.{name}]\ndriver = \"file-block\"\nconfig = {{ path = \"{path}\", size = \"1MiB\" }}\n\
             process = \"own\"\nsandbox = {{ {sandbox} }}\n"
        )
    };
    for (sandbox, told) in [
        ("", "Permission denied"),
        ("write = [\"/none/at/all\"]", "its sandbox cannot be put on: cannot open `/none/at/all` of `write`"),
        ("memory = \"1MiB\"", "its sandbox cannot be put on: `memory` must be"),
    ] {
        let path = folder.manifest(&file("file", sandbox));
        let host = Process::start(command().arg(path).args(["--log", "debug"]));
        let log = host.wait(HANG_LIMIT).expect_code(DRIVER_FAILED).stderr;
        if log.contains("this kernel cannot") {
            return eprintln!("SKIPPED: {log}");
        }
        assert!(log.contains(told), "{sandbox}: {log}");
    }

    // A linked driver that needs nothing, and a module of which the process reads its file.
    let quiet = "[drivers.quiet]\nmodule = \"libmisbehaver.so\"\nprocess = \"own\"\n\
                 sandbox = { refused_calls = \"kill\", memory = \"4GiB\", files = 64 }\n";
    let writes = format!("write = [\"{}\"]", folder.path().display());
    let manifest = disk(&folder, "apart", "process = \"own\"\nsandbox = { refused_calls = \"kill\" }\n") + quiet;
    let host = folder.run(&(manifest + &file("file", &writes)), &["--log", "debug"]);
    reach(&folder, "apart").write(0, &[1; 512]).expect("it is served");
    assert!(image.exists(), "a file in a folder that it may write to is made");
    let all = children(host.pid());
    assert_eq!(all.len(), 3);
    for pid in all {
        let found = ["NoNewPrivs", "Seccomp", "CapPrm", "CapBnd"].map(|name| status_of(pid, name));
        let is_root = status_of(pid, "Uid").starts_with("0 ");
        let none = "0000000000000000";
        assert_eq!((found[0].as_str(), found[1].as_str(), found[2].as_str()), ("1", "2", none));
        assert!(!is_root || found[3] == none);
    }
    host.stop().expect_success();
}

#[test]
fn a_process_runs_as_the_user_that_its_sandbox_names() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can become another user");
        assert!(env::var_os("FUCHSINE_REQUIRE_CLIENTS").is_none(), "it must not be skipped here: run it as root");
        return;
    }
    let folder = Folder::new();
    let keys =
        "process = \"own\"\nsandbox = { user = 65534, group = 65534, processes = 100, enforce = \"best-effort\" }\n";
    let host = folder.run(&(disk(&folder, "apart", keys)), &["--log", "debug"]);
    reach(&folder, "apart").write(0, &[1; 512]).expect("it is served");
    let child = only_child(&host);
    let ids = ["Uid", "Gid", "Groups"].map(|name| status_of(child, name));
    assert_eq!(ids, ["65534 65534 65534 65534", "65534 65534 65534 65534", ""]);
    kill(child);
    host.signal(Signal::TERM);
    host.wait(HANG_LIMIT);
}

#[test]
fn another_sandbox_of_a_process_with_a_name_counts_after_a_reload_for_all_in_it() {
    let folder = Folder::new();
    let manifest = |files: u32| {
        let keys = "process = \"storage\"\n";
        disk(&folder, "left", &format!("{keys}sandbox = {{ files = {files} }}\n")) + &disk(&folder, "right", keys)
    };
    let most_files = |pid: i32| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default().to_owned();
        line.split_whitespace().nth(3).and_then(|count| count.parse::<u32>().ok())
    };
    let host = folder.run(&manifest(64), &["--log", "info"]);
    assert_eq!(most_files(only_child(&host)), Some(64));
    folder.manifest(&manifest(65));
    host.signal(Signal::HUP);
    eventually(
        "one process with the other limit",
        || matches!(children(host.pid())[..], [only] if most_files(only) == Some(65)),
    );
    for name in ["left", "right"] {
        reach(&folder, name).write(0, &[1; 512]).expect("it is served");
    }
    host.stop().expect_success();
}
