//! Goal: the driver as its clients see it, from its start to its stop at any moment: each request is answered once, and
//! what a flush has promised is in the file.
//! Method: the harness, with a fake child that speaks the block protocol; on a foreground runtime and on threads.

use std::fs;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};

use fuchsine_driver::block::{BlockInfo, Flags, HEADER_LEN, Op, ReplyHeader, RequestHeader};
use fuchsine_driver::{DriverEntry, Status};
use fuchsine_testing::{
    ForegroundRuntime, Harness, HarnessBuilder, Peer, Place, Problem, Target, shutdown_at_every_step,
};
use rustix::fs::Advice;
use rustix::io::ReadWriteFlags;
use tempfile::TempDir;

static DRIVER: DriverEntry = fuchsine_file_block::DRIVER;

struct Disk {
    _folder: TempDir,
    path: PathBuf,
}

impl Disk {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        Self { path: folder.path().join("disk.img"), _folder: folder }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the file is there")
    }
}

fn driver(path: &Path, more: &str) -> HarnessBuilder {
    let config = format!("path = {:?}\n{more}", path.display().to_string());
    Harness::builder(&DRIVER).config(config).children([("protocol", "block")])
}

fn in_each_place(test: impl Fn(Place<'_>)) {
    test(Place::Foreground(&ForegroundRuntime::new()));
    test(Place::Threads);
}

/// Sends a request; false when the driver takes none any more.
fn ask(peer: &Peer<'_>, id: u64, op: Op, flags: Flags, offset: u64, length: u32, data: &[u8]) -> bool {
    let header = RequestHeader { id, op, flags, offset, length }.encode();
    peer.send(&[&header, data].concat())
}

/// The next answer.
fn answer(peer: &Peer<'_>) -> Option<(u64, Result<(), Status>, Vec<u8>)> {
    let bytes = peer.receive_bytes()?;
    let header = ReplyHeader::decode(&bytes).expect("an answer");
    Some((header.id, header.status, bytes[HEADER_LEN..].to_vec()))
}

/// A request and its answer, with nothing else under way.
#[track_caller]
fn done(peer: &Peer<'_>, op: Op, flags: Flags, offset: u64, length: u32, data: &[u8]) -> Result<Vec<u8>, Status> {
    assert!(ask(peer, 1, op, flags, offset, length, data));
    let (id, status, bytes) = answer(peer).expect("an answer");
    assert_eq!(id, 1);
    status.map(|()| bytes)
}

#[test]
fn what_is_written_is_read_back_and_is_in_the_file() {
    in_each_place(|place| {
        let disk = Disk::new();
        let harness = driver(&disk.path, "size = \"1MiB\"").start(place).unwrap();
        assert_eq!(harness.node_names(), ["disk"]);
        let client = harness.connect_child("disk", "block").unwrap();
        let info = BlockInfo::decode(&done(&client, Op::Info, Flags::NONE, 0, 0, &[]).unwrap()).unwrap();
        assert_eq!((info.size, info.block_size), (1 << 20, 512));
        assert!(info.durable && info.trims && !info.read_only, "{info:?}");
        done(&client, Op::Write, Flags::NONE, 512, 1024, &[7; 1024]).unwrap();
        done(&client, Op::Write, Flags::FUA, 4096, 512, &[8; 512]).unwrap();
        done(&client, Op::WriteZeroes, Flags::NO_HOLE, 1024, 512, &[]).unwrap();
        done(&client, Op::Flush, Flags::NONE, 0, 0, &[]).unwrap();
        let read = done(&client, Op::Read, Flags::NONE, 0, 2048, &[]).unwrap();
        assert_eq!(read, [[0; 512], [7; 512], [0; 512], [0; 512]].concat());
        done(&client, Op::Trim, Flags::NONE, 4096, 4096, &[]).unwrap();
        assert_eq!(done(&client, Op::Read, Flags::NONE, 1 << 20, 512, &[]), Err(Status::OutOfRange));
        assert_eq!(done(&client, Op::Write, Flags::NONE, 100, 512, &[0; 512]), Err(Status::InvalidArgs));
        drop(client);
        harness.stop().unwrap();
        let bytes = disk.bytes();
        assert_eq!((bytes.len(), &bytes[512..1024]), (1 << 20, &[7; 512][..]));
    });
}

/// How many callbacks the dispatcher of the requests was given: one a request, and one more where a worker is asked.
fn callbacks(harness: &Harness<'_>) -> u64 {
    let dump = harness.dump();
    let mut dispatchers = dump.drivers.iter().flat_map(|driver| &driver.dispatchers);
    dispatchers.find(|dispatcher| dispatcher.name.contains("file i/o")).expect("it has one").counters.accepted
}

/// Whether the file system reads what is in memory without waiting; all that Linux has of its own do.
fn reads_at_once(disk: &Disk) -> bool {
    let file = fs::File::open(&disk.path).unwrap();
    let mut bytes = [0; 512];
    rustix::io::preadv2(&file, &mut [IoSliceMut::new(&mut bytes)], 0, ReadWriteFlags::NOWAIT) == Ok(512)
}

#[test]
fn what_is_short_and_goes_to_memory_asks_no_worker_and_what_must_reach_the_medium_does() {
    let runtime = ForegroundRuntime::new();
    let disk = Disk::new();
    let harness = driver(&disk.path, "size = \"1MiB\"").start(&runtime).unwrap();
    let client = harness.connect_child("disk", "block").unwrap();
    let workers = |op, flags, offset, length: u32, data: &[u8]| {
        let before = callbacks(&harness);
        done(&client, op, flags, offset, length, data).unwrap();
        callbacks(&harness) - before - 1
    };
    // The connection is made when things happen for the first time.
    done(&client, Op::Info, Flags::NONE, 0, 0, &[]).unwrap();
    let bytes = vec![7; 128 << 10];
    assert_eq!(workers(Op::Write, Flags::NONE, 4096, 8192, &bytes[..8192]), 0);
    if reads_at_once(&disk) {
        assert_eq!(workers(Op::Read, Flags::NONE, 4096, 512, &[]), 0);
    }
    assert_eq!(done(&client, Op::Read, Flags::NONE, 3584, 9216, &[]).unwrap()[512..8704], bytes[..8192]);
    assert_eq!(workers(Op::Write, Flags::NONE, 512, 512, &bytes[..512]), 1, "the rest of the page may have to be read");
    assert_eq!(workers(Op::Write, Flags::FUA, 4096, 4096, &bytes[..4096]), 1);
    assert_eq!(workers(Op::Write, Flags::NONE, 0, 128 << 10, &bytes), 1, "it is long");
    assert_eq!(workers(Op::Read, Flags::NONE, 0, 128 << 10, &[]), 1);
    assert_eq!(workers(Op::Flush, Flags::NONE, 0, 0, &[]), 1);
    assert_eq!(workers(Op::Write, Flags::NONE, 4096, 4096, &bytes[..4096]), 0, "the flush is over");
    drop(client);
    harness.stop().unwrap();
}

#[test]
fn what_is_partly_in_memory_is_read_whole() {
    in_each_place(|place| {
        let disk = Disk::new();
        fs::write(&disk.path, [7; 64 << 10]).unwrap();
        let file = fs::File::open(&disk.path).unwrap();
        file.sync_all().unwrap();
        let harness = driver(&disk.path, "").start(place).unwrap();
        let client = harness.connect_child("disk", "block").unwrap();
        // What is clean leaves memory, on a file system that is not memory itself; then one page of it comes back.
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        done(&client, Op::Write, Flags::NONE, 4096, 4096, &[8; 4096]).unwrap();
        let read = done(&client, Op::Read, Flags::NONE, 4096, 32 << 10, &[]).unwrap();
        assert!(read[..4096] == [8; 4096] && read[4096..] == [7; 28 << 10]);
        drop(client);
        harness.stop().unwrap();
    });
}

#[test]
fn a_file_that_must_not_change_does_not() {
    in_each_place(|place| {
        let disk = Disk::new();
        fs::write(&disk.path, [7; 4096]).unwrap();
        let harness = driver(&disk.path, "read_only = true\nblock_size = 4096").start(place).unwrap();
        let client = harness.connect_child("disk", "block").unwrap();
        let info = BlockInfo::decode(&done(&client, Op::Info, Flags::NONE, 0, 0, &[]).unwrap()).unwrap();
        assert!(info.read_only && info.block_size == 4096, "{info:?}");
        for op in [Op::Write, Op::Trim, Op::WriteZeroes] {
            assert_eq!(done(&client, op, Flags::NONE, 0, 4096, &[1; 4096]), Err(Status::AccessDenied), "{op:?}");
        }
        done(&client, Op::Flush, Flags::NONE, 0, 0, &[]).unwrap();
        assert_eq!(done(&client, Op::Read, Flags::NONE, 0, 4096, &[]).unwrap(), [7; 4096]);
        drop(client);
        harness.stop().unwrap();
        assert_eq!(disk.bytes(), [7; 4096]);
    });
}

#[test]
fn a_file_has_one_device_until_its_driver_has_stopped() {
    in_each_place(|place| {
        let disk = Disk::new();
        let first = driver(&disk.path, "size = 4096").start(place).unwrap();
        let other = ForegroundRuntime::new();
        let error = driver(&disk.path, "size = 4096").start(&other).map(|_| ()).expect_err("it is in use");
        let Problem::NotStarted { reason, .. } = error else { panic!("{error}") };
        assert!(reason.contains("disk.img is in use by"), "{reason}");
        first.stop().unwrap();
        driver(&disk.path, "").start(&other).unwrap().stop().unwrap();
    });
}

#[test]
fn a_request_that_the_system_fails_is_told_to_its_client_and_to_the_log_and_the_others_go_on() {
    in_each_place(|place| {
        let disk = Disk::new();
        let harness = driver(&disk.path, "size = 8192").start(place).unwrap();
        let client = harness.connect_child("disk", "block").unwrap();
        fs::OpenOptions::new().write(true).open(&disk.path).and_then(|file| file.set_len(4096)).unwrap();
        for _ in 0..3 {
            assert_eq!(done(&client, Op::Read, Flags::NONE, 4096, 512, &[]), Err(Status::Io));
        }
        done(&client, Op::Read, Flags::NONE, 0, 512, &[]).unwrap();
        drop(client);
        let told: Vec<String> = harness.lines().into_iter().filter(|line| line.starts_with("ERROR")).collect();
        assert_eq!(told.len(), 2, "the first and the second of three: {told:?}");
        assert!(told[0].contains("cut the file off") && told[0].contains("offset=4096"), "{told:?}");
        harness.stop().unwrap();
    });
}

/// A client that writes, flushes, and writes on; and what it relies on whatever comes in between.
fn a_client_at_work(runtime: &ForegroundRuntime) {
    let disk = Disk::new();
    let Ok(harness) = driver(&disk.path, "size = 8192").start(runtime) else {
        assert!(runtime.was_injected());
        return;
    };
    runtime.on_injection(harness.stopper());
    if let Ok(client) = harness.connect_child("disk", "block") {
        let mut asked = 0;
        for round in 1..=3u8 {
            let at = u64::from(round) * 1024;
            asked += usize::from(ask(&client, u64::from(round) * 10, Op::Write, Flags::NONE, at, 1024, &[round; 1024]));
            // The answer to the write comes first, so the flush covers it.
            let written = answer(&client);
            asked += usize::from(ask(&client, u64::from(round) * 10 + 1, Op::Flush, Flags::NONE, 0, 0, &[]));
            let flushed = answer(&client);
            if matches!(written, Some((_, Ok(()), _))) && matches!(flushed, Some((_, Ok(()), _))) {
                let bytes = disk.bytes();
                assert!(bytes[at as usize..][..1024].iter().all(|&byte| byte == round), "round {round}");
            }
            asked -= usize::from(written.is_some()) + usize::from(flushed.is_some());
        }
        // Many at once, answered in any order.
        for id in 100..108 {
            asked += usize::from(ask(&client, id, Op::Read, Flags::NONE, (id - 100) * 512, 512, &[]));
        }
        let answered = std::iter::from_fn(|| answer(&client)).count();
        assert!(answered == asked || runtime.was_injected() && answered <= asked, "{answered} of {asked}");
    }
    let stopped = harness.stop();
    assert!(stopped.is_ok() || runtime.was_injected(), "{stopped:?}");
}

#[test]
fn a_stop_at_any_step_keeps_what_was_flushed() {
    let injected = shutdown_at_every_step(a_client_at_work, Target::custom("the stop of the host"));
    assert!(injected.injections > 50, "{injected:?}");
}

#[test]
fn an_end_of_the_driver_at_any_step_keeps_what_was_flushed() {
    shutdown_at_every_step(a_client_at_work, Target::driver("file-block"));
}
