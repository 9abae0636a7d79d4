//! Messages and channels without a dispatcher.

use std::hint::black_box;

use fuchsine_dispatcher::{Arena, Channel, Handle, Message};

use super::{SHORT, ours, repeat};
use crate::sample::Sample;
use crate::workload::Workload;

/// Ends of channels whose peers are closed.
fn handles(count: usize) -> Vec<Handle> {
    (0..count).map(|_| Handle::from(Channel::pair().0)).collect()
}

/// The message that was read is written again.
fn write_and_read(size: usize, with: usize) -> Sample {
    let (near, far) = Channel::pair();
    let buffer = Arena::with_capacity(size).allocate(size);
    let mut message = Some(Message::from_parts(Some(buffer), handles(with)));
    repeat(SHORT, || {
        near.write(message.take().expect("it came back")).expect("the other end is here");
        let read = far.try_read().expect("it was written");
        let whole = read.len() == size && read.handles().len() == with;
        message = Some(read);
        whole
    })
}

fn create_and_destroy(size: usize, with: usize) -> Sample {
    repeat(SHORT, || {
        let arena = Arena::new();
        let buffer = (size > 0).then(|| arena.allocate(size));
        let message = black_box(Message::from_parts(buffer, handles(with)));
        message.len() == size && message.handles().len() == with
    })
}

pub(super) fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for size in [64, 1_024, 32_768, 65_536] {
        for with in [0, 1] {
            let name = format!("Channel/WriteRead/{size}bytes/{with}handles");
            let what =
                format!("write a message of {size} bytes and {with} handles to a channel, read it, no dispatcher");
            all.push(ours(name, what, move || write_and_read(size, with)));
        }
    }
    all.push(ours("HandleCreate_Channel", "create a channel and close both ends", || {
        repeat(SHORT, || {
            let (near, far) = black_box(Channel::pair());
            !near.is_peer_closed() && !far.is_peer_closed()
        })
    }));
    for size in [0, 64] {
        for with in [0, 1] {
            let name = format!("MessagePacket/CreateDestroy/{size}bytes/{with}handles");
            let what = format!("a new arena, a message of {size} bytes and {with} handles of it, all dropped");
            all.push(ours(name, what, move || create_and_destroy(size, with)));
        }
    }
    all
}
