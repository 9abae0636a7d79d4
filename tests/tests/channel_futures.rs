//! Goal: `channel.read().await` gives every message once, whatever futures are dropped on the way.
//! Method: futures on the foreground runtime, futures polled by hand, and many at once on a pool.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::{HANG, Log, add_up, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{Channel, Dispatcher, DispatcherBuilder, Message, Runtime, Status, timeout};

#[track_caller]
fn dispatcher(runtime: &Runtime, name: &str) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

fn bytes(value: u64) -> Message {
    Message::from_bytes(&value.to_le_bytes())
}

fn value(message: &Message) -> u64 {
    u64::from_le_bytes(message.bytes().try_into().expect("eight bytes"))
}

/// Counts its wakes.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Woken {
    fn new() -> (Arc<Woken>, Waker) {
        let woken = Arc::new(Woken::default());
        (Arc::clone(&woken), Waker::from(woken))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// RC-02.
///
/// Shows RC-2.
#[test]
fn messages_are_awaited_in_order_until_the_peer_closes() {
    let runtime = ForegroundRuntime::new();
    let reader = dispatcher(&runtime, "reader");
    let (near, far) = Channel::pair();
    let log = Log::new();
    let entry = log.clone();
    let reading = reader
        .spawn(async move {
            loop {
                match far.read().await {
                    Ok(message) => entry.add(value(&message).to_string()),
                    Err(status) => return status,
                }
            }
        })
        .expect("accepted");
    runtime.run_until_idle();
    near.write(bytes(1)).expect("written");
    runtime.run_until_idle();
    near.write(bytes(2)).expect("written");
    near.write(bytes(3)).expect("written");
    runtime.run_until_idle();
    near.write(bytes(4)).expect("written");
    drop(near);
    runtime.run_until_idle();
    assert_eq!(log.take(), ["1", "2", "3", "4"]);
    assert!(reading.is_finished());
    let counters = reader.counters();
    assert_eq!((counters.accepted, counters.ran), (1, 1), "one future, and no callbacks");
    add_up(&runtime);
}

/// RC-05: two drivers throw a message back and forth, which stays in the memory that it began in.
///
/// Shows RC-5.
#[test]
fn two_futures_play_with_one_message() {
    async fn play(end: Channel, place: usize) -> Result<u64, Status> {
        loop {
            let message = end.read().await?;
            let count = value(&message);
            assert_eq!(message.bytes().as_ptr().addr(), place);
            if count > 10 {
                return Ok(count);
            }
            let mut answer = message.recycle(8);
            answer.bytes_mut().copy_from_slice(&(count + 1).to_le_bytes());
            end.write(answer)?;
        }
    }
    let runtime = ForegroundRuntime::new();
    let (one, two) = (dispatcher(&runtime, "one"), dispatcher(&runtime, "two"));
    let (near, far) = Channel::pair();
    let first = bytes(0);
    let place = first.bytes().as_ptr().addr();
    near.write(first).expect("written");
    let log = Log::new();
    for (dispatcher, end, name) in [(&one, near, "one"), (&two, far, "two")] {
        let entry = log.clone();
        let _playing = dispatcher
            .spawn(async move { entry.add(format!("{name} {:?}", play(end, place).await)) })
            .expect("accepted");
    }
    runtime.run_until_idle();
    assert_eq!(log.take(), ["one Ok(11)", "two Err(PeerClosed)"]);
    add_up(&runtime);
}

/// RF-01, RF-02.
///
/// Shows D12, RC-2, RF-1, RF-2.
#[test]
fn a_future_that_is_dropped_early_loses_nothing_and_frees_the_end() {
    let (near, far) = Channel::pair();
    drop(far.read());
    let (woken, waker) = Woken::new();
    let mut cx = Context::from_waker(&waker);
    {
        let mut reading = pin!(far.read());
        assert!(reading.as_mut().poll(&mut cx).is_pending());
        let mut other = pin!(far.read());
        assert!(matches!(other.as_mut().poll(&mut cx), Poll::Ready(Err(Status::BadState))), "one waits already");
    }
    near.write(bytes(1)).expect("written");
    assert_eq!(woken.count(), 0, "nobody waits");
    {
        let mut reading = pin!(far.read());
        assert!(matches!(reading.as_mut().poll(&mut cx), Poll::Ready(Ok(message)) if value(&message) == 1));
    }
    {
        let mut reading = pin!(far.read());
        assert!(reading.as_mut().poll(&mut cx).is_pending());
        near.write(bytes(2)).expect("written");
        assert_eq!(woken.count(), 1);
        // Woken, and dropped before it is polled again.
    }
    assert_eq!(value(&far.try_read().expect("it was not lost")), 2);
}

/// RF-05.
///
/// Shows RF-5.
#[test]
fn ten_thousand_reads_are_begun_and_dropped() {
    let (near, far) = Channel::pair();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..10_000 {
        let mut reading = pin!(far.read());
        assert!(reading.as_mut().poll(&mut cx).is_pending());
    }
    near.write(bytes(1)).expect("written");
    let mut reading = pin!(far.read());
    assert!(reading.as_mut().poll(&mut cx).is_ready());
}

#[test]
fn the_task_that_polled_last_is_woken() {
    let (near, far) = Channel::pair();
    let ((first, first_waker), (second, second_waker)) = (Woken::new(), Woken::new());
    let mut reading = pin!(far.read());
    assert!(reading.as_mut().poll(&mut Context::from_waker(&first_waker)).is_pending());
    assert!(reading.as_mut().poll(&mut Context::from_waker(&second_waker)).is_pending());
    drop(near);
    assert_eq!((first.count(), second.count()), (0, 1));
    let outcome = reading.as_mut().poll(&mut Context::from_waker(&second_waker));
    assert!(matches!(outcome, Poll::Ready(Err(Status::PeerClosed))));
}

#[test]
fn a_message_that_somebody_else_took_leaves_the_future_waiting_for_the_next() {
    let (near, far) = Channel::pair();
    let (woken, waker) = Woken::new();
    let mut cx = Context::from_waker(&waker);
    let mut reading = pin!(far.read());
    assert!(reading.as_mut().poll(&mut cx).is_pending());
    near.write(bytes(1)).expect("written");
    drop(far.try_read().expect("there is one"));
    assert!(reading.as_mut().poll(&mut cx).is_pending());
    near.write(bytes(2)).expect("written");
    assert_eq!(woken.count(), 2);
    assert!(matches!(reading.as_mut().poll(&mut cx), Poll::Ready(Ok(message)) if value(&message) == 2));
}

#[test]
fn a_future_and_a_registered_read_exclude_each_other() {
    let runtime = ForegroundRuntime::new();
    let reader = dispatcher(&runtime, "reader");
    let (near, far) = Channel::pair();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut reading = pin!(far.read());
        assert!(reading.as_mut().poll(&mut cx).is_pending());
        let refused = far.begin_read(&reader, |_| ()).expect_err("a future waits");
        assert_eq!(refused.status(), Status::BadState);
        assert!(far.cancel_read().is_err(), "a future is no registration");
    }
    far.begin_read(&reader, |_| ()).expect("the future is gone");
    let mut reading = pin!(far.read());
    assert!(matches!(reading.as_mut().poll(&mut cx), Poll::Ready(Err(Status::BadState))));
    drop(near);
    runtime.run_until_idle();
    assert_eq!(reader.counters().refused, 1);
    add_up(&runtime);
}

/// Promise 8 for futures: dropped on their dispatcher; the end and its messages are whole.
///
/// Shows RF-4.
#[test]
fn a_future_that_waits_is_dropped_by_the_shutdown_and_its_end_reads_on() {
    let runtime = ForegroundRuntime::new();
    let reader = dispatcher(&runtime, "reader");
    let (near, far) = Channel::pair();
    let far = Arc::new(far);
    let end = Arc::clone(&far);
    let reading = reader.spawn(async move { end.read().await.map(|message| value(&message)) }).expect("accepted");
    runtime.run_until_idle();
    reader.shutdown_async();
    near.write(bytes(1)).expect("the end is open");
    runtime.run_until_idle();
    assert!(reading.is_finished());
    assert_eq!(Arc::strong_count(&far), 1, "the future is gone");
    assert_eq!(value(&far.try_read().expect("it was not lost")), 1);
    let counters = reader.counters();
    assert_eq!((counters.accepted, counters.canceled, counters.pending), (1, 1, 0));
    add_up(&runtime);
}

#[test]
fn a_read_with_a_time_limit_gives_up_without_losing_what_comes_later() {
    let runtime = ForegroundRuntime::new();
    let reader = dispatcher(&runtime, "reader");
    let (near, far) = Channel::pair();
    let log = Log::new();
    let entry = log.clone();
    let _reading = reader
        .spawn(async move {
            let first = timeout(Duration::from_millis(10), far.read()).await;
            entry.add(format!("first {:?}", first.err().map(|elapsed| elapsed.status())));
            let second = timeout(Duration::from_millis(10), far.read()).await;
            entry.add(format!("second {}", second.is_ok_and(|read| read.is_ok())));
        })
        .expect("accepted");
    runtime.advance(Duration::from_millis(15));
    near.write(bytes(1)).expect("written");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["first Some(TimedOut)", "second true"]);
    runtime.shutdown().expect("nothing is stuck");
    add_up(&runtime);
}

/// Many futures on many threads; each message is echoed, and the sums agree.
#[test]
fn futures_on_a_pool_echo_every_message_once() {
    const PAIRS: u64 = 50;
    const EACH: u64 = 200;
    let runtime = pool_of(3);
    let server = runtime
        .new_driver("server")
        .new_dispatcher(DispatcherBuilder::new().name("server").unsynchronized())
        .expect("created");
    let client = dispatcher(&runtime, "client");
    let (done, is_done) = channel();
    let sums = Arc::new(Mutex::new(Vec::new()));
    for pair in 0..PAIRS {
        let (near, far) = Channel::pair();
        let _serving = server
            .spawn(async move {
                while let Ok(message) = far.read().await {
                    far.write(message).expect("the client waits for it");
                }
            })
            .expect("accepted");
        let (sums, done) = (Arc::clone(&sums), done.clone());
        let _asking = client
            .spawn(async move {
                let mut sum = 0;
                for n in 0..EACH {
                    near.write(bytes(pair * EACH + n)).expect("the server reads");
                    sum += value(&near.read().await.expect("an echo"));
                }
                sums.lock().expect("no panic").push(sum);
                done.send(()).expect("the test waits");
            })
            .expect("accepted");
    }
    for _ in 0..PAIRS {
        within(&is_done, "a client's end");
    }
    let total: u64 = sums.lock().expect("no panic").iter().sum();
    assert_eq!(total, (0..PAIRS * EACH).sum());
    runtime.shutdown(HANG).expect("in time");
    add_up(&runtime);
    assert_eq!(runtime.counters().pending, 0);
}
