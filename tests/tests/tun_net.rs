//! Goal: the driver is a machine on the network to the programs that everybody has.
//! Method: hosts in network namespaces of their own, so that nothing of this machine's network is touched; `ip` sets up the
//! other end of the interface, `ping` and `socat` talk to it from inside of the namespace.

mod module_support;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{ChildStdin, Command, Stdio},
};

use fuchsine_tests::{
    clients::{require_client, skipped},
    command::fuchsine,
    host::Host,
    process::{Finished, HANG_LIMIT, Process, eventually, run},
    random::Random,
    summary::Summary,
};
use module_support::Folder;
use rustix::process::{Pid, Signal, geteuid};

const LINKED: &str = "[drivers.tun-net]\n";
const ADDRESSES: [&str; 2] = ["10.77.0.2", "fd77::2"];

/// Whether this machine lets a test have a network of its own; says loudly if not.
#[track_caller]
fn can_have_a_network() -> bool {
    if !["unshare", "nsenter", "ip", "ping", "socat"].iter().all(|name| require_client(name).is_some()) {
        return false;
    }
    if !Path::new("/dev/net/tun").exists() {
        skipped("there is no /dev/net/tun here");
        return false;
    }
    let tried = run(unshare().args(["ip", "tuntap", "add", "dev", "fuchsine-try", "mode", "tun"]));
    if !tried.status.success() {
        skipped(&format!("no network namespace with a TUN interface can be had here: {}", tried.stderr.trim()));
    }
    tried.status.success()
}

/// Whatever follows runs in a namespace of its own, under the same process id.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(if geteuid().is_root() { &["-n", "--"][..] } else { &["-U", "-r", "-n", "--"] });
    command
}

/// Whatever follows runs in the namespace of a host.
fn inside(pid: Pid) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["-t", &pid.to_string(), "-n"]);
    if !geteuid().is_root() {
        command.args(["-U", "--preserve-credentials"]);
    }
    command.arg("--");
    command
}

fn does_ipv6() -> bool {
    let does = Path::new("/proc/net/if_inet6").exists();
    if !does {
        skipped("this kernel does no IPv6");
    }
    does
}

/// A host with the driver on an interface whose other end is up.
struct Net {
    host: Host,
    _folder: Folder,
}

impl Net {
    #[track_caller]
    fn start(folder: Folder, manifest: &str) -> Self {
        let manifest = folder.manifest(manifest);
        let mut command = unshare();
        let host = Host::start_command(command.arg(fuchsine()).arg("run").arg(manifest).env_remove("RUST_LOG"));
        let net = Self { host, _folder: folder };
        net.set_up();
        net
    }

    #[track_caller]
    fn set_up(&self) {
        self.run("ip addr add 10.77.0.1/24 dev fuchsine0").expect_success();
        if Path::new("/proc/net/if_inet6").exists() {
            self.run("ip addr add fd77::1/64 dev fuchsine0 nodad").expect_success();
        }
        self.run("ip link set fuchsine0 up").expect_success();
    }

    fn command(&self, line: &str) -> Command {
        let mut command = inside(self.host.pid());
        command.args(line.split_whitespace());
        command
    }

    fn run(&self, line: &str) -> Finished {
        run(&mut self.command(line))
    }

    #[track_caller]
    fn echo(&self, address: &str, bytes: &[u8]) -> Vec<u8> {
        echo(self.host.pid(), address, bytes)
    }
}

/// Sends all of it, from inside of the namespace of a host, and returns what comes back until the end.
#[track_caller]
fn echo(pid: Pid, address: &str, bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::TempDir::new().expect("a folder");
    let back = folder.path().join("back");
    let mut command = inside(pid);
    command.args(["socat", "-t", "30", "-T", "30", "STDIO", &target(address)]).stdin(Stdio::piped());
    command.stdout(fs::File::create(&back).expect("a file")).stderr(Stdio::inherit());
    let mut client = command.spawn().expect("it was found");
    let mut input = client.stdin.take().expect("it is piped");
    let sent = input.write_all(bytes);
    drop(input);
    assert!(client.wait().expect("it ends").success(), "{address}: {sent:?}");
    fs::read(back).expect("its output")
}

fn target(address: &str) -> String {
    if address.contains(':') { format!("TCP6:[{address}]:7") } else { format!("TCP4:{address}:7") }
}

#[test]
fn it_answers_pings_and_echoes_linked_and_loaded() {
    if !can_have_a_network() {
        return;
    }
    let addresses = if does_ipv6() { &ADDRESSES[..] } else { &ADDRESSES[..1] };
    for manifest in [LINKED, "[drivers.tun-net]\nmodule = \"libtun-net.so\"\n"] {
        let folder = Folder::new();
        folder.module("tun-net");
        let net = Net::start(folder, manifest);
        assert_eq!(net.host.addresses(), ["tcp://10.77.0.2:7", "tcp://[fd77::2]:7"]);
        for address in addresses {
            // A small one, and one that fills the longest packet.
            let family = if address.contains(':') { "-6" } else { "-4" };
            for size in ["56", "1400"] {
                let ping = net.run(&format!("ping {family} -n -c 3 -i 0.2 -W 20 -s {size} {address}")).expect_success();
                let text = ping.stdout.join("\n");
                assert!(text.contains("3 received") && text.contains(" 0% packet loss"), "{text}");
            }
            let bytes = Random::from_environment().bytes(300 << 10);
            assert!(net.echo(address, &bytes) == bytes, "{address}");
        }
        let summary = Summary::parse(&net.host.stop().stderr);
        for driver in summary.drivers() {
            assert_eq!(driver.pending, 0, "{driver:?}");
            assert_eq!(driver.accepted, driver.ran + driver.canceled + driver.taken_back, "{driver:?}");
        }
    }
}

#[test]
fn several_clients_at_once_get_their_own_bytes_and_one_too_many_is_refused() {
    if !can_have_a_network() {
        return;
    }
    let net = Net::start(Folder::new(), "[drivers.tun-net]\nconfig = { connections = 4 }\n");
    std::thread::scope(|scope| {
        for client in 0..4u8 {
            let pid = net.host.pid();
            scope.spawn(move || {
                let bytes = vec![client; 100 << 10];
                assert!(echo(pid, ADDRESSES[0], &bytes) == bytes, "client {client}");
            });
        }
    });
    let idle: Vec<(Process, ChildStdin)> = (0..4).map(|_| connect(&net)).collect();
    let refused = net.run(&format!("socat -u OPEN:/dev/null {}", target(ADDRESSES[0])));
    assert!(refused.stderr.contains("refused"), "{refused:?}");
    drop(idle);
    // The places of those who were killed are free.
    assert_eq!(net.echo(ADDRESSES[0], b"again"), b"again");
    net.host.stop();
}

/// A client whose connection is there, and stays.
#[track_caller]
fn connect(net: &Net) -> (Process, ChildStdin) {
    let mut command = net.command("socat -d -d STDIO");
    let mut client = Process::start(command.arg(target(ADDRESSES[0])).stdin(Stdio::piped()));
    let mut input = client.take_stdin().expect("it is piped");
    input.write_all(b"hello\n").expect("it reads");
    assert_eq!(client.next_line(HANG_LIMIT).as_deref(), Some("hello"));
    // Its end would be that of the connection.
    (client, input)
}

#[test]
fn a_stop_resets_the_connections_and_takes_the_interface_away() {
    if !can_have_a_network() {
        return;
    }
    let net = Net::start(Folder::new(), LINKED);
    let (client, _input) = connect(&net);
    // Somebody who keeps the namespace, to look at what is left.
    let witness = Process::start(net.command("sleep 600").stdin(Stdio::null()));
    net.host.stop();
    let told = client.wait(HANG_LIMIT);
    assert!(told.stderr.contains("reset by peer"), "{told:?}");
    let links = run(inside(witness.pid()).args(["ip", "-o", "link"])).expect_success().stdout.join("\n");
    assert!(links.contains("lo:") && !links.contains("fuchsine0"), "{links}");
    witness.signal(Signal::TERM);
}

#[test]
fn an_interface_that_goes_away_is_told_and_a_restart_makes_it_anew() {
    if !can_have_a_network() {
        return;
    }
    let manifest = "[drivers.tun-net]\nrestart = \"on-failure\"\nbackoff = { initial = \"10ms\" }\n";
    let net = Net::start(Folder::new(), manifest);
    assert_eq!(net.echo(ADDRESSES[0], b"one"), b"one");
    net.run("ip link del fuchsine0").expect_success();
    eventually("it is there again", || net.run("ip link show fuchsine0").status.success());
    net.set_up();
    assert_eq!(net.echo(ADDRESSES[0], b"two"), b"two");
    let log = net.host.stop().stderr;
    assert!(log.contains("the interface fuchsine0 is gone"), "{log}");
}

#[test]
fn an_interface_that_is_held_or_is_of_another_kind_is_refused_with_what_to_do() {
    if !can_have_a_network() {
        return;
    }
    let net = Net::start(Folder::new(), LINKED);
    let second = |settings: &[&str]| {
        let folder = Folder::new();
        let mut command = inside(net.host.pid());
        command.arg(fuchsine()).arg("run").arg(folder.manifest(LINKED)).args(settings).env_remove("RUST_LOG");
        let finished = run(&mut command);
        assert!(!finished.status.success());
        finished.stderr
    };
    let held = second(&[]);
    assert!(held.contains("the interface `fuchsine0` is held by somebody else"), "{held}");
    let other = second(&["--set", "tun-net.interface=lo"]);
    assert!(other.contains("`lo` is there and is no TUN interface"), "{other}");
    assert_eq!(net.echo(ADDRESSES[0], b"still there"), b"still there");
    net.host.stop();
}
