//! Goal: a process at the other side of a bridge is as good as a driver in this one while it lives; its end, whatever it is, is a
//! close and a sentence, leaves no zombie and nothing that it started. Method: this test program once more, as the child.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fuchsine_dispatcher::{Channel, Message, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::tests::Side;
use super::{Child, adopt, bridge, socket_pair};

/// Set in the child.
const ROLE: &str = "FUCHSINE_TEST_CHILD";

/// Turns a hang into a failure.
const LONG: Duration = Duration::from_secs(60);

/// A child with a bridge, as its parent has it.
struct Far {
    child: Child,
    end: Arc<Channel>,
}

fn start(home: &Side) -> Far {
    let (ours, theirs) = socket_pair().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process::child_tests::a_child_does_as_it_is_told", "--nocapture"]);
    command.env(ROLE, "yes").stdout(Stdio::null());
    let child = Child::spawn(&mut command, theirs).unwrap();
    let (end, near) = Channel::pair();
    bridge(home.home(), near, ours).unwrap();
    Far { child, end: Arc::new(end) }
}

impl Far {
    fn ask(&self, home: &Side, message: Message) -> Result<Message, Status> {
        self.end.write(message).unwrap();
        home.read(&self.end)
    }
}

/// What the child does: it sends back what comes, unless that is an order.
#[test]
fn a_child_does_as_it_is_told() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let socket = adopt().unwrap();
    let side = Side::new();
    let (end, far) = Channel::pair();
    bridge(side.home(), far, socket).unwrap();
    let end = Arc::new(end);
    let mut kept = None;
    while let Ok(message) = side.read(&end) {
        match message.bytes() {
            b"exit" => std::process::exit(3),
            b"segfault" => loop {
                // The first one is looked at by the handler of std, which then leaves them to the system.
                kill_process(rustix::process::getpid(), Signal::SEGV).unwrap();
            },
            b"start something" => {
                #[expect(clippy::zombie_processes, reason = "its parent is to end before it does")]
                let sleeper = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
                end.write(Message::from_bytes(&sleeper.id().to_le_bytes())).unwrap();
            }
            b"have a child" => {
                let far = start(&side);
                assert_eq!(far.ask(&side, Message::from_bytes(b"there?")).unwrap().bytes(), b"there?");
                end.write(Message::from_bytes(&far.child.id().to_le_bytes())).unwrap();
                kept = Some(far);
            }
            _ => end.write(message).unwrap(),
        }
    }
    drop(kept);
    std::process::exit(0);
}

/// A descriptor of a process whose number has come by a message.
fn process_of(message: &Message) -> OwnedFd {
    let pid = i32::from_le_bytes(message.bytes().try_into().unwrap());
    pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
}

#[track_caller]
fn ends(process: &OwnedFd) {
    let limit = Timespec { tv_sec: LONG.as_secs() as _, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)).unwrap(), 1, "it lives on");
}

#[test]
fn messages_descriptors_and_ends_go_to_another_process_and_back() {
    let home = Side::new();
    let far = start(&home);
    let text = vec![7; 4 << 20];
    assert!(far.ask(&home, Message::from_bytes(&text)).unwrap().bytes() == text);
    let (kept, sent) = Channel::pair();
    kept.write(Message::from_bytes(b"in it")).unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let mut back = far.ask(&home, Message::new().with(sent).with(OwnedFd::from(file))).unwrap();
    let end = Arc::new(back.take_handles().remove(0).into_channel().unwrap());
    assert_eq!(home.read(&end).unwrap().bytes(), b"in it");
    drop(kept);
    assert_eq!(home.read(&end).unwrap_err(), Status::PeerClosed, "the close goes there and back");
}

#[test]
fn a_child_whose_channel_is_closed_ends_by_itself() {
    let home = Side::new();
    let Far { mut child, end } = start(&home);
    drop(end);
    let death = home.wait(async move { child.ended().await }).unwrap();
    assert_eq!((death.code(), death.signal()), (Some(0), None));
}

#[test]
fn each_end_of_a_process_closes_its_channel_and_is_told_in_a_sentence() {
    let home = Side::new();
    for (order, sentence) in [
        ("exit", "ended with exit code 3"),
        ("segfault", "was killed by signal 11 (SIGSEGV)"),
        ("killed", "was killed by signal 9 (SIGKILL)"),
    ] {
        let far = start(&home);
        assert_eq!(far.ask(&home, Message::from_bytes(b"there?")).unwrap().bytes(), b"there?");
        let Far { mut child, end } = far;
        let pid = child.id();
        if order == "killed" {
            // In the middle of a conversation.
            for _ in 0..20 {
                end.write(Message::with_len(1 << 20)).unwrap();
            }
            home.read(&end).unwrap();
            child.kill().unwrap();
            while home.read(&end).is_ok() {}
        } else {
            end.write(Message::from_bytes(order.as_bytes())).unwrap();
        }
        assert_eq!(home.read(&end).unwrap_err(), Status::PeerClosed, "{order}");
        let (death, again) = home.wait(async move {
            let death = child.ended().await.unwrap();
            (death, child.ended().await.unwrap())
        });
        assert_eq!((death.pid(), death), (pid, again));
        assert!(death.to_string().starts_with(&format!("{pid} {sentence}")), "{death}");
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "a zombie is left");
    }
}

#[test]
fn what_a_child_has_started_ends_with_it() {
    let home = Side::new();
    let far = start(&home);
    let sleeper = process_of(&far.ask(&home, Message::from_bytes(b"start something")).unwrap());
    far.end.write(Message::from_bytes(b"exit")).unwrap();
    let mut child = far.child;
    assert_eq!(home.wait(async move { child.ended().await }).unwrap().code(), Some(3));
    ends(&sleeper);

    let far = start(&home);
    let sleeper = process_of(&far.ask(&home, Message::from_bytes(b"start something")).unwrap());
    let pid = far.child.id();
    drop(far);
    ends(&sleeper);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "a zombie is left");
}

#[test]
fn a_child_ends_with_its_parent() {
    let home = Side::new();
    let far = start(&home);
    let grandchild = process_of(&far.ask(&home, Message::from_bytes(b"have a child")).unwrap());
    // Only the one in the middle: the other one is in a group of its own.
    kill_process(Pid::from_raw(far.child.id() as i32).unwrap(), Signal::KILL).unwrap();
    ends(&grandchild);
}

#[test]
fn a_program_that_is_not_there_is_told_and_a_process_without_a_parent_too() {
    let (_ours, theirs) = socket_pair().unwrap();
    let error = Child::spawn(&mut Command::new("/nowhere/at-all"), theirs).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    if std::env::var(ROLE).is_err() {
        assert!(adopt().unwrap_err().to_string().contains("started by a host only"));
    }
}
