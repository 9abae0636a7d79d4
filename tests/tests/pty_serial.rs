//! Goal: a terminal program that we did not write talks over the serial port, to the driver on its other side.
//! Method: `pty-serial` with `serial-echo` on it, linked and loaded, and `socat` between the terminal and pipes of the test.

mod module_support;

use std::{
    fs,
    io::{Read, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use fuchsine_tests::{
    clients::require_client,
    command::fuchsine,
    host::Host,
    process::{HANG_LIMIT, Process, run},
    random::Random,
    summary::Summary,
};
use module_support::Folder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

/// A manifest of the port, with further keys, and of its client; both from where `origin` says.
fn manifest(config: &str, origin: &str) -> String {
    format!(
        "[drivers.pty-serial]\ndriver = \"pty-serial\"\n{origin}\nconfig = {{ link = \"tty\"{config} }}\n\
         [drivers.serial-echo]\ndriver = \"serial-echo\"\n{origin}\n"
    )
}

const LINKED: &str = "";
const LOADED: &str = "module = \"libpty-serial.so\"";

/// `socat` between the terminal and two pipes; killed when it is dropped.
struct Socat(Child);

impl Socat {
    #[track_caller]
    fn open(program: &Path, tty: &Path) -> Self {
        let terminal = format!("FILE:{},raw,echo=0", tty.display());
        let mut command = Command::new(program);
        command.args(["STDIO", &terminal]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().expect("it was found"))
    }

    fn types(&mut self, keys: &[u8]) {
        self.0.stdin.as_mut().expect("it is piped").write_all(keys).expect("socat reads");
    }

    #[track_caller]
    fn sees(&mut self, count: usize) -> Vec<u8> {
        let stdout = self.0.stdout.as_mut().expect("it is piped");
        let mut seen = Vec::new();
        while seen.len() < count {
            let limit = Timespec { tv_sec: HANG_LIMIT.as_secs() as i64, tv_nsec: 0 };
            let ready = poll(&mut [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)], Some(&limit));
            assert_eq!(ready, Ok(1), "only {:?} came", String::from_utf8_lossy(&seen));
            let mut bytes = vec![0; count - seen.len()];
            match stdout.read(&mut bytes).expect("a pipe") {
                0 => panic!("socat ended after {:?}", String::from_utf8_lossy(&seen)),
                read => seen.extend(&bytes[..read]),
            }
        }
        seen
    }

    #[track_caller]
    fn expect(&mut self, text: &str) {
        assert_eq!(String::from_utf8_lossy(&self.sees(text.len())), text);
    }
}

impl Drop for Socat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tty(folder: &Folder) -> PathBuf {
    folder.path().join("tty")
}

#[test]
fn lines_are_typed_corrected_and_echoed_linked_and_loaded() {
    let Some(socat) = require_client("socat") else { return };
    let folder = Folder::new();
    folder.module("pty-serial");
    for origin in [LINKED, LOADED] {
        let host = folder.run(&manifest("", origin), &[]);
        assert_eq!(host.addresses(), [format!("pty://{}", tty(&folder).display())]);
        let mut terminal = Socat::open(&socat, &tty(&folder));
        // What is typed is shown; the line comes back when it is ended.
        terminal.types(b"helo\x7flo\r");
        terminal.expect("helo\x08 \x08lo\r\nhello\r\n");
        terminal.types(b"gone\x15kept\r");
        terminal.expect(&format!("gone{}kept\r\nkept\r\n", "\x08 \x08".repeat(4)));
        terminal.types(b"never\x03");
        terminal.expect("never^C\r\ninterrupted\r\n");
        terminal.types(b"part\x04\x04");
        terminal.expect("partpartend\r\n");
        drop(terminal);
        // The port is there for the next one.
        let mut terminal = Socat::open(&socat, &tty(&folder));
        terminal.types("größe\x7f\x7fe\r".as_bytes());
        terminal.expect("größe\x08 \x08\x08 \x08e\r\ngröe\r\n");
        drop(terminal);
        let summary = Summary::parse(&host.stop().stderr);
        assert_eq!(summary.names(), ["pty-serial", "serial-echo"]);
        for driver in summary.drivers() {
            assert_eq!(driver.pending, 0, "{driver:?}");
            assert_eq!(driver.accepted, driver.ran + driver.canceled + driver.taken_back, "{driver:?}");
        }
        assert!(!tty(&folder).is_symlink(), "the link goes with its port");
    }
}

#[test]
fn a_raw_port_carries_any_bytes_there_and_back() {
    let Some(socat) = require_client("socat") else { return };
    let folder = Folder::new();
    let host = folder.run(&manifest(", mode = \"raw\", echo = false", LINKED), &[]);
    let mut terminal = Socat::open(&socat, &tty(&folder));
    let bytes = Random::from_environment().bytes(200 << 10);
    // Less at once than all the buffers on the way hold: nobody reads here while it writes.
    for piece in bytes.chunks(8 << 10) {
        terminal.types(piece);
        assert!(terminal.sees(piece.len()) == piece);
    }
    drop(terminal);
    host.stop();
}

#[test]
fn two_ports_are_joined_by_a_program_and_each_hears_the_other() {
    let Some(socat) = require_client("socat") else { return };
    let folder = Folder::new();
    // One echoes what it hears, the other is a terminal that socat makes: pseudo terminal to pseudo terminal.
    let host = folder.run(&manifest(", mode = \"raw\", echo = false", LINKED), &[]);
    let other = folder.path().join("other");
    let make = format!("PTY,link={},raw,echo=0", other.display());
    let join = format!("FILE:{},raw,echo=0", tty(&folder).display());
    let joining = Process::start(Command::new(&socat).args([&make, &join]).stdin(Stdio::null()));
    fuchsine_tests::process::eventually("socat makes its terminal", || other.exists());
    let mut terminal = Socat::open(&socat, &other);
    terminal.types(b"there and back\n");
    terminal.expect("there and back\n");
    drop((terminal, joining));
    host.stop();
}

#[test]
fn a_link_in_use_is_refused_and_one_of_a_killed_host_is_replaced() {
    let folder = Folder::new();
    let text = manifest("", LINKED);
    let host = folder.run(&text, &[]);
    let second = run(Command::new(fuchsine()).arg("run").arg(folder.manifest(&text)).env_remove("RUST_LOG"));
    assert!(!second.status.success());
    assert!(second.stderr.contains("tty is the link of another port, which is in use"), "{}", second.stderr);
    let before = fs::read_link(tty(&folder)).unwrap();
    kill(host);
    assert_eq!(fs::read_link(tty(&folder)).unwrap(), before, "nobody was there to remove it");
    let host = folder.run(&text, &[]);
    assert!(fs::read_link(tty(&folder)).unwrap().starts_with("/dev/pts"));
    host.stop();
    assert!(!tty(&folder).is_symlink());
}

fn kill(host: Host) {
    host.signal(Signal::KILL);
    assert!(!host.wait(HANG_LIMIT).status.success());
}
