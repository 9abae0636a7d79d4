//! Goal: bridges leave no descriptor behind, whichever side closes first and whatever was on the way then. Method: a thousand
//! channels between two runtimes, in a test program of its own, whose descriptors are counted.

use std::sync::mpsc;
use std::time::{Duration, Instant as RealInstant};

use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Message, RuntimeBuilder, Status};
use fuchsine_host::process::{bridge, socket_pair};

const LONG: Duration = Duration::from_secs(60);

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Reads until the other side has closed; how many messages came.
fn drain(home: &DispatcherHandle, end: Channel) -> usize {
    let (told, tell) = mpsc::channel();
    let all = async move {
        let mut count = 0;
        loop {
            match end.read().await {
                Ok(_) => count += 1,
                Err(status) => break told.send((count, status)).unwrap(),
            }
        }
    };
    let _detached = home.spawn(all).map_err(drop).unwrap();
    let (count, status) = tell.recv_timeout(LONG).expect("it hangs");
    assert_eq!(status, Status::PeerClosed);
    count
}

#[test]
fn a_thousand_channels_leave_no_descriptor_behind() {
    let runtimes = [(); 2].map(|()| RuntimeBuilder::new().threads(1).build().unwrap());
    let drivers = runtimes.each_ref().map(|runtime| runtime.new_driver("bridges"));
    let homes =
        drivers.each_ref().map(|driver| driver.new_dispatcher(DispatcherBuilder::new().name("bridges")).unwrap());
    let before = descriptors();
    for round in 0..1_000_usize {
        let ((ours, near), (theirs, far)) = (Channel::pair(), Channel::pair());
        let (socket, other) = socket_pair().unwrap();
        bridge(&homes[0], near, socket).unwrap();
        bridge(&homes[1], far, other).unwrap();
        let (kept, sent) = Channel::pair();
        kept.write(Message::from_bytes(b"in it")).unwrap();
        ours.write(Message::from_bytes(b"an end").with(sent)).unwrap();
        // A second end that is on the way, or in a queue, when the channel is closed.
        let (other_kept, other_sent) = Channel::pair();
        theirs.write(Message::with_len(100_000).with(other_sent)).unwrap();
        let closer = round % 2;
        let (first, last) = if closer == 0 { (ours, theirs) } else { (theirs, ours) };
        drop(first);
        assert_eq!(drain(&homes[1 - closer], last), 1);
        drop(kept);
        drain(&homes[0], other_kept);
    }
    let end = RealInstant::now() + LONG;
    while descriptors() > before + 4 && RealInstant::now() < end {
        std::thread::yield_now();
    }
    // The reactors keep what they poll with from the first wait on.
    assert!(descriptors() <= before + 4, "{} descriptors, and {before} before", descriptors());
    drop(homes);
    for runtime in runtimes {
        runtime.shutdown(LONG).unwrap();
    }
}
