//! Goal: a real file system, and a tool that verifies what it reads, on our devices.
//! Method: `file-block` (and `mirror` over two of them) under `nbd`. `nbdfuse` makes the served device a file, a loop device
//! makes that a disk, and ext4 goes onto it, all in a mount namespace that ends with the test. `fio` talks NBD by itself.
//!
//! `FUCHSINE_FIO_SECONDS` says how long it does so, 5 unless given.

mod module_support;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use fuchsine_tests::{
    clients::{require_client, skipped},
    host::Host,
    process::{Finished, HANG_LIMIT, Process, eventually, run},
    source,
};
use module_support::Folder;
use rustix::process::Signal;

const FILE: &str = "[drivers.disk]\ndriver = \"file-block\"\nconfig = { path = \"disk.img\", size = \"64MiB\" }\n\
                    [drivers.nbd]\nbind = { protocol = \"block\" }\nconfig = { listen = \"127.0.0.1:0\" }\n";

const MIRROR: &str = "[drivers.one]\ndriver = \"file-block\"\nconfig = { path = \"one.img\", size = \"64MiB\" }\n\
                      [drivers.two]\ndriver = \"file-block\"\nconfig = { path = \"two.img\", size = \"64MiB\" }\n\
                      [drivers.mirror]\n\
                      parents.left = { bind = { protocol = \"block\", parent = \"one\" }, optional = true }\n\
                      parents.right = { bind = { protocol = \"block\", parent = \"two\" }, optional = true }\n\
                      [drivers.nbd]\nbind = { protocol = \"block\", parent = \"mirror\" }\n\
                      config = { listen = \"127.0.0.1:0\" }\n";

/// Makes a file system on the device at `$URI`, copies `$TREE` there, and checks it, in `$FOLDER`. Ends with the namespace.
const ON_THE_DEVICE: &str = r#"
set -eu
cd "$FOLDER"
mkdir device root
nbdfuse --pidfile pid device/disk "$URI" &
fuse=$!
while ! [ -s pid ]; do kill -0 $fuse; sleep 0.1; done
mkfs.ext4 -q -F device/disk
mount -o loop device/disk root
cp -r "$TREE" root/tree
umount root
e2fsck -fn device/disk
mount -o loop,ro device/disk root
diff -r "$TREE" root/tree
umount root
umount device
wait $fuse
"#;

/// What the scripts need of the machine: to mount, a loop device that is free, and to open the device of `fuse`.
const TRY: &str = "set -e; mount -t tmpfs none /tmp; losetup -f >/tmp/free; exec 3<>/dev/fuse";

/// Checks the file system on `$IMAGE` itself, and what is on it.
const ON_THE_FILE: &str = r#"
set -eu
cd "$FOLDER"
e2fsck -fn "$IMAGE"
mount -o loop,ro "$IMAGE" root
diff -r "$TREE" root/tree
umount root
"#;

/// Whether this machine lets a test mount something; says loudly if not.
#[track_caller]
fn can_mount() -> bool {
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(device).exists() {
            skipped(&format!("there is no {device} here"));
            return false;
        }
    }
    if !["unshare", "losetup", "nbdfuse", "mkfs.ext4", "e2fsck"].iter().all(|name| require_client(name).is_some()) {
        return false;
    }
    let tried = run(Command::new("unshare").args(["-m", "--propagation", "private", "--", "sh", "-c", TRY]));
    if !tried.status.success() {
        skipped(&format!("nothing can be mounted here, which takes root: {}", tried.stderr.trim()));
    }
    tried.status.success()
}

fn tree() -> PathBuf {
    source::root().join("docs")
}

/// Runs a script whose mounts nobody else sees, and which end with it.
fn script(folder: &Folder, text: &str, name: &str, value: &str) -> Finished {
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "--", "sh", "-c", text]);
    command.env("FOLDER", folder.path()).env("TREE", tree()).env(name, value);
    run(&mut command)
}

fn kill(host: Host) {
    host.signal(Signal::KILL);
    assert!(!host.wait(HANG_LIMIT).status.success());
}

#[test]
fn a_file_system_on_the_device_is_whole_there_and_in_the_file_of_a_killed_host() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let host = folder.run(FILE, &[]);
    script(&folder, ON_THE_DEVICE, "URI", host.uri()).expect_success();
    // It was unmounted, which flushes.
    kill(host);
    script(&folder, ON_THE_FILE, "IMAGE", "disk.img").expect_success();
}

#[test]
fn a_file_system_on_a_mirror_is_whole_on_either_of_its_files() {
    if !can_mount() {
        return;
    }
    let folder = Folder::new();
    let host = folder.run(MIRROR, &[]);
    eventually("both are alike", || host.stderr_so_far().contains("has everything"));
    script(&folder, ON_THE_DEVICE, "URI", host.uri()).expect_success();
    host.stop();
    for image in ["one.img", "two.img"] {
        script(&folder, ON_THE_FILE, "IMAGE", image).expect_success();
    }
}

#[test]
fn fio_reads_what_it_wrote() {
    let Some(fio) = require_client("fio") else { return };
    let seconds = env::var("FUCHSINE_FIO_SECONDS").map_or(5, |text| text.parse().expect("a number of seconds"));
    // Both at the same time.
    let verified = [("file-block", FILE), ("mirror", MIRROR)].map(|(name, manifest)| {
        let folder = Folder::new();
        let host = folder.run(manifest, &[]);
        let mut command = Command::new(&fio);
        command.current_dir(folder.path()).args(["--name=verify", "--ioengine=nbd", "--rw=randrw", "--size=48M"]);
        command.args(["--bsrange=512-64k", "--blockalign=512", "--iodepth=16", "--fsync=64", "--time_based"]);
        // What was written is read and compared while it goes on, not only at the end.
        command.args(["--verify=crc32c", "--verify_fatal=1", "--verify_backlog=256"]);
        command.arg(format!("--uri={}", host.uri())).arg(format!("--runtime={seconds}"));
        (name, folder, host, Process::start(&mut command))
    });
    for (name, _folder, host, process) in verified {
        let finished = process.wait(HANG_LIMIT + Duration::from_secs(seconds)).expect_success();
        let text = finished.stdout.join("\n");
        assert!(text.contains("err= 0"), "{name}: {text}\n{}", finished.stderr);
        host.stop();
    }
}
