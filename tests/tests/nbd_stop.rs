//! Goal: a host that is told to stop in the middle of work stops at once and leaves nothing behind: each accepted
//! callback ran or was told `Canceled`.
//! Method: four `qemu-io` clients write without a pause; SIGTERM is sent after each of them had some writes done;
//! the numbers of the summary are added up.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use fuchsine_tests::{
    clients::require_client,
    host::Host,
    process::{HANG_LIMIT, Process, children},
    summary::Summary,
};
use rustix::process::Signal;

/// What the host may take to stop while clients write.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// A `qemu-io` that writes one block after the other until its pipe is closed.
struct Writer {
    process: Process,
    feeder: JoinHandle<()>,
    enough: Arc<AtomicBool>,
}

impl Writer {
    fn start(qemu_io: &Path, uri: &str, place: u32) -> Self {
        let mut process = Process::start(Command::new(qemu_io).args(["-f", "raw", uri]).stdin(Stdio::piped()));
        let mut pipe = process.take_stdin().expect("a pipe was asked for");
        let enough = Arc::new(AtomicBool::new(false));
        let stop = enough.clone();
        let feeder = thread::spawn(move || {
            // A failed write means that the client gave up, which is its right once its server has gone.
            while !stop.load(Ordering::Relaxed)
                && writeln!(pipe, "aio_write -P 0x5a {0}M 1M\naio_write -P 0xa5 {0}M 64k\naio_flush", place * 16)
                    .is_ok()
            {}
        });
        Self { process, feeder, enough }
    }

    /// Waits until the client has reported some writes as done.
    #[track_caller]
    fn has_written(&mut self) {
        let mut done = 0;
        while done < 4 {
            let line = self.process.next_line(HANG_LIMIT).expect("the client goes on writing");
            done += usize::from(line.contains("wrote "));
        }
    }

    /// Ends the client, which may well be busy with reporting errors, since its server has gone.
    fn finish(self) {
        self.enough.store(true, Ordering::Relaxed);
        drop(self.process);
        self.feeder.join().expect("the feeder does not panic");
    }
}

#[test]
fn a_host_stopped_while_four_clients_write_exits_at_once_and_accounts_for_every_callback() {
    let Some(qemu_io) = require_client("qemu-io") else { return };
    let host = Host::on_free_port(&[]);
    let mut writers: Vec<Writer> = (0..4).map(|place| Writer::start(&qemu_io, host.uri(), place)).collect();
    writers.iter_mut().for_each(Writer::has_written);
    assert!(children(host.pid()).is_empty(), "the host starts no process");

    host.signal(Signal::TERM);
    let finished = host.wait(STOP_LIMIT).expect_success();
    writers.into_iter().for_each(Writer::finish);

    assert_eq!(finished.stdout.len(), 1, "only the ready line: {:?}", finished.stdout);
    let summary = Summary::parse(&finished.stderr);
    assert_eq!(summary.names(), ["nbd", "ramdisk"]);
    for driver in summary.drivers() {
        assert_eq!(driver.accepted, driver.ran + driver.canceled + driver.taken_back + driver.pending, "{driver:?}");
        assert_eq!(driver.pending, 0, "nothing is left: {driver:?}");
        assert!(driver.ran > 0, "it worked before: {driver:?}");
    }
    assert!(!finished.stderr.contains("panic"), "{}", finished.stderr);
}

#[test]
fn a_host_stopped_again_and_again_under_load_always_exits_with_zero() {
    let Some(qemu_io) = require_client("qemu-io") else { return };
    for _ in 0..5 {
        let host = Host::on_free_port(&[]);
        let mut writers: Vec<Writer> = (0..2).map(|place| Writer::start(&qemu_io, host.uri(), place)).collect();
        writers.iter_mut().for_each(Writer::has_written);
        host.signal(Signal::INT);
        let finished = host.wait(STOP_LIMIT).expect_success();
        let pending: u64 = Summary::parse(&finished.stderr).drivers().map(|driver| driver.pending).sum();
        assert_eq!(pending, 0);
        writers.into_iter().for_each(Writer::finish);
    }
}
