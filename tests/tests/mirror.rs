//! Goal: a mirror over two files serves its client on while either file goes and comes back, and survives the loss of one for
//! good, also when its host is killed.
//! Method: `mirror` over two `file-block` and under `nbd`, linked and loaded; drivers are stopped and started by the command,
//! hosts are killed, and files removed.

mod module_support;

use std::{fs, path::PathBuf};

use fuchsine_tests::{
    host::{Host, bare_command, command},
    nbd::{CMD_FLUSH, Client},
    process::{HANG_LIMIT, eventually, run},
    random::Random,
    summary::Summary,
};
use module_support::{Folder, converse};
use rustix::process::Signal;

/// What the mirror has of two files of a mebibyte.
const SIZE: usize = (1 << 20) - (64 << 10);

fn manifest(origin: &str) -> String {
    let leg = |name: &str| {
        format!("[drivers.{name}]\ndriver = \"file-block\"\nconfig = {{ path = \"{name}.img\", size = \"1MiB\" }}\n")
    };
    let parent = |place: &str, name: &str| {
        format!("parents.{place} = {{ bind = {{ protocol = \"block\", parent = \"{name}\" }}, optional = true }}\n")
    };
    format!(
        "{}{}[drivers.mirror]\n{origin}\nconfig = {{ look = \"20ms\" }}\n{}{}[drivers.nbd]\n\
         bind = {{ protocol = \"block\", parent = \"mirror\" }}\nconfig = {{ listen = \"127.0.0.1:0\" }}\n",
        leg("one"),
        leg("two"),
        parent("left", "one"),
        parent("right", "two")
    )
}

struct Disks {
    folder: Folder,
}

impl Disks {
    fn new() -> Self {
        Self { folder: Folder::new() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.img"))
    }

    fn contents(&self, name: &str) -> Vec<u8> {
        fs::read(self.file(name)).expect("the file is there")[..SIZE].to_vec()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    #[track_caller]
    fn start(&self, origin: &str) -> Host {
        let manifest = self.folder.manifest(&manifest(origin));
        Host::start_command(command().arg(manifest).arg("--control").arg(self.socket()))
    }

    /// `fuchsine stop one`, for example.
    #[track_caller]
    fn tell(&self, what: &str, driver: &str) {
        run(bare_command().args([what, driver, "--control"]).arg(self.socket())).expect_success();
    }
}

/// Waits until the log says something so many times.
#[track_caller]
fn until_said(host: &Host, what: &str, times: usize) {
    eventually(what, || host.stderr_so_far().matches(what).count() >= times);
}

#[test]
fn it_has_the_same_conversation_linked_and_loaded() {
    for origin in ["", "module = \"libmirror.so\""] {
        let disks = Disks::new();
        disks.folder.module("mirror");
        let host = disks.start(origin);
        until_said(&host, "the leg `right` has everything", 1);
        converse(&host, SIZE as u64);
        let summary = Summary::parse(&host.stop().stderr);
        for driver in summary.drivers() {
            assert_eq!(driver.pending, 0, "{driver:?}");
            assert_eq!(driver.accepted, driver.ran + driver.canceled + driver.taken_back, "{driver:?}");
        }
        assert!(disks.contents("one") == disks.contents("two"));
    }
}

#[test]
fn a_connection_goes_on_while_either_file_goes_and_comes_back() {
    let disks = Disks::new();
    let host = disks.start("");
    until_said(&host, "the leg `right` has everything", 1);
    let mut client = Client::connect(&host.address()).expect("the server answers");
    let mut random = Random::from_environment();
    let mut model = vec![0; SIZE];
    let mut work = |client: &mut Client| {
        for _ in 0..30 {
            let length = 512 * (1 + random.below(16));
            let offset = 512 * random.below((SIZE - length) / 512);
            let bytes = random.bytes(length);
            client.write(offset as u64, &bytes).expect("it is written");
            model[offset..offset + length].copy_from_slice(&bytes);
        }
        assert!(client.read(0, SIZE as u32).expect("it is read") == model);
        model.clone()
    };
    work(&mut client);
    for (round, (name, place)) in [("one", "left"), ("two", "right"), ("one", "left")].into_iter().enumerate() {
        disks.tell("stop", name);
        work(&mut client);
        disks.tell("start", name);
        // Copied to beside the work.
        let copied = format!("the leg `{place}` has everything");
        let before = usize::from(place == "right") + round / 2;
        work(&mut client);
        until_said(&host, &copied, before + 1);
    }
    let model = work(&mut client);
    assert_eq!(client.command(CMD_FLUSH, 0, 0, 0, &[]).unwrap(), 0);
    client.disconnect().expect("it says goodbye");
    host.stop();
    assert!(disks.contents("one") == model && disks.contents("two") == model);
}

#[test]
fn a_file_that_is_gone_for_good_is_made_anew_from_the_other_also_after_a_kill() {
    for lost in ["one", "two"] {
        let disks = Disks::new();
        let host = disks.start("");
        until_said(&host, "the leg `right` has everything", 1);
        let mut client = Client::connect(&host.address()).expect("the server answers");
        let bytes = Random::from_environment().bytes(SIZE);
        client.write(0, &bytes).unwrap();
        assert_eq!(client.command(CMD_FLUSH, 0, 0, 0, &[]).unwrap(), 0);
        host.signal(Signal::KILL);
        assert!(!host.wait(HANG_LIMIT).status.success());
        fs::remove_file(disks.file(lost)).unwrap();
        let host = disks.start("");
        let mut client = Client::connect(&host.address()).expect("the server answers");
        assert!(client.read(0, SIZE as u32).unwrap() == bytes, "{lost}");
        until_said(&host, "has everything", 1);
        drop(client);
        host.stop();
        assert!(disks.contents("one") == bytes && disks.contents("two") == bytes, "{lost}");
    }
}

#[test]
fn what_was_answered_is_there_after_an_orderly_stop_and_the_next_start() {
    let disks = Disks::new();
    for round in 1..=3u8 {
        let host = disks.start("");
        let mut client = Client::connect(&host.address()).expect("the server answers");
        if round > 1 {
            assert_eq!(client.read(0, 4096).unwrap(), vec![round - 1; 4096]);
        }
        client.write(0, &[round; 4096]).unwrap();
        drop(client);
        host.stop();
    }
}
