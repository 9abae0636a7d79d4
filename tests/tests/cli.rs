//! Goal: the command is pleasant and exact at its edges: exit codes, messages, and what goes to which stream.
//! Method: run it as a user would, with good and bad arguments, manifests and signals.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use fuchsine_tests::{
    host::{self, Host, bare_command},
    nbd::{Address, CMD_READ, Client, request},
    process::{Finished, HANG_LIMIT, Process, eventually, run},
    summary::Summary,
};
use rustix::process::Signal;
use tempfile::TempDir;

/// Exit code: a driver failed.
const DRIVER_FAILED: i32 = 1;
/// Exit code: wrong usage.
const USAGE: i32 = 2;
/// Exit code: the configuration is invalid.
const CONFIG: i32 = 4;
/// Exit code: the stop deadline passed.
const STOP_DEADLINE: i32 = 6;

fn fuchsine(arguments: &[&str]) -> Finished {
    run(bare_command().args(arguments))
}

/// A manifest in a folder of its own.
struct ManifestFile {
    folder: TempDir,
}

impl ManifestFile {
    fn new(text: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("host.toml"), text).expect("the manifest can be written");
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("host.toml")
    }

    /// `fuchsine VERB MANIFEST`, run to its end.
    fn run(&self, verb: &str, more: &[&str]) -> Finished {
        run(bare_command().arg(verb).arg(self.path()).args(more))
    }
}

/// The default, on a free port.
const GOOD: &str = r#"
[drivers.ramdisk]
config = { size = "1MiB" }

[drivers.nbd]
bind = { protocol = "block" }
config = { listen = "127.0.0.1:0", export = "ramdisk" }
"#;

#[test]
fn help_names_the_commands_and_the_exit_codes() {
    for arguments in [&["--help"][..], &["help"], &["-h"]] {
        let text = fuchsine(arguments).expect_success().stdout.join("\n");
        for word in ["run", "check", "drivers", "--log"] {
            assert!(text.contains(word), "{arguments:?} does not name {word}:\n{text}");
        }
    }
    let text = fuchsine(&["--help"]).expect_success().stdout.join("\n");
    for code in ["0", "1", "2", "4", "6", "130", "143"] {
        let stands =
            text.lines().any(|line| line.trim_start().starts_with(code) || line.contains(&format!(" {code} ")));
        assert!(stands, "--help does not explain exit code {code}:\n{text}");
    }
    let text = fuchsine(&["run", "--help"]).expect_success().stdout.join("\n");
    assert!(text.contains("--set") && text.contains("MANIFEST"), "{text}");
}

#[test]
fn version_names_the_command_and_a_number() {
    let lines = fuchsine(&["--version"]).expect_success().stdout;
    assert_eq!(lines, [format!("fuchsine {}", env!("CARGO_PKG_VERSION"))]);
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_wrong() {
    for arguments in [&["--no-such-option"][..], &["no-such-verb"], &["check"], &["run", "--log-format", "xml"], &[]] {
        let finished = fuchsine(arguments).expect_code(USAGE);
        assert!(!finished.stderr.trim().is_empty(), "{arguments:?} says nothing");
        assert!(finished.stdout.is_empty(), "{arguments:?} writes to stdout: {:?}", finished.stdout);
    }
}

#[test]
fn drivers_lists_what_is_built_in() {
    let text = fuchsine(&["drivers"]).expect_success().stdout.join("\n");
    for word in ["ramdisk", "nbd", "listen", "size"] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
}

#[test]
fn completions_and_man_pages_name_every_command() {
    let help = fuchsine(&["--help"]).expect_success().stdout;
    let commands = help.iter().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"ps") && commands.contains(&"completions"), "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = fuchsine(&["completions", shell]).expect_success().stdout.join("\n");
        for command in &commands {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
    }
    fuchsine(&["completions", "cmd"]).expect_code(USAGE);
    let folder = TempDir::new().expect("a folder");
    let script = folder.path().join("completions");
    fs::write(&script, fuchsine(&["completions", "bash"]).stdout.join("\n")).expect("writable");
    // What bash says of the words that follow `fuchsine bind `.
    let ask =
        ". \"$0\"; COMP_WORDS=(fuchsine bind ''); COMP_CWORD=2; _fuchsine fuchsine '' bind; echo \"${COMPREPLY[*]}\"";
    let answer = run(Command::new("bash").args(["-c", ask]).arg(&script)).expect_success().stdout.join(" ");
    assert!(answer.contains("explain") && answer.contains("rematch"), "{answer}");

    let pages = folder.path().join("man/man1");
    fuchsine(&["man", "--dir", pages.to_str().expect("text")]).expect_success();
    assert!(pages.join("fuchsine.1").exists());
    for command in commands.iter().filter(|command| **command != "help") {
        let page = fs::read_to_string(pages.join(format!("fuchsine-{command}.1"))).expect("each command has one");
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    let page = fuchsine(&["man"]).expect_success().stdout.join("\n");
    assert!(page.starts_with(".ie") && page.contains("Exit codes"), "{page}");
    let refused = fuchsine(&["man", "--dir", "/dev/null/x"]).expect_code(DRIVER_FAILED);
    assert!(refused.stderr.contains("the man pages cannot be written in `/dev/null/x`"), "{}", refused.stderr);
}

#[test]
fn a_listing_that_finds_no_room_exits_with_1_and_says_so() {
    for arguments in [&["drivers"][..], &["drivers", "--json"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device that is always full");
        let output = bare_command().args(arguments).stdout(full).output().expect("the command runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(DRIVER_FAILED), "{told}");
        assert!(told.starts_with("error: cannot write on the standard output: "), "{told}");
    }
}

#[test]
fn a_good_manifest_passes_the_check_and_nothing_is_started() {
    let manifest = ManifestFile::new(&GOOD.replace("127.0.0.1:0", "256.0.0.1:0").replace("256.0.0.1", "127.0.0.1"));
    manifest.run("check", &[]).expect_success();
    // A port in use does not matter to a check: it starts nothing.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    ManifestFile::new(&GOOD.replace("127.0.0.1:0", &address)).run("check", &[]).expect_success();
}

#[test]
fn a_manifest_runs() {
    let manifest = ManifestFile::new(GOOD);
    let host = Host::start_command(host::command().arg(manifest.path()));
    let client = Client::connect(&host.address()).expect("the host serves");
    assert_eq!(client.size(), 1 << 20);
    client.disconnect().expect("the host closes");
    host.stop();
}

#[test]
fn a_setting_overrides_the_manifest() {
    let manifest = ManifestFile::new(GOOD);
    let host = Host::start_command(host::command().arg(manifest.path()).args(["--set", "ramdisk.size=2MiB"]));
    assert_eq!(Client::connect(&host.address()).expect("the host serves").size(), 2 << 20);
    host.stop();
}

#[test]
fn a_mistake_in_a_manifest_is_shown_with_file_line_and_suggestion() {
    // The text to change, what it becomes, the line of the mistake, and what the message has to offer.
    let cases = [
        ("size =", "sise =", 3, "size"),
        ("listen =", "lisen =", 7, "listen"),
        ("[drivers.nbd]", "[drivers.ndb]", 5, "nbd"),
        ("bind =", "bnid =", 6, "bind"),
        ("[drivers.ramdisk]", "[driver.ramdisk]", 2, "drivers"),
        ("\"1MiB\"", "true", 3, "size"),
        ("\"1MiB\"", "\"1MiBB\"", 3, "MiB"),
        ("config = { size = \"1MiB\" }", "config = { size = ", 3, ""),
        // What a manifest says does nothing to the terminal of whoever checks it.
        ("[drivers.nbd]", "[drivers.\"\\u001b[31m\"]", 5, "\\u{1b}[31m"),
    ];
    for (from, to, line, offer) in cases {
        let manifest = ManifestFile::new(&GOOD.replacen(from, to, 1));
        for verb in ["check", "run"] {
            let finished = manifest.run(verb, &[]).expect_code(CONFIG);
            let message = &finished.stderr;
            let place = format!("{}:{line}", manifest.path().display());
            assert!(message.contains(&place), "{verb} with {to}: no {place} in\n{message}");
            assert!(message.contains(offer), "{verb} with {to}: no {offer} in\n{message}");
            assert!(!message.contains('\u{1b}'), "{verb} with {to}: {message:?}");
            assert!(finished.stdout.is_empty(), "{:?}", finished.stdout);
        }
    }
}

#[test]
fn a_manifest_that_is_not_there_exits_with_4_and_names_it() {
    for verb in ["check", "run"] {
        let finished = fuchsine(&[verb, "no/such/manifest.toml"]).expect_code(CONFIG);
        assert!(finished.stderr.contains("no/such/manifest.toml"), "{}", finished.stderr);
    }
}

#[test]
fn a_bad_setting_exits_with_4_and_offers_what_exists() {
    let cases = [
        ("ramdisk.sise=1MiB", "size"),
        ("ramdsk.size=1MiB", "ramdisk"),
        ("ramdisk.size=much", "much"),
        ("nonsense", "DRIVER.KEY=VALUE"),
        ("nbd.max_connections=lots", "lots"),
    ];
    for (setting, offer) in cases {
        let finished = fuchsine(&["run", "--set", "nbd.listen=127.0.0.1:0", "--set", setting]).expect_code(CONFIG);
        assert!(finished.stderr.contains(offer), "{setting}: no {offer} in\n{}", finished.stderr);
        assert!(finished.stdout.is_empty(), "{:?}", finished.stdout);
    }
}

#[test]
fn a_busy_port_is_one_clear_line_and_what_had_started_is_unwound() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = TempDir::new().expect("a folder");
    let image = folder.path().join("disk.img");
    fs::write(&image, vec![7; 1 << 20]).expect("the image can be written");
    let image_setting = format!("ramdisk.image={}", image.display());
    let listen = format!("nbd.listen={address}");
    let settings = ["run", "--set", &listen, "--set", "ramdisk.size=1MiB", "--set", &image_setting];
    let finished = fuchsine(&settings).expect_code(DRIVER_FAILED);

    assert!(finished.stdout.is_empty(), "no ready line: {:?}", finished.stdout);
    let lines: Vec<&str> = finished.stderr.lines().filter(|line| line.contains(&address)).collect();
    assert_eq!(lines.len(), 1, "one line about {address}:\n{}", finished.stderr);
    assert!(lines[0].contains("nbd"), "it names the driver: {}", lines[0]);
    assert!(!finished.stderr.contains("panic"), "{}", finished.stderr);
    // The driver that had started was stopped in order: its summary is there and its image was saved back.
    assert!(finished.stderr.contains("ramdisk"), "{}", finished.stderr);
    assert_eq!(fs::read(&image).expect("the image is there"), vec![7; 1 << 20]);
}

#[test]
fn an_interrupt_stops_with_0_and_a_summary_whose_numbers_add_up() {
    for signal in [Signal::INT, Signal::TERM] {
        let host = Host::on_free_port(&[]);
        let mut client = Client::connect(&host.address()).expect("the host serves");
        client.write(0, &[1; 512]).expect("a write works");
        host.signal(signal);
        let finished = host.wait(HANG_LIMIT).expect_success();
        let summary = Summary::parse(&finished.stderr);
        assert_eq!(summary.names(), ["nbd", "ramdisk"]);
        for driver in summary.drivers() {
            assert_eq!(driver.accepted, driver.ran + driver.canceled + driver.taken_back, "{driver:?}");
            assert_eq!(driver.pending, 0, "{driver:?}");
        }
    }
}

#[test]
fn what_was_written_is_in_the_image_after_a_stop_and_there_again_at_the_next_start() {
    let folder = TempDir::new().expect("a folder");
    let image = folder.path().join("disk.img");
    fs::write(&image, vec![0; 1 << 20]).expect("the image can be written");
    let setting = format!("ramdisk.image={}", image.display());
    for round in 1..=2_u8 {
        let host = Host::on_free_port(&["ramdisk.size=1MiB", &setting]);
        let mut client = Client::connect(&host.address()).expect("the host serves");
        assert_eq!(client.read(4096, 512).expect("a read works"), [round - 1; 512]);
        client.write(4096, &[round; 512]).expect("a write works");
        host.stop();
        let saved = fs::read(&image).expect("the image is there");
        assert_eq!(saved.len(), 1 << 20);
        assert_eq!(saved[4096..4096 + 512], [round; 512]);
    }
    let names: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["disk.img"], "no temporary file is left");
}

#[test]
fn a_driver_that_cannot_save_at_the_stop_exits_with_1_and_says_what_is_lost() {
    let folder = TempDir::new().expect("a folder");
    let image = folder.path().join("disk.img");
    let setting = format!("ramdisk.image={}", image.display());
    let host = Host::on_free_port(&["ramdisk.size=1MiB", &setting]);
    folder.close().expect("the folder can be deleted");
    host.signal(Signal::TERM);
    let finished = host.wait(HANG_LIMIT).expect_code(DRIVER_FAILED);
    let told = finished.stderr.lines().any(|line| line.contains("ramdisk") && line.contains("disk.img"));
    assert!(told, "no line about the image:\n{}", finished.stderr);
    // The others were stopped in order all the same.
    assert_eq!(Summary::parse(&finished.stderr).names(), ["nbd", "ramdisk"]);
}

#[test]
fn a_stop_that_takes_longer_than_it_may_exits_with_6_and_names_who_is_stuck() {
    let manifest = ManifestFile::new(&format!("[host]\nstop_timeout_ms = 1\n{GOOD}"));
    let host = Host::start_command(host::command().arg(manifest.path()));
    // A client that does not read: the driver gives it half a second to take its replies.
    let mut deaf = Client::connect(&host.address()).expect("the host serves");
    deaf.stream().set_nonblocking(true).expect("a socket can be made so");
    let requests: Vec<u8> = (0..1000).flat_map(|cookie| request(CMD_READ, 0, cookie, 0, 1 << 20)).collect();
    let mut sent = 0;
    eventually("the connection is full", || match deaf.stream().write(&requests[sent % requests.len()..]) {
        Ok(count) => {
            sent += count;
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            true
        }
    });
    host.signal(Signal::TERM);
    let finished = host.wait(HANG_LIMIT).expect_code(STOP_DEADLINE);
    let told = finished.stderr.lines().any(|line| line.contains("ERROR") && line.contains("nbd"));
    assert!(told, "nobody is named:\n{}", finished.stderr);
}

#[test]
fn json_logs_are_one_object_a_line() {
    let host = Host::start(&["--set", "nbd.listen=127.0.0.1:0", "--log", "debug", "--log-format", "json"]);
    drop(Client::connect(&host.address()).expect("the host serves"));
    let finished = host.stop();
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert!(lines.len() > 2, "debug says more than that:\n{}", finished.stderr);
    for line in lines {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value["level"].is_string() && value["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn the_level_of_the_log_is_set_by_option_and_by_environment() {
    let quiet = Host::start(&["--set", "nbd.listen=127.0.0.1:0", "--log", "error"]).stop();
    assert!(!quiet.stderr.contains("INFO"), "{}", quiet.stderr);
    let chatty = Host::start(&["--set", "nbd.listen=127.0.0.1:0", "--log", "debug"]).stop();
    assert!(chatty.stderr.contains("DEBUG"), "{}", chatty.stderr);
    let mut command = host::command();
    command.args(["--set", "nbd.listen=127.0.0.1:0"]).env("RUST_LOG", "debug");
    let by_environment = Host::start_command(&mut command).stop();
    assert!(by_environment.stderr.contains("DEBUG"), "{}", by_environment.stderr);
}

#[test]
fn a_second_signal_ends_a_stop_that_does_not_end() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        // A stop writes to stderr. With a pipe there that is full and that nobody reads, the end waits for a while.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = host::command();
        command.args(["--set", "nbd.listen=127.0.0.1:0", "--log", "debug"]).stdin(Stdio::null());
        let mut process = StuckProcess::start(&mut command, &writer);
        process.fill(writer);

        process.signal(signal);
        let status = process.signal_until_ended(signal);
        assert_eq!(status.code(), Some(code), "{status}");
        drop(reader);
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_neither_clients_nor_the_stop() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = host::command();
    command.args(["--set", "nbd.listen=127.0.0.1:0"]).stdin(Stdio::null());
    let mut process = StuckProcess::start(&mut command, &writer);
    process.fill(writer);
    for _ in 0..100 {
        // Each of them is worth a line.
        let mut junk = process.address.connect().expect("a connection");
        junk.write_all(&[0xff; 64]).expect("the first bytes find room");
    }
    let mut client = Client::connect(&process.address).expect("the host serves");
    client.write(0, &[1; 512]).expect("a write works");
    process.signal(Signal::TERM);
    let status = process.wait();
    assert_eq!(status.code(), Some(0), "{status}");
    drop(reader);
}

/// A host whose stderr is a pipe of the test's.
struct StuckProcess {
    child: std::process::Child,
    address: Address,
}

impl StuckProcess {
    #[track_caller]
    fn start(command: &mut Command, stderr: &std::io::PipeWriter) -> Self {
        use std::io::BufRead;
        let stderr = stderr.try_clone().expect("a pipe end can be had twice");
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("the command can be started");
        let stdout = child.stdout.take().expect("stdout was piped");
        let mut line = String::new();
        std::io::BufReader::new(stdout).read_line(&mut line).expect("a line comes");
        let Some(address) = line.strip_prefix("ready: ") else {
            let _ = child.kill();
            panic!("no ready line: {line}");
        };
        let address = Address::parse(address.trim_end());
        Self { child, address }
    }

    /// Waits until the process has ended.
    #[track_caller]
    fn wait(&mut self) -> std::process::ExitStatus {
        let mut status = None;
        eventually("the host has ended", || {
            status = self.child.try_wait().expect("a child can be waited for");
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// Fills the pipe until it takes no more.
    fn fill(&self, mut writer: std::io::PipeWriter) {
        let flags = rustix::fs::fcntl_getfl(&writer).expect("flags of a pipe");
        rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).expect("flags of a pipe");
        while writer.write(&[b'.'; 512]).is_ok() {}
        while writer.write(b".").is_ok() {}
        // The flags belong to the pipe end that the host writes to as well: it shall block, as it would on a terminal.
        rustix::fs::fcntl_setfl(&writer, flags).expect("flags of a pipe");
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Sends `signal` again and again, as an impatient user does, until the process has ended.
    #[track_caller]
    fn signal_until_ended(&mut self, signal: Signal) -> std::process::ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(began.elapsed() < HANG_LIMIT, "a second signal does not end the host");
            self.signal(signal);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for StuckProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_reader_of_stdout_that_has_gone_is_no_panic() {
    let mut process = Process::start(host::command().args(["--set", "nbd.listen=127.0.0.1:0"]).stdin(Stdio::null()));
    assert!(process.next_line(HANG_LIMIT).is_some_and(|line| line.starts_with("ready: ")));
    process.signal(Signal::TERM);
    let finished = process.wait(HANG_LIMIT).expect_success();
    assert!(!finished.stderr.contains("panic"), "{}", finished.stderr);

    // `fuchsine drivers | head -0`
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut child = bare_command()
        .arg("drivers")
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be started");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut text).expect("readable");
    child.wait().expect("a child can be waited for");
    assert!(!text.contains("panic"), "{text}");
}

/// What a host writes for SIGUSR1, which is all of it when `is_whole` says so.
fn dumped(more: &[&str], is_whole: impl Fn(&str) -> bool) -> String {
    let mut command = host::command();
    command.args(["--set", "nbd.listen=127.0.0.1:0", "--log", "off"]).args(more);
    let host = Host::start_command(&mut command);
    host.signal(Signal::USR1);
    eventually("the dump", || is_whole(&host.stderr_so_far()));
    host.stop().stderr
}

#[test]
fn a_signal_has_the_state_of_every_dispatcher_written_as_text_or_json() {
    let names_both =
        |text: &str| ["nbd", "ramdisk"].iter().all(|driver| text.contains(&format!("\"{driver}\": running, ")));
    let text = dumped(&[], names_both);
    assert!(text.starts_with("runtime \"fuchsine\": "), "{text}");
    assert!(dumped(&["--dump-on-signal", "text"], names_both).starts_with("runtime \"fuchsine\": "));

    let json = dumped(&["--dump-on-signal", "json"], |text| text.ends_with('\n'));
    let value: serde_json::Value = serde_json::from_str(&json).expect("one JSON value");
    assert_eq!(json.lines().count(), 1, "{json}");
    assert_eq!((&value["version"], &value["runtime"]), (&1.into(), &"fuchsine".into()));
    let drivers = value["drivers"].as_array().expect("an array");
    assert!(drivers.iter().all(|driver| driver["state"] == "running"), "{json}");
    fuchsine(&["run", "--dump-on-signal", "xml"]).expect_code(USAGE);
}

#[test]
fn a_quit_writes_a_dump_and_aborts() {
    use std::os::unix::process::ExitStatusExt;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c 0; exec \"$0\" run \"$@\""]).arg(fuchsine_tests::command::fuchsine());
    command.args(["--set", "nbd.listen=127.0.0.1:0", "--log", "off", "--no-control"]).env("FUCHSINE_MANIFEST", "none");
    let host = Host::start_command(&mut command);
    host.signal(Signal::QUIT);
    let finished = host.wait(HANG_LIMIT);
    assert_eq!(finished.status.signal(), Some(Signal::ABORT.as_raw()), "{}", finished.status);
    assert!(finished.stderr.contains("runtime \"fuchsine\"") && finished.stderr.contains("nbd"), "{}", finished.stderr);
}

#[test]
fn a_manifest_is_found_where_the_environment_says_and_its_name_is_logged() {
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("fuchsine")).expect("a folder");
    let path = folder.path().join("fuchsine/host.toml");
    fs::write(&path, "[drivers.found]\ndriver = \"ramdisk\"\nconfig.size = \"1MiB\"\n").expect("writable");
    let find = |name: &str, value: &std::path::Path| {
        let mut command = host::command();
        let host = Host::start_command(command.env_remove("FUCHSINE_MANIFEST").env(name, value));
        host.stop().stderr
    };
    for (name, value) in [("XDG_CONFIG_HOME", folder.path()), ("FUCHSINE_MANIFEST", path.as_path())] {
        let log = find(name, value);
        assert!(log.contains(&format!("a manifest was found manifest={}", path.display())), "{log}");
        assert_eq!(Summary::parse(&log).names(), ["found"]);
    }
    let check = run(bare_command().arg("check").env("FUCHSINE_MANIFEST", &path)).expect_success();
    assert_eq!(check.stdout, [format!("{}: ok, drivers: found", path.display())]);
    for verb in ["run", "check"] {
        let missing = run(bare_command().arg(verb).env("FUCHSINE_MANIFEST", "no/such.toml")).expect_code(CONFIG);
        assert!(missing.stderr.contains("no/such.toml"), "{}", missing.stderr);
    }
}
