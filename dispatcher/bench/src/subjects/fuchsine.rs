//! Fuchsine: closures posted to synchronized dispatchers, and messages by channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Message, Runtime, RuntimeBuilder, Status,
};

use super::{CROSSINGS, HOPS, PAYLOAD, POSTS};
use crate::report::{Sample, Stopwatch};
use crate::workload::Workload;

pub(crate) fn measure(workload: Workload) -> Sample {
    match workload {
        Workload::PostThroughput => throughput(),
        Workload::SelfPost => self_post(),
        Workload::PingPongOneThread => ping_pong(1, HOPS),
        Workload::PingPongTwoThreads => ping_pong(2, CROSSINGS),
        Workload::ChannelInline => channel_trips(false, HOPS),
        Workload::ChannelHop => channel_trips(true, CROSSINGS),
        _ => unreachable!("the other workloads are not those of dispatchers"),
    }
}

fn runtime(threads: usize) -> Runtime {
    RuntimeBuilder::new().threads(threads).build().expect("the system has threads")
}

fn dispatcher(runtime: &Runtime, name: &str) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

fn finish(runtime: &Runtime, sample: Sample) -> Sample {
    let ended = runtime.shutdown(Duration::from_secs(30)).is_ok();
    let adds_up = runtime.counters().add_up();
    Sample { ok: sample.ok && ended && adds_up, ..sample }
}

fn throughput() -> Sample {
    let runtime = runtime(2);
    let target = dispatcher(&runtime, "target");
    let seen = Arc::new(AtomicU64::new(0));
    let (done, finished) = channel();
    let watch = Stopwatch::start();
    for _ in 0..POSTS {
        let seen = Arc::clone(&seen);
        target.post_task(move |_| count(&seen)).expect("accepted");
    }
    target.post_task(move |_| done.send(()).expect("it is awaited")).expect("accepted");
    finished.recv().expect("all ran");
    let sample = watch.stop(POSTS, seen.load(Ordering::Relaxed) == POSTS);
    finish(&runtime, sample)
}

/// Counts by a plain read and write: two callbacks at once would lose counts.
fn count(seen: &AtomicU64) {
    seen.store(seen.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

struct Hopper {
    left: u64,
    own: DispatcherHandle,
    done: Sender<()>,
}

fn hop(mut hopper: Box<Hopper>) {
    hopper.left -= 1;
    if hopper.left == 0 {
        hopper.done.send(()).expect("it is awaited");
        return;
    }
    let own = hopper.own.clone();
    own.post_task(move |_| hop(hopper)).expect("accepted");
}

fn self_post() -> Sample {
    let runtime = runtime(2);
    let target = dispatcher(&runtime, "target");
    let (done, finished) = channel();
    let hopper = Box::new(Hopper { left: HOPS, own: target.handle(), done });
    let watch = Stopwatch::start();
    target.post_task(move |_| hop(hopper)).expect("accepted");
    let ended = finished.recv().is_ok();
    let sample = watch.stop(HOPS, ended && target.counters().ran == HOPS);
    finish(&runtime, sample)
}

struct Ball {
    left: u64,
    here: DispatcherHandle,
    there: DispatcherHandle,
    done: Sender<()>,
}

fn strike(mut ball: Box<Ball>) {
    ball.left -= 1;
    if ball.left == 0 {
        ball.done.send(()).expect("it is awaited");
        return;
    }
    let Ball { here, there, .. } = &mut *ball;
    std::mem::swap(here, there);
    let next = ball.here.clone();
    next.post_task(move |_| strike(ball)).expect("accepted");
}

fn ping_pong(threads: usize, trips: u64) -> Sample {
    let runtime = runtime(threads);
    let (near, far) = (dispatcher(&runtime, "near"), dispatcher(&runtime, "far"));
    let (done, finished) = channel();
    let ball = Box::new(Ball { left: trips * 2, here: near.handle(), there: far.handle(), done });
    let watch = Stopwatch::start();
    near.post_task(move |_| strike(ball)).expect("accepted");
    let ended = finished.recv().is_ok();
    let sample = watch.stop(trips, ended && near.counters().ran + far.counters().ran == trips * 2);
    finish(&runtime, sample)
}

/// The server: reads each request where it arrives and sends it back in the memory it came in.
fn serve(end: Arc<Channel>, home: DispatcherHandle) {
    let (reader, handle) = (Arc::clone(&end), home.clone());
    let registered = end.begin_read(&handle, move |outcome| {
        if outcome.is_err() {
            return;
        }
        while let Ok(message) = reader.try_read() {
            reader.write(message).expect("the client listens");
        }
        serve(reader, home);
    });
    // Refused only because the client is gone or the dispatcher shuts down.
    drop(registered);
}

struct Client {
    end: Arc<Channel>,
    home: DispatcherHandle,
    left: u64,
    done: Sender<u64>,
}

/// The client: registers for the reply, then sends the request. The reply is told on this very dispatcher.
fn ask(mut client: Box<Client>, message: Message) {
    let (end, home) = (Arc::clone(&client.end), client.home.clone());
    let writer = Arc::clone(&end);
    end.begin_read(&home, move |outcome| {
        assert_eq!(outcome, Ok(()), "the server answers");
        let message = client.end.try_read().expect("a reply is there");
        assert_eq!(message.bytes().len(), PAYLOAD);
        client.left -= 1;
        if client.left == 0 {
            client.done.send(0).expect("it is awaited");
            return;
        }
        ask(client, message);
    })
    .map_err(Status::from)
    .expect("registered");
    writer.write(message).expect("the server listens");
}

/// Round trips between two drivers. Without sync calls the server runs inline on the client's thread; where both allow
/// sync calls and the client writes from outside, each message takes a hop.
fn channel_trips(hop: bool, trips: u64) -> Sample {
    let runtime = runtime(if hop { 2 } else { 1 });
    let builder = || {
        let builder = DispatcherBuilder::new();
        if hop { builder.allow_sync_calls() } else { builder }
    };
    let client = runtime.new_driver("client").new_dispatcher(DispatcherBuilder::new().name("client")).expect("created");
    let server = runtime.new_driver("server").new_dispatcher(builder().name("server")).expect("created");
    let (near, far) = Channel::pair();
    serve(Arc::new(far), server.handle());
    let (done, finished) = channel();
    let asking = Box::new(Client { end: Arc::new(near), home: client.handle(), left: trips, done });
    let watch = Stopwatch::start();
    client.post_task(move |_| ask(asking, Message::from_bytes(&[1; PAYLOAD]))).expect("accepted");
    let ended = finished.recv().is_ok();
    let sample = watch.stop(trips, ended);
    let inlined = server.dump().inlined;
    let as_meant = if hop { inlined == 0 } else { inlined >= trips };
    finish(&runtime, Sample { ok: sample.ok && as_meant, ..sample })
}
