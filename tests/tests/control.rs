//! Goal: a host that runs is asked and told over its control socket, by commands with text and JSON and exact exit codes;
//! the socket is its user's alone, has one host, and is gone with it.
//! Method: the command as a user would run it, against hosts with sockets in folders of the test's own.

use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use fuchsine_tests::{
    clients::{require_client, skipped},
    command::{fuchsine, module},
    host::{self, Host, bare_command},
    process::{Finished, HANG_LIMIT, Process, eventually, run},
};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const CONFIG: i32 = 4;
const MODULE: i32 = 5;
const TIMED_OUT: i32 = 6;

const MANIFEST: &str =
    "[drivers.disk]\ndriver = \"ramdisk\"\nconfig.size = \"1MiB\"\n\n[drivers.nbd]\nconfig.listen = \"127.0.0.1:0\"\n";

/// A host with a manifest and a control socket in a folder.
struct Running {
    folder: TempDir,
    host: Host,
}

impl Running {
    fn new() -> Running {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("host.toml"), MANIFEST).expect("writable");
        let host = start_in(folder.path());
        Running { folder, host }
    }

    fn socket(&self) -> PathBuf {
        socket(self.folder.path())
    }

    /// `fuchsine ARGUMENTS… --control SOCKET`.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare_command();
        command.args(arguments).arg("--control").arg(self.socket());
        command
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        run(&mut self.command(arguments))
    }

    #[track_caller]
    fn text(&self, arguments: &[&str]) -> String {
        self.run(arguments).expect_success().stdout.join("\n")
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.text(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }

    /// The state of a driver, by `ps`.
    #[track_caller]
    fn state(&self, name: &str) -> String {
        let answer = self.json(&["ps"]);
        let drivers = answer["drivers"].as_array().expect("a list");
        let found = drivers.iter().find(|driver| driver["name"] == name);
        found.map_or_else(|| "none".to_owned(), |driver| driver["state"].as_str().expect("a word").to_owned())
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("control.sock")
}

fn start_in(folder: &Path) -> Host {
    let mut command = host::command();
    command.args(["--log", "debug"]).arg(folder.join("host.toml")).arg("--control").arg(socket(folder));
    Host::start_command(&mut command)
}

#[test]
fn what_a_host_does_is_told_in_text_and_json() {
    let running = Running::new();
    let text = running.text(&["ps"]);
    assert!(text.starts_with(&format!("host: running (process {})", running.host.pid())), "{text}");
    assert!(text.contains(running.host.uri()), "{text}");
    let answer = running.json(&["ps"]);
    assert_eq!(answer["version"], 1);
    assert_eq!(answer["host"]["pid"], running.host.pid().as_raw_nonzero().get());
    assert_eq!((&answer["drivers"][0]["name"], &answer["drivers"][0]["driver"]), (&"disk".into(), &"ramdisk".into()));

    let text = running.text(&["tree"]);
    assert!(text.starts_with("disk name=disk: disk (running)\n  ramdisk "), "{text}");
    assert!(text.contains("protocol=block: nbd (running)"), "{text}");
    let answer = running.json(&["tree"]);
    let paths: Vec<_> = answer["nodes"].as_array().expect("a list").iter().map(|node| node["path"].clone()).collect();
    assert_eq!(paths, ["/disk", "/disk/ramdisk"]);

    let has = |dump: &str, name: &str| {
        dump.lines()
            .any(|line| line.starts_with("driver ") && line.split(':').next().is_some_and(|it| it.contains(name)))
    };
    let all = running.text(&["dump"]);
    assert!(has(&all, "nbd") && has(&all, "disk"), "{all}");
    let of_one = running.text(&["dump", "--driver", "nbd"]);
    assert!(has(&of_one, "nbd") && !has(&of_one, "disk"), "{of_one}");
    let dump = running.json(&["dump", "--driver", "nbd"]);
    assert_eq!(dump["drivers"].as_array().expect("a list").len(), 1);
    assert_eq!(dump["drivers"][0]["name"], "nbd");

    let text = running.text(&["bind", "explain", "/disk/ramdisk"]);
    assert!(text.starts_with("/disk/ramdisk: `nbd` is bound to it\n"), "{text}");
    assert!(text.contains("disk: asks for no node") && text.contains("nbd: has it"), "{text}");
    let answer = running.json(&["bind", "explain", "/disk"]);
    assert_eq!((&answer["offers"][1]["driver"], &answer["offers"][1]["verdict"]), (&"nbd".into(), &"differs".into()));
    running.host.stop();
}

#[test]
fn a_driver_is_stopped_started_and_restarted_by_name_and_by_node() {
    let running = Running::new();
    assert_eq!(running.text(&["stop", "nbd"]), "nbd: held");
    assert_eq!(running.state("nbd"), "held");
    assert!(running.text(&["bind", "explain", "/disk/ramdisk"]).contains("was stopped here by request"));
    assert_eq!(running.text(&["start", "nbd"]), "nbd: running on /disk/ramdisk");
    assert_eq!(running.text(&["restart", "disk"]), "disk: running on /disk");
    running.text(&["wait", "--driver", "nbd"]);
    assert_eq!(running.json(&["stop", "/disk/ramdisk"])["target"], "/disk/ramdisk");
    assert_eq!(running.state("nbd"), "held");
    running.text(&["bind", "rematch", "/disk/ramdisk"]);
    running.text(&["wait", "--driver", "nbd"]);
    running.text(&["restart", "--no-wait", "/disk/ramdisk"]);
    running.text(&["wait", "--driver", "nbd"]);
    // With the last one stopped the host goes on.
    running.text(&["stop", "disk"]);
    assert_eq!(running.state("disk"), "held");
    running.host.stop();
}

#[test]
fn what_is_not_there_exits_with_3_and_errors_are_json_too_where_answers_are() {
    let running = Running::new();
    for arguments in [
        &["stop", "ndb"][..],
        &["start", "/nowhere"],
        &["restart", "ndb"],
        &["unload", "ndb"],
        &["dump", "--driver", "ndb"],
        &["bind", "explain", "/nowhere"],
        &["bind", "rematch", "/nowhere"],
        &["wait", "--driver", "ndb"],
    ] {
        let finished = running.run(arguments).expect_code(NOT_FOUND);
        assert!(finished.stderr.starts_with("error: there is no "), "{arguments:?}: {}", finished.stderr);
        assert!(finished.stdout.is_empty(), "{:?}", finished.stdout);
        let finished = running.run(&[arguments, &["--json"]].concat()).expect_code(NOT_FOUND);
        let error: Value = serde_json::from_str(&finished.stderr).expect("JSON");
        assert_eq!(error["error"]["kind"], "not-found", "{error}");
    }
    running.host.stop();
    let folder = TempDir::new().expect("a folder");
    let nobody = run(bare_command().arg("ps").arg("--control").arg(socket(folder.path()))).expect_code(NOT_FOUND);
    assert!(nobody.stderr.contains("no host serves the control socket"), "{}", nobody.stderr);
}

#[test]
fn drivers_are_loaded_by_name_and_by_module_and_unloaded() {
    let running = Running::new();
    assert_eq!(
        running.text(&["load", "ramdisk", "--name", "scratch", "--set", "size=2MiB"]),
        "scratch: running on /scratch"
    );
    assert_eq!(running.run(&["load", "ramdisk", "--name", "scratch"]).expect_code(FAILED).stdout.len(), 0);
    let file = module("ramdisk");
    let file = file.to_str().expect("a path");
    assert_eq!(running.text(&["load", file, "--name", "loaded"]), "loaded: running on /loaded");
    let answer = running.json(&["ps"]);
    let loaded = answer["drivers"].as_array().expect("a list").iter().find(|driver| driver["name"] == "loaded");
    assert_eq!(loaded.expect("it is there")["module"], fs::canonicalize(file).expect("there").to_str().expect("text"));

    let finished = running.run(&["load", "ramdisk", "--name", "x", "--set", "sise=1"]).expect_code(CONFIG);
    assert!(finished.stderr.contains("did you mean `size`?"), "{}", finished.stderr);
    let finished = running.run(&["load", "nobody"]).expect_code(CONFIG);
    assert!(finished.stderr.contains("there is no driver `nobody`"), "{}", finished.stderr);
    let finished = running.run(&["load", "/nowhere/libx.so"]).expect_code(MODULE);
    assert!(finished.stderr.contains("does not exist"), "{}", finished.stderr);

    for name in ["scratch", "loaded"] {
        assert_eq!(running.text(&["unload", name]), format!("{name}: unloaded"));
        assert_eq!(running.state(name), "none");
    }
    assert_eq!(running.state("disk"), "running");
    running.host.stop();
}

#[test]
fn a_reload_tells_what_it_changes_and_a_mistake_changes_nothing() {
    let running = Running::new();
    let path = running.folder.path().join("host.toml");
    assert_eq!(running.text(&["reload"]), "nothing is different");
    fs::write(&path, format!("{MANIFEST}[drivers.more]\ndriver = \"ramdisk\"\n")).expect("writable");
    assert_eq!(running.text(&["reload"]), "driver `more` is new");
    running.text(&["wait", "--driver", "more"]);
    running.text(&["load", "ramdisk", "--name", "by-hand"]);
    fs::write(&path, MANIFEST.replace("size", "sise")).expect("writable");
    let finished = running.run(&["reload"]).expect_code(CONFIG);
    assert!(finished.stderr.contains("did you mean `size`?"), "{}", finished.stderr);
    assert_eq!([running.state("more"), running.state("by-hand")], ["running", "running"]);
    fs::write(&path, MANIFEST).expect("writable");
    let answer = running.json(&["reload"]);
    let names: Vec<_> = answer["changes"].as_array().expect("a list").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["more", "by-hand"], "what the manifest does not have goes");
    running.host.stop();
}

#[test]
fn a_wait_begins_before_the_host_is_there_and_ends_with_it() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("host.toml"), MANIFEST).expect("writable");
    let waiting = |arguments: &[&str]| {
        let mut command = bare_command();
        command.arg("wait").args(arguments).arg("--control").arg(socket(folder.path()));
        command
    };
    run(&mut waiting(&["--for", "stopped"])).expect_success();
    run(&mut waiting(&["--timeout", "10ms"])).expect_code(NOT_FOUND);
    let before = Process::start(waiting(&["--timeout", "60s"]).stdin(Stdio::null()));
    let host = start_in(folder.path());
    assert_eq!(before.wait(HANG_LIMIT).expect_success().stdout, ["running"]);
    run(&mut waiting(&["--for", "stopped", "--timeout", "10ms"])).expect_code(TIMED_OUT);
    let driver = ["--for", "failed", "--driver", "nbd", "--timeout", "10ms"];
    let finished = run(&mut waiting(&driver)).expect_code(TIMED_OUT);
    assert!(finished.stderr.contains("the time is up"), "{}", finished.stderr);
    let until_end = Process::start(waiting(&["--for", "stopped", "--timeout", "60s"]).stdin(Stdio::null()));
    host.stop();
    assert_eq!(until_end.wait(HANG_LIMIT).expect_success().stdout, ["stopped"]);
}

#[test]
fn the_log_is_shown_and_followed_until_the_host_ends() {
    let running = Running::new();
    let mut follower = Process::start(running.command(&["logs", "--follow", "--driver", "nbd"]).stdin(Stdio::null()));
    eventually("the follower", || running.host.stderr_so_far().matches("a client of the control socket").count() >= 1);
    running.text(&["restart", "nbd"]);
    let line = follower.next_line(HANG_LIMIT).expect("a line");
    assert!(line.contains(" driver=nbd"), "{line}");
    let lines = running.run(&["logs", "-n", "2", "--json"]).expect_success().stdout;
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert!(line["message"].is_string() && line["time"].as_str().expect("text").ends_with('Z'), "{line}");
    }
    running.host.stop();
    let finished = follower.wait(HANG_LIMIT).expect_success();
    assert!(finished.stdout.iter().all(|line| line.contains("driver=nbd")), "{:?}", finished.stdout);
}

#[test]
fn of_two_hosts_on_one_socket_the_second_ends_and_says_who_has_it() {
    let running = Running::new();
    let mut second = host::command();
    second.arg(running.folder.path().join("host.toml")).arg("--control").arg(running.socket());
    let finished = run(&mut second).expect_code(FAILED);
    let says = format!("another host serves the control socket `{}`", running.socket().display());
    assert!(finished.stderr.contains(&says), "{}", finished.stderr);
    assert!(finished.stderr.contains(&format!("(process {})", running.host.pid())), "{}", finished.stderr);
    assert!(finished.stdout.is_empty(), "{:?}", finished.stdout);
    assert_eq!(running.state("disk"), "running");
    running.host.stop();
}

#[test]
fn the_socket_is_its_users_alone_is_gone_at_the_end_and_replaced_after_a_kill() {
    let running = Running::new();
    let found = fs::symlink_metadata(running.socket()).expect("it is there");
    assert!(found.file_type().is_socket());
    assert_eq!(found.mode() & 0o777, 0o600);
    let Running { folder, host } = running;
    host.signal(Signal::KILL);
    drop(host.wait(HANG_LIMIT));
    assert!(socket(folder.path()).exists(), "nobody could remove it");
    let again = start_in(folder.path());
    run(bare_command().arg("ps").arg("--control").arg(socket(folder.path()))).expect_success();
    again.stop();
    let left = fs::read_dir(folder.path()).expect("readable").flatten();
    let names: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["host.toml"]);
}

#[test]
fn the_usual_folder_the_manifest_and_the_environment_name_the_socket() {
    let folder = TempDir::new().expect("a folder");
    let with_folder = |mut command: Command| {
        command.env_remove("FUCHSINE_CONTROL").env("XDG_RUNTIME_DIR", folder.path());
        command
    };
    let host = |settings: &[&str]| {
        let mut command = with_folder(host::command());
        Host::start_command(command.args(["--set", "nbd.listen=127.0.0.1:0"]).args(settings))
    };
    let ps = |arguments: &[&str]| {
        let mut command = with_folder(bare_command());
        run(command.arg("ps").args(arguments))
    };
    let nobody = ps(&[]).expect_code(NOT_FOUND);
    assert!(nobody.stderr.contains("no host has a control socket in"), "{}", nobody.stderr);
    let first = host(&[]);
    ps(&[]).expect_success();
    ps(&["--host", "default"]).expect_success();
    let other = ps(&["--host", "other"]).expect_code(NOT_FOUND);
    assert!(other.stderr.contains("there are `default`"), "{}", other.stderr);
    // A second one of the same name goes on without.
    let second = host(&[]);
    eventually("the line of the log", || second.stderr_so_far().contains("another host serves"));
    second.stop();

    fs::write(folder.path().join("named.toml"), MANIFEST).expect("writable");
    let named = Host::start_command(with_folder(host::command()).arg(folder.path().join("named.toml")));
    let unclear = ps(&[]).expect_code(USAGE);
    assert!(unclear.stderr.contains("say which host by --host; there are `default`, `named`"), "{}", unclear.stderr);
    ps(&["--host", "named"]).expect_success();
    named.stop();
    first.stop();

    let text = format!("[host]\ncontrol = \"here.sock\"\n{MANIFEST}");
    fs::write(folder.path().join("named.toml"), text).expect("writable");
    let named = Host::start_command(with_folder(host::command()).arg(folder.path().join("named.toml")));
    ps(&["--control", folder.path().join("here.sock").to_str().expect("text")]).expect_success();
    let mut by_environment = with_folder(bare_command());
    run(by_environment.arg("ps").env("FUCHSINE_CONTROL", folder.path().join("here.sock"))).expect_success();
    named.stop();

    for without in [format!("[host]\ncontrol = false\n{MANIFEST}"), MANIFEST.to_owned()] {
        fs::write(folder.path().join("named.toml"), &without).expect("writable");
        let mut command = with_folder(host::command());
        command.arg(folder.path().join("named.toml"));
        if !without.contains("control") {
            command.arg("--no-control");
        }
        let silent = Host::start_command(&mut command);
        ps(&[]).expect_code(NOT_FOUND);
        silent.stop();
    }
    let wrong = format!("[host]\ncontrol = 7\n{MANIFEST}");
    fs::write(folder.path().join("named.toml"), wrong).expect("writable");
    let finished = run(bare_command().arg("check").arg(folder.path().join("named.toml"))).expect_code(CONFIG);
    assert!(finished.stderr.contains("`control` must be the path of a socket, or false"), "{}", finished.stderr);
}

#[test]
fn what_is_no_socket_is_not_replaced() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("host.toml"), MANIFEST).expect("writable");
    fs::write(socket(folder.path()), "precious").expect("writable");
    let mut command = host::command();
    command.arg(folder.path().join("host.toml")).arg("--control").arg(socket(folder.path()));
    let finished = run(&mut command).expect_code(FAILED);
    assert!(finished.stderr.contains("is there and is no socket; remove it"), "{}", finished.stderr);
    assert_eq!(fs::read(socket(folder.path())).expect("still there"), b"precious");
}

#[test]
fn a_thousand_connections_leave_the_host_as_it_was() {
    let running = Running::new();
    let connections: Vec<_> = (0..1000).map_while(|_| UnixStream::connect(running.socket()).ok()).collect();
    assert!(connections.len() >= 1000, "{}", connections.len());
    // Those that are in keep others out, for a while, and are told so; their end lets others in.
    let full = running.run(&["ps"]).expect_code(FAILED);
    assert!(full.stderr.contains("clients already; come again later"), "{}", full.stderr);
    drop(connections);
    eventually("room", || running.run(&["ps"]).status.success());
    assert_eq!(running.state("nbd"), "running");
    running.host.stop();
}

#[test]
fn another_user_is_turned_away() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can be another user");
        return;
    }
    let Some(setpriv) = require_client("setpriv") else { return };
    let running = Running::new();
    // The mode alone would do; so it is taken away here.
    everybody(running.folder.path(), 0o755);
    let command = running.folder.path().join("fuchsine");
    run(Command::new("cp").arg(fuchsine()).arg(&command)).expect_success();
    let as_nobody = || run(as_user(&setpriv, 65534).arg(&command).arg("ps").arg("--control").arg(running.socket()));
    let finished = as_nobody().expect_code(FAILED);
    assert!(finished.stderr.contains("belongs to another user"), "{}", finished.stderr);
    everybody(&running.socket(), 0o777);
    let finished = as_nobody().expect_code(FAILED);
    // A host of root is one that this client would talk to; it is the host that does not want it.
    assert!(finished.stderr.contains("this host belongs to another user"), "{}", finished.stderr);
    let told = "another user was turned away from the control socket";
    eventually("the line of the log", || running.host.stderr_so_far().contains(told));
    assert_eq!(running.state("disk"), "running");
    running.host.stop();
}

/// Whoever makes a socket where a host of somebody else would have one is not told what is asked there.
#[test]
fn a_client_does_not_talk_to_whoever_made_a_socket_first() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can be another user");
        return;
    }
    let (Some(setpriv), Some(socat)) = (require_client("setpriv"), require_client("socat")) else { return };
    let folder = TempDir::new().expect("a folder");
    everybody(folder.path(), 0o777);
    let command = folder.path().join("fuchsine");
    run(Command::new("cp").arg(fuchsine()).arg(&command)).expect_success();
    let place = socket(folder.path());
    let mut listening = as_user(&setpriv, 65533);
    listening.arg(socat).arg(format!("UNIX-LISTEN:{},mode=777,fork", place.display())).arg("-");
    let other = Process::start(&mut listening);
    eventually("its socket", || place.exists());
    let finished =
        run(as_user(&setpriv, 65534).arg(&command).arg("ps").arg("--control").arg(&place)).expect_code(FAILED);
    assert!(finished.stderr.contains("belongs to another user"), "{}", finished.stderr);
    other.signal(Signal::KILL);
    assert_eq!(other.wait(HANG_LIMIT).stdout, Vec::<String>::new(), "something was asked");
}

fn everybody(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("ours");
}

/// Whatever follows runs as this user.
fn as_user(setpriv: &Path, user: u32) -> Command {
    let mut command = Command::new(setpriv);
    command.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).arg("--clear-groups");
    command
}
