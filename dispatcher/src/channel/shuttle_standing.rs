//! Models of standing reads on real dispatchers and the real pool: what comes while the handler runs or as it returns, against
//! a cancel, the close of either end and a shutdown.
//!
//! Each handler takes one message and leaves the rest, so that every message has to be told. Where no shutdown and no
//! cancel is part of the race, the model waits for what must be told, so that a lost notice shows as a deadlock.
//!
//! Run as the other models: `SHUTTLE_ITERATIONS` schedules each (default 2,000), random ones and PCT ones of depth 3.
//!
//! Not covered: weak memory (the models of the pair run under loom).

use std::ops::ControlFlow;
use std::time::Duration;

use super::shuttle_channel::explore;
use super::{Channel, Client, Message, Protocol};
use crate::runtime::{Dispatcher, DispatcherBuilder, Runtime, RuntimeBuilder};
use crate::status::Status;
use crate::sync::{Arc, Condvar, Mutex, thread};

/// What the handler was told and how many messages it has read.
#[derive(Default)]
struct Told {
    messages: usize,
    last: Option<Status>,
    is_inside: bool,
}

struct Bench {
    runtime: Runtime,
    reader: Dispatcher,
    writer: Dispatcher,
    near: Arc<Channel>,
    far: Arc<Channel>,
    told: Arc<(Mutex<Told>, Condvar)>,
}

/// Two drivers on two threads, and a standing read of one of them.
fn set_up() -> Bench {
    let runtime = RuntimeBuilder::new().threads(2).build().expect("a model has threads");
    let dispatcher = |name: &str| {
        runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("the driver is new")
    };
    let (reader, writer) = (dispatcher("reader"), dispatcher("writer"));
    let (near, far) = Channel::pair();
    let (far, told) = (Arc::new(far), Arc::new((Mutex::new(Told::default()), Condvar::new())));
    // What stands must not keep its own end open.
    let (end, telling) = (Arc::downgrade(&far), Arc::clone(&told));
    far.begin_standing_read(&reader, move |outcome| {
        let (told, news) = &*telling;
        {
            let mut told = told.lock();
            assert!(!std::mem::replace(&mut told.is_inside, true), "two handlers at once");
            assert_eq!(told.last, None, "an error is the last word");
            told.last = outcome.err();
        }
        thread::yield_now();
        let message = outcome.ok().and_then(|()| end.upgrade()?.try_read().ok());
        let mut told = told.lock();
        told.messages += usize::from(message.is_some());
        told.is_inside = false;
        news.notify_all();
        ControlFlow::Continue(())
    })
    .expect("the end is free and the dispatcher runs");
    Bench { runtime, reader, writer, near: Arc::new(near), far, told }
}

impl Bench {
    /// Two messages, one from a callback and one from outside, of which the last that is gone closes.
    fn write_and_close(&mut self) -> thread::JoinHandle<()> {
        let near = std::mem::replace(&mut self.near, Arc::new(Channel::pair().0));
        let outside = Arc::clone(&near);
        // The reader may have closed.
        self.writer.post_task(move |_| drop(near.write(Message::new()))).expect("it runs");
        thread::spawn("outside", move || drop(outside.write(Message::new()))).expect("a thread")
    }

    fn conclude(self) {
        self.runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        let counters = self.runtime.counters();
        assert!(counters.add_up(), "{counters:?}");
        assert_eq!(counters.pending, 0);
        assert_eq!(self.told.0.lock().messages + self.far.queued_messages(), 2);
        assert!(self.far.is_idle(), "its place is free");
    }
}

#[test]
fn shuttle_a_standing_read_is_told_of_each_message_and_at_last_of_the_close() {
    explore(|| {
        let mut bench = set_up();
        let outside = bench.write_and_close();
        outside.join().expect("it ends");
        {
            let (told, news) = &*bench.told;
            let mut told = told.lock();
            while told.last.is_none() {
                news.wait(&mut told);
            }
            assert_eq!((told.messages, told.last), (2, Some(Status::PeerClosed)));
        }
        bench.conclude();
    });
}

#[test]
fn shuttle_a_standing_read_ends_by_a_shutdown_whatever_comes() {
    explore(|| {
        let mut bench = set_up();
        let outside = bench.write_and_close();
        bench.reader.shutdown_async();
        outside.join().expect("it ends");
        bench.conclude();
    });
}

#[test]
fn shuttle_a_cancel_ends_a_standing_read_whatever_comes() {
    explore(|| {
        let mut bench = set_up();
        let outside = bench.write_and_close();
        let canceled = bench.far.cancel_read();
        // A handler that was running may have one more to read; after a cancel that succeeded none is.
        let most = bench.told.0.lock().messages + usize::from(canceled.is_err());
        drop(canceled);
        outside.join().expect("it ends");
        let told = Arc::clone(&bench.told);
        bench.conclude();
        assert!(told.0.lock().messages <= most, "it is not called again");
    });
}

struct Numbers;

impl Protocol for Numbers {
    type Request = usize;
    type Reply = ();
    type Event = ();
}

/// A service hears requests in their order, and at last, once, why there will be no more, whether its client goes or its
/// dispatcher shuts down first, and wherever its handler is at that moment.
#[test]
fn shuttle_a_service_is_told_its_end_once_whatever_comes() {
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(2).build().expect("a model has threads");
        let home = runtime.new_driver("home").new_dispatcher(DispatcherBuilder::new()).expect("the driver is new");
        let (client, server) = Client::<Numbers>::pair();
        let heard = Arc::new(Mutex::new((0, Vec::new())));
        let hearing = Arc::clone(&heard);
        let served = server.serve(&home, move |incoming| {
            let request = incoming.map(super::Incoming::into_request);
            thread::yield_now();
            let mut heard = hearing.lock();
            assert!(heard.1.is_empty(), "the end is the last word");
            match request {
                Ok(number) => {
                    assert_eq!(number, heard.0);
                    heard.0 += 1;
                }
                Err(end) => heard.1.push(end),
            }
        });
        served.map_err(Status::from).expect("it begins");
        let outside = thread::spawn("outside", move || {
            for number in 0..2 {
                // The server may have ended.
                let _ = client.send(number);
            }
        });
        home.shutdown_async();
        outside.expect("a thread").join().expect("it ends");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        let counters = runtime.counters();
        assert!(counters.add_up() && counters.pending == 0, "{counters:?}");
        let heard = heard.lock();
        assert!(matches!(*heard.1, [Status::Canceled | Status::PeerClosed]), "{heard:?}");
    });
}
