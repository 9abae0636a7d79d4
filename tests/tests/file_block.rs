//! Goal: a block device on a file keeps what it has promised, also when its host is killed, and is the same driver linked and
//! loaded.
//! Method: `file-block` under `nbd` in hosts of their own, qemu's tools and a raw client; SIGKILL at moments that mean
//! something and at others; the file is read when the host is gone. strace says what reaches the medium.

mod module_support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use fuchsine_tests::{
    clients::require_client,
    command::fuchsine,
    host::Host,
    nbd::{CMD_FLUSH, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES, Client, FLAG_FUA},
    process::{HANG_LIMIT, Process, eventually, run},
    random::Random,
    summary::Summary,
};
use module_support::{Folder, converse};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;

/// A manifest with a device on `disk.img` beside it, with further keys, and where the driver is from.
fn manifest(config: &str, origin: &str) -> String {
    format!(
        "[drivers.file-block]\n{origin}\nconfig = {{ path = \"disk.img\"{config} }}\n\
         [drivers.nbd]\nbind = {{ protocol = \"block\" }}\nconfig = {{ listen = \"127.0.0.1:0\" }}\n"
    )
}

fn disk(folder: &Folder) -> PathBuf {
    folder.path().join("disk.img")
}

#[test]
fn it_has_the_same_conversation_linked_and_loaded() {
    let folder = Folder::new();
    folder.module("file-block");
    for origin in ["", "module = \"libfile-block.so\""] {
        let host = folder.run(&manifest(", size = \"1MiB\"", origin), &[]);
        converse(&host, MIB);
        let summary = Summary::parse(&host.stop().stderr);
        assert_eq!(summary.names(), ["file-block", "nbd"]);
        for driver in summary.drivers() {
            assert_eq!(driver.pending, 0, "{driver:?}");
            assert_eq!(driver.accepted, driver.ran + driver.canceled + driver.taken_back, "{driver:?}");
        }
        assert_eq!(fs::metadata(disk(&folder)).unwrap().len(), MIB);
        fs::remove_file(disk(&folder)).unwrap();
    }
}

#[test]
fn qemu_io_reads_back_what_it_wrote_zeroed_and_discarded_and_finds_it_in_the_next_host() {
    let Some(qemu_io) = require_client("qemu-io") else { return };
    let folder = Folder::new();
    let talk = |host: &Host, commands: &[&str]| {
        let options = commands.iter().flat_map(|command| ["-c", command]);
        let finished = run(Command::new(&qemu_io).args(["-f", "raw", "-d", "unmap"]).args(options).arg(host.uri()))
            .expect_success();
        let text = finished.stdout.join("\n");
        assert!(!text.contains("failed") && !text.contains("error"), "qemu-io says:\n{text}");
    };
    let host = folder.run(&manifest(", size = \"16MiB\"", ""), &[]);
    talk(
        &host,
        &[
            "write -P 0xab 0 4M",
            "write -z 64k 64k",
            "write -zu 128k 64k",
            "read -P 0 64k 128k",
            "read -P 0xab 0 64k",
            "read -P 0xab 192k 3904k",
            "discard 1M 1M",
            "read -P 0 1M 1M",
            "write -f -P 0xcd 8M 1M",
            "flush",
        ],
    );
    host.stop();
    let again = folder.run(&manifest("", ""), &[]);
    talk(&again, &["read -P 0xab 0 64k", "read -P 0 64k 128k", "read -P 0 1M 1M", "read -P 0xcd 8M 1M"]);
    again.stop();
    let read_only = folder.run(&manifest(", read_only = true", ""), &[]);
    let write = run(Command::new(&qemu_io).args(["-f", "raw", "-c", "write 0 512"]).arg(read_only.uri()));
    assert!(!write.status.success(), "{write:?}");
    let read = run(Command::new(&qemu_io).args(["-r", "-f", "raw", "-c", "read -P 0xab 0 64k"]).arg(read_only.uri()));
    assert!(!read.expect_success().stdout.join("\n").contains("failed"));
    read_only.stop();
}

#[test]
fn qemu_img_finds_a_copied_file_to_be_the_same() {
    let Some(qemu_img) = require_client("qemu-img") else { return };
    let folder = Folder::new();
    let source = folder.put("source.raw", &Random::from_environment().bytes(4 << 20));
    let host = folder.run(&manifest(", size = \"4MiB\"", ""), &[]);
    let qemu_img = |arguments: &[&str]| run(Command::new(&qemu_img).args(arguments)).expect_success();
    let text = qemu_img(&["info", host.uri()]).stdout.join("\n");
    assert!(text.contains("virtual size: 4 MiB"), "{text}");
    let source = source.to_str().expect("a path of ours");
    qemu_img(&["convert", "-n", "-f", "raw", "-O", "raw", source, host.uri()]);
    qemu_img(&["compare", "-f", "raw", "-F", "raw", source, host.uri()]);
    host.stop();
    assert!(fs::read(source).unwrap() == fs::read(disk(&folder)).unwrap());
}

#[test]
fn what_was_flushed_is_in_the_file_when_the_host_is_killed_and_the_next_host_has_it_at_once() {
    let folder = Folder::new();
    let text = manifest(", size = \"1MiB\"", "");
    for round in 1..=3u8 {
        let host = folder.run(&text, &[]);
        let mut client = Client::connect(&host.address()).expect("the server answers");
        if round > 1 {
            assert_eq!(client.read(0, 4096).unwrap(), [round - 1; 4096], "of the host before");
        }
        client.write(0, &[round; 8192]).unwrap();
        client.write(512 << 10, &[round; 512]).unwrap();
        assert_eq!(client.command(CMD_TRIM, 0, 4096, 4096, &[]).unwrap(), 0);
        assert_eq!(client.command(CMD_WRITE_ZEROES, 0, 512 << 10, 512, &[]).unwrap(), 0);
        assert_eq!(client.command(CMD_FLUSH, 0, 0, 0, &[]).unwrap(), 0);
        assert_eq!(client.command(CMD_WRITE, FLAG_FUA, 256 << 10, 512, &[round; 512]).unwrap(), 0);
        kill(host);
        let bytes = fs::read(disk(&folder)).unwrap();
        assert_eq!(bytes.len() as u64, MIB);
        assert!(bytes[..4096] == [round; 4096] && bytes[256 << 10..][..512] == [round; 512]);
        assert!(bytes[4096..8192] == [0; 4096] && bytes[512 << 10..][..512] == [0; 512]);
    }
}

fn kill(host: Host) {
    host.signal(Signal::KILL);
    assert!(!host.wait(HANG_LIMIT).status.success());
}

#[test]
fn a_host_that_is_killed_while_it_writes_has_of_each_block_what_was_flushed_or_something_newer() {
    const BLOCKS: u64 = 64;
    let folder = Folder::new();
    let text = manifest(", size = \"1MiB\"", "");
    let mut random = Random::from_environment();
    // The last value of each block that a flush covered.
    let mut kept = [0u32; BLOCKS as usize];
    let mut value = 0;
    for _ in 0..4 {
        let host = folder.run(&text, &[]);
        let mut client = Client::connect(&host.address()).expect("the server answers");
        let flushes = 5 + random.below(20);
        let pid = host.pid();
        let mut sent = kept;
        let mut done = 0;
        loop {
            // From now on the end may come at any moment.
            if done == flushes {
                thread::scope(|scope| {
                    scope.spawn(move || rustix::process::kill_process(pid, Signal::KILL));
                });
            }
            let mut written = kept;
            for _ in 0..8 {
                let block = random.below(BLOCKS as usize);
                value += 1;
                sent[block] = value;
                let bytes: Vec<u8> = std::iter::repeat_n(value.to_le_bytes(), 1024).flatten().collect();
                match client.command(CMD_WRITE, 0, block as u64 * 4096, 4096, &bytes) {
                    Ok(0) => written[block] = value,
                    Ok(error) => panic!("a write failed with {error}"),
                    Err(_) => break,
                }
            }
            match client.command(CMD_FLUSH, 0, 0, 0, &[]) {
                Ok(0) => kept = written,
                Ok(error) => panic!("a flush failed with {error}"),
                Err(_) => break,
            }
            done += 1;
        }
        assert!(!host.wait(HANG_LIMIT).status.success());
        let bytes = fs::read(disk(&folder)).unwrap();
        for block in 0..BLOCKS as usize {
            let found = u32::from_le_bytes(bytes[block * 4096..][..4].try_into().unwrap());
            assert!((kept[block]..=sent[block]).contains(&found), "block {block}: {found}, {}", kept[block]);
            kept[block] = found;
        }
    }
}

#[test]
fn a_flush_and_a_write_with_fua_force_the_file_to_its_medium_before_they_are_answered_and_a_write_does_not() {
    let Some(strace) = require_client("strace") else { return };
    let folder = Folder::new();
    let (text, trace) = (folder.manifest(&manifest(", size = \"1MiB\"", "")), folder.path().join("trace"));
    let mut command = Command::new(strace);
    // The tracer runs beside the host, which so keeps the process id that was started.
    command.args(["-D", "-f", "-e", "trace=pwrite64,fdatasync", "-o"]).arg(&trace).arg(fuchsine()).arg("run").arg(text);
    let host = Host::start_command(command.env_remove("RUST_LOG"));
    let calls = || {
        let text = fs::read_to_string(&trace).expect("strace writes it");
        // A call is written in two halves when another thread comes in between.
        text.lines().filter(|line| line.contains("fdatasync") && line.contains("= 0")).count()
    };
    let mut client = Client::connect(&host.address()).expect("the server answers");
    client.write(0, &[1; 4096]).unwrap();
    client.write(4096, &[2; 4096]).unwrap();
    assert_eq!(calls(), 0);
    assert_eq!(client.command(CMD_FLUSH, 0, 0, 0, &[]).unwrap(), 0);
    assert_eq!(calls(), 1, "it was done when the flush was answered");
    assert_eq!(client.command(CMD_WRITE, FLAG_FUA, 0, 512, &[3; 512]).unwrap(), 0);
    assert_eq!(calls(), 2);
    assert_eq!(client.command(CMD_TRIM, FLAG_FUA, 0, 512, &[]).unwrap(), 0);
    assert_eq!(calls(), 3);
    client.write(8192, &[4; 512]).unwrap();
    drop(client);
    host.stop();
    eventually("the stop flushes too", || calls() == 4);
}

#[test]
fn a_second_host_on_the_file_says_who_has_it_and_does_not_start() {
    let folder = Folder::new();
    let text = manifest(", size = \"1MiB\"", "");
    let host = folder.run(&text, &[]);
    let second = start(&folder.manifest(&text)).wait(HANG_LIMIT);
    assert_ne!(second.status.code(), Some(0));
    let told = second.stderr.lines().find(|line| line.contains("in use by")).unwrap_or_else(|| panic!("{second:?}"));
    assert!(told.contains("disk.img is in use by process ") && told.contains("file-block"), "{told}");
    assert!(told.contains(&format!("process {}", host.pid())), "{told}");
    converse(&host, MIB);
    host.stop();
    folder.run(&text, &[]).stop();
}

fn start(manifest: &Path) -> Process {
    Process::start(Command::new(fuchsine()).env_remove("RUST_LOG").arg("run").arg(manifest).stdin(Stdio::null()))
}

#[test]
fn a_file_that_does_not_fit_is_refused_with_what_to_do_and_left_as_it_is() {
    let folder = Folder::new();
    let told = |config: &str| {
        let finished = start(&folder.manifest(&manifest(config, ""))).wait(HANG_LIMIT);
        assert_ne!(finished.status.code(), Some(0));
        finished.stderr
    };
    assert!(told("").contains("disk.img: set `size` to have it made"), "{}", told(""));
    fs::write(disk(&folder), vec![7; 2 << 20]).unwrap();
    let longer = told(", size = \"1MiB\"");
    assert!(longer.contains("2097152 bytes, more than the 1048576 of `size`"), "{longer}");
    assert!(fs::read(disk(&folder)).unwrap() == vec![7; 2 << 20]);
}
