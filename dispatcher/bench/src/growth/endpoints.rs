//! Many channels, each with a registered read at one end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Message};

use crate::channels::fuchsine::{dispatcher, finish, runtime};
use crate::random::Random;
use crate::sample::{Sample, Stopwatch};
use crate::workload::scaled;

const MESSAGES: u64 = 200_000;

/// Counts each message where it arrives, and registers anew.
fn listen(end: Arc<Channel>, home: DispatcherHandle, seen: Arc<AtomicU64>) {
    let (reader, handle) = (Arc::clone(&end), home.clone());
    let registered = end.begin_read(&handle, move |_| {
        if reader.try_read().is_ok() {
            // By the callbacks of one synchronized dispatcher only: two at once would lose counts.
            seen.store(seen.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            listen(reader, home, seen);
        }
    });
    // Refused only because the writer is gone or the dispatcher shuts down.
    drop(registered);
}

/// So many ends, half of them with a registered read, whose handler runs inline in each write.
pub(super) fn inline(ends: u64) -> Sample {
    let runtime = runtime(2);
    let writer = dispatcher(&runtime, "writer", DispatcherBuilder::new());
    let home = dispatcher(&runtime, "reader", DispatcherBuilder::new());
    let seen = Arc::new(AtomicU64::new(0));
    let pairs = scaled(ends / 2);
    let writers: Vec<Channel> = (0..pairs)
        .map(|_| {
            let (near, far) = Channel::pair();
            listen(Arc::new(far), home.clone(), Arc::clone(&seen));
            near
        })
        .collect();
    let (done, finished) = channel();
    let body = move |_| {
        let (mut random, messages) = (Random::new(), scaled(MESSAGES));
        let watch = Stopwatch::start();
        for _ in 0..messages {
            let to = &writers[(random.next() % pairs) as usize];
            to.write(Message::new()).expect("it is read");
        }
        let all_came = seen.load(Ordering::Relaxed) == messages;
        done.send(watch.stop(messages, all_came)).expect("it is awaited");
    };
    writer.post_task(body).expect("accepted");
    let sample = finished.recv().expect("it ends");
    finish(&runtime, sample)
}
