//! Goal: the command touches no memory that is not its own and leaves none behind, nor a thread.
//! Method: memcheck runs the command while real clients write and it is told to stop. A thread that still runs when
//! the process exits shows as a block that is possibly lost, so those count too; what does and is no mistake is listed,
//! with reasons, in `nbd_valgrind.supp`.

use std::{io::Write, process::Command};

use fuchsine_tests::{
    clients::require_client,
    command::fuchsine,
    host::Host,
    nbd::{CMD_WRITE, Client, request},
    process::run,
};

/// What memcheck exits with when it has something to report.
const FOUND: &str = "9";

#[test]
fn memcheck_finds_no_error_no_leak_and_no_thread_in_a_host_that_served_clients() {
    let (Some(valgrind), Some(qemu_io)) = (require_client("valgrind"), require_client("qemu-io")) else { return };
    let mut command = Command::new(valgrind);
    command
        .args(["--quiet", "--fair-sched=yes", "--leak-check=full", "--show-leak-kinds=definite,indirect,possible"])
        .args(["--errors-for-leak-kinds=definite,indirect,possible", &format!("--error-exitcode={FOUND}")])
        .arg(concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/tests/nbd_valgrind.supp"))
        .arg(fuchsine())
        .env("FUCHSINE_CONTROL", "none")
        .env("FUCHSINE_MANIFEST", "none")
        .args(["run", "--set", "nbd.listen=127.0.0.1:0"]);
    let host = Host::start_command(&mut command);
    for pattern in ["0x11", "0x22"] {
        let write = format!("aio_write -P {pattern} 0 1M");
        let read = format!("read -P {pattern} 0 1M");
        let commands = ["-c", &write, "-c", "aio_flush", "-c", &read, "-c", "write -z 0 64k", "-c", "flush"];
        run(Command::new(&qemu_io).args(["-f", "raw"]).args(commands).arg(host.uri())).expect_success();
    }
    // One more client stays connected over the stop, with a request begun and not finished.
    let mut client = Client::connect(&host.address()).expect("the host serves");
    client.stream().write_all(&request(CMD_WRITE, 0, 1, 0, 1 << 20)).expect("the host reads");
    let finished = host.stop();
    assert!(!finished.stderr.contains("lost"), "{}", finished.stderr);
}
