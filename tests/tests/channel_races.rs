//! Goal: whatever threads do to a channel at once, each message is read once and each read ends once.
//! Method: threads and pools at full speed, then exact sums: nothing may be lost, doubled or left over.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use common::{HANG, add_up, pool_of, within};
use fuchsine_dispatcher::{
    Channel, DispatcherBuilder, DispatcherHandle, Handle, Limits, Message, ReadError, Runtime, Status,
};

fn bytes(value: u64) -> Message {
    Message::from_bytes(&value.to_le_bytes())
}

fn value(message: &Message) -> u64 {
    u64::from_le_bytes(message.bytes().try_into().expect("eight bytes"))
}

#[track_caller]
fn dispatcher(runtime: &Runtime, name: &str, builder: DispatcherBuilder) -> DispatcherHandle {
    runtime.new_driver(name).new_dispatcher(builder.name(name)).expect("created").release()
}

#[track_caller]
fn end(runtime: &Runtime) {
    runtime.shutdown(HANG).expect("in time");
    add_up(runtime);
    assert_eq!(runtime.counters().pending, 0);
}

/// CH-23. R29.
///
/// Shows CH-R29, CT-23.
#[test]
fn concurrent_readers_get_each_message_once_and_in_order() {
    const MESSAGES: u64 = 2000;
    let (near, far) = Channel::pair();
    for n in 1..=MESSAGES {
        near.write(bytes(n)).expect("written");
    }
    let start = Barrier::new(2);
    let read = || {
        start.wait();
        (0..MESSAGES / 2).map(|_| value(&far.try_read().expect("there are enough"))).collect::<Vec<_>>()
    };
    let (mut first, second) = thread::scope(|threads| {
        let (first, second) = (threads.spawn(read), threads.spawn(read));
        (first.join().expect("no panic"), second.join().expect("no panic"))
    });
    assert!(first.is_sorted() && second.is_sorted(), "each reader sees the order of the writes");
    first.extend(second);
    first.sort_unstable();
    assert_eq!(first, (1..=MESSAGES).collect::<Vec<_>>());
}

/// CH-61, and issue of handle tables: a hundred thousand pairs live at once, more than a 16-bit table could name.
///
/// Shows CH-R10, CH-R11, CH-R86, CH-R87, CT-61, HT-6.
#[test]
fn a_hundred_thousand_pairs_live_at_once() {
    let pairs: Vec<_> = (0..100_000).map(|_| Channel::pair()).collect();
    for (n, (near, _)) in (0..).zip(&pairs) {
        near.write(bytes(n)).expect("written");
    }
    for (n, (_, far)) in (0..).zip(&pairs) {
        assert_eq!(value(&far.try_read().expect("there is one")), n);
    }
}

/// Reads everything on `home`, adding it up, until the peer closes or the dispatcher does.
struct Reader {
    end: Channel,
    home: DispatcherHandle,
    sum: Arc<AtomicUsize>,
    told: Arc<AtomicUsize>,
    /// Set when the last word was heard.
    over: std::sync::mpsc::Sender<Status>,
}

impl Reader {
    fn listen(self: Arc<Self>) {
        let this = Arc::clone(&self);
        let registered = self.end.begin_read(&self.home, move |outcome| {
            this.told.fetch_add(1, Ordering::Relaxed);
            loop {
                match this.end.try_read() {
                    Ok(message) => {
                        this.sum.fetch_add(value(&message) as usize, Ordering::Relaxed);
                    }
                    Err(ReadError::ShouldWait) if outcome.is_ok() => return this.listen(),
                    Err(error) => {
                        // Nobody waits once the test has its answer.
                        let _ = this.over.send(outcome.err().unwrap_or(error.status()));
                        return;
                    }
                }
            }
        });
        match registered.map_err(|refused| refused.into_status()) {
            Ok(()) => {}
            // The close came between the last read and the registration: look once more.
            Err(Status::PeerClosed) => {
                let _ = self.over.send(Status::PeerClosed);
            }
            Err(Status::Unavailable) => {
                let _ = self.over.send(Status::Canceled);
            }
            Err(status) => panic!("a read is not refused with {status}"),
        }
    }
}

/// Writers of many threads against one reader, on each kind of dispatcher: every message is read before the close is
/// told, and the close is told once.
#[test]
fn messages_of_many_writers_are_all_read_before_the_close_is_told() {
    const WRITERS: usize = 4;
    const EACH: usize = 2000;
    for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
        let runtime = pool_of(2);
        let home = dispatcher(&runtime, "reader", builder);
        let (near, far) = Channel::pair();
        let (over, is_over) = channel();
        let (sum, told) = (Arc::default(), Arc::default());
        let reader = Reader { end: far, home, sum: Arc::clone(&sum), told: Arc::clone(&told), over };
        Arc::new(reader).listen();
        let near = Arc::new(near);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let near = Arc::clone(&near);
                thread::spawn(move || {
                    for n in 0..EACH {
                        near.write(bytes((writer * EACH + n) as u64)).expect("the reader is open");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("no panic");
        }
        drop(near);
        assert_eq!(within(&is_over, "the close"), Status::PeerClosed);
        assert_eq!(sum.load(Ordering::Relaxed), (0..WRITERS * EACH).sum());
        assert!(told.load(Ordering::Relaxed) <= WRITERS * EACH + 1, "a call stands for a message or the close");
        assert!(is_over.try_recv().is_err(), "told once");
        end(&runtime);
    }
}

/// Write, register, cancel and close against each other, on a fresh channel each time; each registration ends once, as
/// one of the three ends that there are.
///
/// Shows CH-R2, CH-R34.
#[test]
fn each_registration_ends_once_whatever_is_done_to_it() {
    const ROUNDS: usize = 1500;
    for threads in [1, 2] {
        let runtime = pool_of(threads);
        let home = dispatcher(&runtime, "reader", DispatcherBuilder::new());
        let writing = dispatcher(&runtime, "writer", DispatcherBuilder::new());
        let called = Arc::new(AtomicUsize::new(0));
        let (mut accepted, mut taken_back) = (0, 0);
        for round in 0..ROUNDS {
            let (near, far) = Channel::pair();
            let register = |far: &Channel| {
                let called = Arc::clone(&called);
                far.begin_read(&home, move |_| {
                    called.fetch_add(1, Ordering::Relaxed);
                })
            };
            if register(&far).is_ok() {
                accepted += 1;
            }
            // On a pool thread, so that inline calls are part of it.
            let posted = writing.post_task(move |_| {
                // The reader may have closed.
                let _ = near.write(bytes(1));
                if round % 2 == 0 {
                    let _ = near.write(bytes(2));
                }
            });
            assert!(posted.is_ok());
            if far.cancel_read().is_ok() {
                taken_back += 1;
            }
            match register(&far).map_err(|refused| refused.into_status()) {
                Ok(()) => accepted += 1,
                Err(status) => assert_eq!(status, Status::PeerClosed, "the end is free after a cancel"),
            }
            if round % 3 == 0 {
                drop(far.try_read());
            }
            drop(far);
        }
        runtime.shutdown(HANG).expect("in time");
        let counters = home.counters();
        assert!(counters.add_up(), "{counters:?}");
        assert_eq!(home.owner().counters(), counters, "the driver's numbers are those of its one dispatcher");
        assert_eq!(counters.accepted, accepted);
        assert_eq!(counters.taken_back, taken_back);
        assert_eq!(called.load(Ordering::Relaxed) as u64, counters.ran + counters.canceled);
        assert_eq!(counters.pending, 0);
        end(&runtime);
    }
}

/// R36: on an unsynchronized dispatcher a handler that registers again may be joined by the next one; the end cannot be
/// sent until the last of them has returned.
///
/// Shows CH-R36, D7.
#[test]
fn handlers_of_one_end_overlap_on_an_unsynchronized_dispatcher_and_each_keeps_the_end_from_being_sent() {
    let runtime = pool_of(2);
    let home = dispatcher(&runtime, "reader", DispatcherBuilder::new().unsynchronized());
    let (near, far) = Channel::pair();
    let slot = Arc::new(Mutex::new(Some(far)));
    let (inside, is_inside) = channel();
    let (done, is_done) = channel();
    let mut releases = Vec::new();
    for name in ["first", "second"] {
        let (release, released) = channel::<()>();
        releases.push(release);
        let (inside, done) = (inside.clone(), done.clone());
        let slot = slot.lock().expect("no panic");
        let end = slot.as_ref().expect("it is there");
        end.begin_read(&home, move |outcome| {
            inside.send((name, outcome)).expect("the test waits");
            within(&released, "the release");
            done.send(name).expect("the test waits");
        })
        .expect("the registration before it has ended");
        near.write(bytes(1)).expect("written");
        assert_eq!(within(&is_inside, "the handler"), (name, Ok(())));
        drop(end.try_read().expect("there is one"));
    }
    let send = || {
        let end = slot.lock().expect("no panic").take().expect("it is there");
        let (carrier, _carried) = Channel::pair();
        match carrier.write(Message::new().with(end)) {
            Ok(()) => Ok(()),
            Err(refused) => {
                let status = refused.status();
                let end = refused.into_message().take_handles().remove(0).into_channel();
                *slot.lock().expect("no panic") = Some(end.expect("it came back"));
                Err(status)
            }
        }
    };
    assert_eq!(send(), Err(Status::InvalidArgs));
    for release in releases {
        assert_eq!(send(), Err(Status::InvalidArgs), "one runs still");
        release.send(()).expect("the handler waits");
        within(&is_done, "the end of a handler");
    }
    // The count goes down when the handlers have returned, a moment after they said so.
    runtime.shutdown(HANG).expect("in time");
    assert_eq!(send(), Ok(()));
    add_up(&runtime);
}

/// Ends travel through other channels while they are written to; nothing in them is lost.
///
/// Shows CH-R75.
#[test]
fn an_end_is_written_to_while_it_travels() {
    const HOPS: usize = 300;
    let (near, far) = Channel::pair();
    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut written = 0u64;
            while !stop.load(Ordering::Acquire) {
                near.write(bytes(written)).expect("it travels, and is open");
                written += 1;
                if written.is_multiple_of(64) {
                    thread::yield_now();
                }
            }
            written
        });
        let mut far = far;
        let mut read = 0u64;
        for _ in 0..HOPS {
            let (carrier, carried) = Channel::pair();
            carrier.write(Message::new().with(far)).expect("no read is registered");
            let mut message = carried.try_read().expect("there is one");
            far = message.take_handles().remove(0).into_channel().expect("an end was sent");
            while let Ok(message) = far.try_read() {
                assert_eq!(value(&message), read);
                read += 1;
            }
        }
        stop.store(true, Ordering::Release);
        let written = writer.join().expect("no panic");
        while let Ok(message) = far.try_read() {
            assert_eq!(value(&message), read);
            read += 1;
        }
        assert_eq!(read, written);
    });
}

/// Both ends close at the same moment, with messages in both directions that carry counted values.
///
/// Shows CH-R55, CH-R90.
#[test]
fn both_ends_close_at_once_and_every_value_is_dropped() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    const ROUNDS: usize = 500;
    for _ in 0..ROUNDS {
        let (near, far) = Channel::pair();
        let start = Barrier::new(2);
        let close = |end: Channel| {
            start.wait();
            for _ in 0..2 {
                // Refused or not, the value ends.
                drop(end.write(Message::new().with(Handle::value(Counted(Arc::clone(&dropped))))));
            }
            drop(end);
        };
        thread::scope(|threads| {
            threads.spawn(|| close(near));
            threads.spawn(|| close(far));
        });
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 4 * ROUNDS);
}

/// A writer that meets the limit waits for the reader and loses nothing; the queue never holds more.
#[test]
fn a_limited_channel_never_holds_more_and_loses_nothing() {
    const MESSAGES: u64 = 5000;
    let (near, far) = Channel::pair_with(Limits::default().messages(4));
    thread::scope(|threads| {
        threads.spawn(|| {
            for n in 0..MESSAGES {
                let mut message = bytes(n);
                while let Err(refused) = near.write(message) {
                    assert_eq!(refused.status(), Status::ShouldWait);
                    message = refused.into_message();
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < MESSAGES {
            assert!(far.queued_messages() <= 4);
            match far.try_read() {
                Ok(message) => {
                    assert_eq!(value(&message), next);
                    next += 1;
                }
                Err(_) => thread::yield_now(),
            }
        }
    });
}

/// Every driver's dispatcher goes down while all of them write to each other; the sums agree at every level.
#[test]
fn drivers_that_write_to_each_other_go_down_one_by_one() {
    const DRIVERS: usize = 6;
    const ROUNDS: usize = 30;
    for _ in 0..ROUNDS {
        let runtime = pool_of(2);
        let drivers: Vec<_> = (0..DRIVERS).map(|n| runtime.new_driver(format!("driver {n}"))).collect();
        let homes: Vec<_> = drivers
            .iter()
            .map(|driver| driver.new_dispatcher(DispatcherBuilder::new().name("home")).expect("created").release())
            .collect();
        let (over, is_over) = channel();
        let (sum, told): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let mut written = Vec::new();
        for (n, home) in homes.iter().enumerate() {
            let (near, far) = Channel::pair();
            let reader = Reader {
                end: far,
                home: homes[(n + 1) % DRIVERS].clone(),
                sum: Arc::clone(&sum),
                told: Arc::clone(&told),
                over: over.clone(),
            };
            Arc::new(reader).listen();
            let count = Arc::new(AtomicUsize::new(0));
            written.push(Arc::clone(&count));
            let posted = home.post_task(move |_| {
                for _ in 0..50 {
                    if near.write(bytes(1)).is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            assert!(posted.is_ok());
        }
        for driver in &drivers {
            driver.shutdown(|| ()).expect("the first time");
        }
        for _ in 0..DRIVERS {
            let last = within(&is_over, "a reader's last word");
            assert!(matches!(last, Status::PeerClosed | Status::Canceled), "{last}");
        }
        end(&runtime);
        let written: usize = written.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        assert!(sum.load(Ordering::Relaxed) <= written);
        assert!(is_over.try_recv().is_err(), "each reader had one last word");
        for (driver, home) in drivers.iter().zip(&homes) {
            assert!(home.counters().add_up() && driver.counters().add_up());
        }
        let sum: fuchsine_dispatcher::Counters = drivers.iter().map(|driver| driver.counters()).sum();
        assert_eq!(sum, runtime.counters());
        assert_eq!(runtime.counters().accepted, runtime.counters().ran + runtime.counters().canceled);
    }
}
