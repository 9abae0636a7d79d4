//! Model checks of writers that wait for room in a full queue, on real dispatchers and the real pool.
//!
//! How they run, and what they leave out, is said in `shuttle_channel.rs`. A notice of room that is lost shows as a deadlock.

use std::time::Duration;

use super::shuttle_channel::explore;
use super::{Channel, Limits, Message, ReadError};
use crate::runtime::{Dispatcher, DispatcherBuilder, Runtime, RuntimeBuilder};
use crate::status::Status;
use crate::sync::{Arc, Condvar, Mutex, thread};

/// What the waits for room of a model were told.
#[derive(Default)]
struct Told {
    outcomes: Mutex<Vec<Result<(), Status>>>,
    news: Condvar,
}

impl Told {
    fn wait_for_room(self: &Arc<Self>, writer: &Channel, home: &Dispatcher) -> Result<(), Status> {
        let this = Arc::clone(self);
        let told = move |outcome| {
            this.outcomes.lock().push(outcome);
            this.news.notify_all();
        };
        writer.begin_writable(home, 0, told).map_err(Status::from)
    }

    fn wait_until_told(&self, times: usize) {
        let mut outcomes = self.outcomes.lock();
        while outcomes.len() < times {
            self.news.wait(&mut outcomes);
        }
    }
}

/// A channel whose queues take one message each.
fn set_up() -> (Runtime, Dispatcher, Channel, Channel) {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
    let home = runtime.new_driver("writer").new_dispatcher(DispatcherBuilder::new()).expect("the driver is new");
    let (near, far) = Channel::pair_with(Limits::default().messages(1));
    (runtime, home, near, far)
}

fn conclude(runtime: &Runtime) {
    runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    let counters = runtime.counters();
    assert!(counters.add_up() && counters.pending == 0, "{counters:?}");
}

/// Takes this many messages, whenever they come.
fn read(end: &Channel, messages: usize) {
    let mut left = messages;
    while left > 0 {
        match end.try_read() {
            Ok(_) => left -= 1,
            Err(error) => {
                assert_eq!(error, ReadError::ShouldWait);
                thread::yield_now();
            }
        }
        assert!(end.queued_messages() <= 1, "more than the limit");
    }
}

/// A thread writes as fast as it may and waits for room when it may not, while another reads: it is told once a wait, and
/// nothing is lost.
#[test]
fn shuttle_a_writer_that_meets_a_full_queue_is_told_of_each_room() {
    const MESSAGES: usize = 4;
    explore(|| {
        let (runtime, home, near, far) = set_up();
        let reading = thread::spawn("reading", move || read(&far, MESSAGES)).expect("a thread");
        let (told, mut waits) = (Arc::new(Told::default()), 0);
        for _ in 0..MESSAGES {
            let mut message = Message::new();
            while let Err(refused) = near.write(message) {
                assert_eq!(refused.status(), Status::ShouldWait);
                message = refused.into_message();
                told.wait_for_room(&near, &home).expect("it is the only writer");
                waits += 1;
                told.wait_until_told(waits);
            }
        }
        reading.join().expect("it ends");
        conclude(&runtime);
        assert_eq!(*told.outcomes.lock(), vec![Ok(()); waits]);
    });
}

/// A wait for room meets the reader that makes it, its own cancel, the close of the other end, and the shutdown: it is
/// refused, taken back, or told once, by one of them.
#[test]
fn shuttle_a_wait_for_room_ends_once_whatever_races() {
    explore(|| {
        let (runtime, home, near, far) = set_up();
        near.write(Message::new()).expect("the queue is empty");
        let reading = thread::spawn("reading", move || {
            drop(far.try_read());
            drop(far);
        })
        .expect("a thread");
        let stopping = home.handle();
        let stopping = thread::spawn("stopping", move || stopping.shutdown_async()).expect("a thread");
        let told = Arc::new(Told::default());
        let begun = told.wait_for_room(&near, &home);
        assert!(matches!(begun, Ok(()) | Err(Status::PeerClosed | Status::Unavailable)), "{begun:?}");
        let taken_back = near.cancel_writable().is_ok();
        reading.join().expect("it ends");
        stopping.join().expect("it ends");
        conclude(&runtime);
        assert_eq!(told.outcomes.lock().len(), usize::from(begun.is_ok()) - usize::from(taken_back));
    });
}

/// A future writes and waits for room in turn, while a thread reads, and the end closes behind the last message.
#[test]
fn shuttle_a_future_that_waits_for_room_writes_all() {
    const MESSAGES: usize = 3;
    explore(|| {
        let (runtime, home, near, far) = set_up();
        let reading = thread::spawn("reading", move || {
            read(&far, MESSAGES);
            while !far.is_peer_closed() {
                thread::yield_now();
            }
        })
        .expect("a thread");
        let writing = home.spawn(async move {
            for _ in 0..MESSAGES {
                near.writable(0).await.expect("somebody reads");
                near.write(Message::new()).expect("there is room, and one writer");
            }
        });
        let writing = writing.expect("it runs");
        reading.join().expect("it ends");
        conclude(&runtime);
        assert!(writing.is_finished());
    });
}
