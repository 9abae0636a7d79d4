//! Goal: clients that we did not write use the block device as they would any other.
//! Method: the command with its embedded default, and qemu's tools against the address of its ready line, over TCP
//! and over a Unix socket.

use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use fuchsine_tests::{
    clients::require_client,
    host::Host,
    nbd::{Address, CMD_READ, Client, EINVAL, Socket},
    process::{Finished, Process, eventually, run},
    random::Random,
};
use tempfile::TempDir;

/// The size of the default device.
const DEVICE: usize = 64 << 20;

/// A host for a test, and a folder for its files. Over TCP, or over a socket file in that folder.
struct Bench {
    host: Host,
    folder: TempDir,
}

impl Bench {
    fn over_tcp() -> Self {
        Self { host: Host::on_free_port(&[]), folder: TempDir::new().expect("a folder") }
    }

    fn over_a_unix_socket() -> Self {
        let folder = TempDir::new().expect("a folder");
        let listen = format!("nbd.listen=unix:{}", folder.path().join("nbd.sock").display());
        Self { host: Host::start(&["--set", &listen]), folder }
    }

    /// Runs a client and expects success.
    #[track_caller]
    fn client<A: AsRef<OsStr>>(&self, program: &Path, arguments: impl IntoIterator<Item = A>) -> Finished {
        run(Command::new(program).args(arguments)).expect_success()
    }

    #[track_caller]
    fn qemu_io(&self, program: &Path, commands: &[&str]) -> Finished {
        qemu_io(program, self.host.uri(), commands)
    }
}

/// Runs `qemu-io` with one `-c` for each of `commands`, and expects that none of them failed.
#[track_caller]
fn qemu_io(program: &Path, uri: &str, commands: &[&str]) -> Finished {
    let options = commands.iter().flat_map(|command| ["-c", command]);
    let finished = run(Command::new(program).args(["-f", "raw"]).args(options).arg(uri)).expect_success();
    let text = finished.stdout.join("\n");
    assert!(!text.contains("failed") && !text.contains("error"), "qemu-io says:\n{text}\n{}", finished.stderr);
    finished
}

#[test]
fn qemu_img_sees_the_device_over_tcp() {
    qemu_img_sees_the_device(Bench::over_tcp);
}

#[test]
fn qemu_img_sees_the_device_over_a_unix_socket() {
    qemu_img_sees_the_device(Bench::over_a_unix_socket);
}

fn qemu_img_sees_the_device(bench: fn() -> Bench) {
    let Some(qemu_img) = require_client("qemu-img") else { return };
    let bench = bench();
    let plain = bench.client(&qemu_img, ["info", bench.host.uri()]).stdout.join("\n");
    assert!(plain.contains("virtual size: 64 MiB (67108864 bytes)"), "{plain}");
    bench.host.stop();
}

#[test]
fn qemu_io_reads_back_what_it_wrote_zeroed_and_discarded_over_tcp() {
    qemu_io_reads_back(Bench::over_tcp);
}

#[test]
fn qemu_io_reads_back_what_it_wrote_zeroed_and_discarded_over_a_unix_socket() {
    qemu_io_reads_back(Bench::over_a_unix_socket);
}

fn qemu_io_reads_back(bench: fn() -> Bench) {
    let Some(qemu_io) = require_client("qemu-io") else { return };
    let bench = bench();
    let finished = bench.qemu_io(
        &qemu_io,
        &[
            "write -P 0xab 0 1M",
            "read -P 0xab 0 1M",
            "write -z 64k 64k",
            "read -P 0 64k 64k",
            // What is around the zeroes stayed as it was.
            "read -P 0xab 0 64k",
            "read -P 0xab 128k 896k",
            "discard 0 1M",
            "flush",
        ],
    );
    let text = finished.stdout.join("\n");
    assert_eq!(text.matches("wrote ").count(), 2, "{text}");
    assert_eq!(text.matches("read ").count(), 4, "{text}");
    assert!(text.contains("discard 1048576/1048576 bytes at offset 0"), "{text}");
    // Without this option qemu-io keeps a discard to itself; a trimmed range of this device reads as zeroes.
    let trimmed = bench.qemu_io(&qemu_io, &["write -P 0xcd 0 1M"]).stdout.join("\n");
    assert!(trimmed.contains("wrote 1048576/1048576"), "{trimmed}");
    bench.client(&qemu_io, ["-f", "raw", "-d", "unmap", "-c", "discard 0 512k", bench.host.uri()]);
    bench.qemu_io(&qemu_io, &["read -P 0 0 512k", "read -P 0xcd 512k 512k"]);
    bench.host.stop();
}

#[test]
fn a_file_converted_into_the_device_and_back_is_the_same_over_tcp() {
    a_converted_file_is_the_same(Bench::over_tcp);
}

#[test]
fn a_file_converted_into_the_device_and_back_is_the_same_over_a_unix_socket() {
    a_converted_file_is_the_same(Bench::over_a_unix_socket);
}

fn a_converted_file_is_the_same(bench: fn() -> Bench) {
    let Some(qemu_img) = require_client("qemu-img") else { return };
    let bench = bench();
    let (there, back) = (bench.folder.path().join("there.raw"), bench.folder.path().join("back.raw"));
    let bytes = Random::from_environment().bytes(48 << 20);
    fs::write(&there, &bytes).expect("the file can be written");

    let raw = ["convert", "-f", "raw", "-O", "raw"].map(OsStr::new);
    let uri = OsStr::new(bench.host.uri());
    // Not created by qemu-img: the target exists and is larger.
    bench.client(&qemu_img, raw.iter().copied().chain([OsStr::new("-n"), there.as_os_str(), uri]));
    bench.client(&qemu_img, raw.iter().copied().chain([uri, back.as_os_str()]));

    let read = fs::read(&back).expect("the file can be read");
    assert_eq!(read.len(), DEVICE);
    let different = read.iter().zip(&bytes).position(|(got, sent)| got != sent);
    assert_eq!(different, None, "the first byte that came back otherwise");
    assert!(read[bytes.len()..].iter().all(|&byte| byte == 0), "what was never written reads as zeroes");
    bench.host.stop();
}

#[test]
fn many_requests_in_flight_on_several_connections_keep_to_their_places() {
    let Some(program) = require_client("qemu-io") else { return };
    let bench = Bench::over_tcp();
    std::thread::scope(|scope| {
        for client in 0..4_u32 {
            let (uri, program) = (bench.host.uri(), &program);
            scope.spawn(move || {
                // Sixteen writes at once, each with a pattern and a place of its own, then all of them read back.
                let place = |index: u32| format!("{}M 1M", client * 16 + index);
                let pattern = |index: u32| 1 + client * 16 + index;
                let mut commands: Vec<String> =
                    (0..16).map(|index| format!("aio_write -q -P {} {}", pattern(index), place(index))).collect();
                commands.push("aio_flush".to_owned());
                commands.extend((0..16).map(|index| format!("aio_read -P {} {}", pattern(index), place(index))));
                commands.push("aio_flush".to_owned());
                let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
                let text = qemu_io(program, uri, &commands).stdout.join("\n");
                assert_eq!(text.matches("read 1048576/1048576 bytes").count(), 16, "{text}");
            });
        }
    });
    bench.host.stop();
}

#[test]
fn qemu_nbd_lists_the_export() {
    let Some(qemu_nbd) = require_client("qemu-nbd") else { return };
    let bench = Bench::over_tcp();
    let address = bench.host.uri().trim_start_matches("nbd://").split('/').next().expect("HOST:PORT");
    let (host, port) = address.split_once(':').expect("HOST:PORT");
    let list = bench.client(&qemu_nbd, ["--list", "-b", host, "-p", port]).stdout.join("\n");
    assert!(list.contains("exports available: 1") && list.contains("'ramdisk'"), "{list}");
    assert!(list.contains("67108864"), "{list}");
    bench.host.stop();
}

#[test]
fn the_raw_client_of_these_tests_speaks_the_protocol_as_another_server_does() {
    let Some(qemu_nbd) = require_client("qemu-nbd") else { return };
    let folder = TempDir::new().expect("a folder");
    let (disk, socket) = (folder.path().join("disk.raw"), folder.path().join("nbd.sock"));
    fs::write(&disk, vec![0; 1 << 20]).expect("the file can be written");
    let mut command = Command::new(qemu_nbd);
    command.args(["-f", "raw", "-x", "ramdisk", "-t", "-k"]).arg(&socket).arg(&disk).stdin(Stdio::null());
    let server = Process::start(&mut command);
    let address = Address { socket: Socket::Unix(socket), export: "ramdisk".to_owned() };
    eventually("qemu-nbd listens", || address.connect().is_ok());

    let mut client = Client::connect(&address).expect("it serves");
    assert_eq!(client.size(), 1 << 20);
    client.write(512, &[7; 512]).expect("a write works");
    assert_eq!(client.read(512, 512).expect("a read works"), [7; 512]);
    assert_eq!(client.command(CMD_READ, 0, 1 << 20, 512, &[]).expect("an answer comes"), EINVAL);
    client.disconnect().expect("the server closes");
    drop(server);
}
