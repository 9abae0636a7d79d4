//! What becomes of a hot path when there is more of something: its instructions and its misses of a cache, both counted.
//!
//! The bench measures the same as S1. There a cost that grows is either more work or colder memory, and a clock does not tell
//! which; instructions tell the first and a simulated cache the second.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use fuchsine_dispatcher::{Channel, DispatcherHandle, Message};

use super::paths::{dispatcher, finish, hold, in_a_callback, post_many, runtime};
use crate::random::Random;

/// A path with something of which there may be more.
pub(crate) struct Growing {
    pub(crate) name: &'static str,
    /// What one operation is.
    pub(crate) what: &'static str,
    pub(crate) sizes: &'static [u64],
    /// With so much of it does so many operations.
    pub(crate) run: fn(size: u64, operations: u64),
}

/// All of them, under the names of their workloads.
pub(crate) const GROWING: &[Growing] = &[
    Growing {
        name: "S1-producers",
        what: "a post by one of so many threads, and its callback",
        sizes: &[1, 2, 4, 8],
        run: producers,
    },
    Growing {
        name: "S1-dispatchers",
        what: "a hop of one of 100 tokens around a ring of so many dispatchers, on one thread",
        sizes: &[100, 1_000, 10_000, 100_000],
        run: ring,
    },
    Growing {
        name: "S1-timers",
        what: "one of so many far timers is canceled, and another armed",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        run: timers,
    },
    Growing {
        name: "S1-endpoints",
        what: "a message to a random one of so many ends of channels, read inline",
        sizes: &[100, 1_000, 10_000, 100_000],
        run: endpoints,
    },
];

/// One after the other, as valgrind runs one thread at a time; the pool is held meanwhile.
fn producers(size: u64, operations: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let target = dispatcher(&runtime, "target");
    let release = hold(&runtime);
    let mut ends = Vec::new();
    thread::scope(|scope| {
        let posting: Vec<_> =
            (0..size).map(|_| scope.spawn(|| post_many(&target.handle(), operations / size))).collect();
        ends.extend(posting.into_iter().map(|thread| thread.join().expect("it does not panic")));
    });
    release.send(()).expect("it is held");
    for (_, end) in &ends[1..] {
        end.recv().expect("every operation happened");
    }
    finish(&runtime, &ends[0].1);
    assert_eq!(target.counters().ran, (operations / size + 1) * size);
}

const TOKENS: u64 = 100;

struct Token {
    stations: Arc<Vec<DispatcherHandle>>,
    at: usize,
    left: u64,
    ended: Sender<()>,
}

fn hop(mut token: Box<Token>) {
    if token.left == 0 {
        // Nobody waits for all but the first.
        let _ = token.ended.send(());
        return;
    }
    token.left -= 1;
    token.at = if token.at + 1 == token.stations.len() { 0 } else { token.at + 1 };
    let stations = Arc::clone(&token.stations);
    stations[token.at].post_task(move |_| hop(token)).expect("accepted");
}

/// Once around before anything counts, since each dispatcher makes its row with its first post.
fn ring(size: u64, operations: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let driver = runtime.new_driver("ring");
    let made = |_| driver.new_dispatcher(fuchsine_dispatcher::DispatcherBuilder::new()).expect("created").release();
    let stations: Arc<Vec<_>> = Arc::new((0..size).map(made).collect());
    let release = hold(&runtime);
    let (ended, end) = channel();
    for token in 0..TOKENS {
        let at = (token * size / TOKENS) as usize;
        let left = size / TOKENS + operations / TOKENS;
        let token = Box::new(Token { stations: Arc::clone(&stations), at, left, ended: ended.clone() });
        stations[at].post_task(move |_| hop(token)).expect("accepted");
    }
    release.send(()).expect("it is held");
    for _ in 1..TOKENS {
        end.recv().expect("every operation happened");
    }
    drop(stations);
    finish(&runtime, &end);
}

/// Later than any run lasts, and each at another time.
fn far(number: u64) -> Duration {
    Duration::from_millis(1_000_000 + number % 1_000_000)
}

fn timers(size: u64, operations: u64) {
    in_a_callback(move |own, ended| {
        let arm = |number| own.post_after(far(number), |_| ()).expect("accepted");
        // In scrambled order from the first: at the end they are told in the order of their times, which sorts them.
        let mut random = Random::new();
        let mut armed: Vec<_> = (0..size).map(|_| arm(random.next())).collect();
        for _ in 0..operations {
            let number = random.next();
            let place = &mut armed[(number % size) as usize];
            assert!(place.cancel().is_ok(), "it is far");
            *place = arm(number);
        }
        ended.send(()).expect("it is awaited");
    });
}

fn listen(end: Arc<Channel>, home: DispatcherHandle) {
    let (reader, handle) = (Arc::clone(&end), home.clone());
    let registered = end.begin_read(&handle, move |_| {
        if reader.try_read().is_ok() {
            listen(reader, home);
        }
    });
    // Refused only because the writer is gone or the dispatcher shuts down.
    drop(registered);
}

/// Each once before anything counts, since a channel makes its queue with its first message.
fn endpoints(size: u64, operations: u64) {
    let runtime = runtime().build().expect("the system has threads");
    let (writer, home) = (dispatcher(&runtime, "writer"), dispatcher(&runtime, "reader"));
    let pairs = size / 2;
    let made = |_| {
        let (near, far) = Channel::pair();
        listen(Arc::new(far), home.handle());
        near
    };
    let writers: Vec<Channel> = (0..pairs).map(made).collect();
    let (ended, end) = channel();
    let body = move |_| {
        let write = |to: &Channel| to.write(Message::new()).expect("it is read");
        writers.iter().for_each(write);
        let mut random = Random::new();
        for _ in 0..operations {
            write(&writers[(random.next() % pairs) as usize]);
        }
        ended.send(()).expect("it is awaited");
        // They are closed when all has been counted that is to be.
        drop(writers);
    };
    writer.post_task(body).expect("accepted");
    end.recv().expect("every operation happened");
    assert!(home.dump().inlined >= pairs + operations, "each was read inline");
    runtime.shutdown(Duration::from_secs(300)).expect("the runtime ends");
}
