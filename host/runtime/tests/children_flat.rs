//! Goal: children that come and go leave no descriptor and no zombie behind. Method: a thousand of them one after the other, killed
//! or left to end, in a test program of its own, whose descriptors are counted.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use fuchsine_dispatcher::{Channel, DispatcherBuilder, Message, RuntimeBuilder, Status};
use fuchsine_host::process::{Child, bridge, socket_pair};

const LONG: Duration = Duration::from_secs(60);

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_thousand_restarts_leave_no_descriptor_and_no_zombie_behind() {
    let runtime = RuntimeBuilder::new().threads(1).build().unwrap();
    let driver = runtime.new_driver("bridges");
    let home = driver.new_dispatcher(DispatcherBuilder::new().name("bridges")).unwrap();
    let mut before = 0;
    for round in 0..1_000 {
        let (ours, theirs) = socket_pair().unwrap();
        let mut child = Child::spawn(Command::new("cat").stdout(Stdio::null()), theirs).unwrap();
        let (end, near) = Channel::pair();
        bridge(&home, near, ours).unwrap();
        end.write(Message::with_len(200_000)).unwrap();
        let is_killed = round % 2 == 0;
        let (told, tell) = mpsc::channel();
        let watched = async move {
            if is_killed {
                child.kill().unwrap();
                // The bridge finds out by itself.
                assert_eq!(end.read().await.map(drop), Err(Status::PeerClosed));
            } else {
                drop(end);
            }
            told.send(child.ended().await.unwrap()).unwrap();
        };
        let _detached = home.spawn(watched).map_err(drop).unwrap();
        let death = tell.recv_timeout(LONG).expect("it hangs");
        assert_eq!((death.signal(), death.code()), if is_killed { (Some(9), None) } else { (None, Some(0)) });
        if round == 10 {
            before = descriptors();
        }
    }
    // One or two may be on their way to be closed at either moment.
    assert!(descriptors() <= before + 4, "{} descriptors, and {before} after ten rounds", descriptors());
    let own = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    assert_eq!(own.trim(), "", "children are left");
    drop(home);
    runtime.shutdown(LONG).unwrap();
}
