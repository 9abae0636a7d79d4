//! Round trips by channel: a burst of messages, a blocking call, an empty call of a protocol.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use fuchsine_dispatcher::{
    Channel, Client, DispatcherBuilder, DispatcherHandle, Incoming, Instant, Message, Protocol, Status,
};

use super::{LONG, ours, repeat};
use crate::channels::fuchsine::{dispatcher, echo, finish, runtime};
use crate::sample::{Sample, Stopwatch};
use crate::workload::{Workload, scaled};

/// Takes replies until all have come back.
struct Collecting {
    end: Arc<Channel>,
    home: DispatcherHandle,
    want: usize,
    replies: Vec<Message>,
    done: Sender<Vec<Message>>,
}

fn collect(mut collecting: Box<Collecting>) {
    let (end, home) = (Arc::clone(&collecting.end), collecting.home.clone());
    let handler = move |_| {
        while let Ok(reply) = collecting.end.try_read() {
            collecting.replies.push(reply);
        }
        if collecting.replies.len() < collecting.want {
            collect(collecting);
        } else {
            collecting.done.send(collecting.replies).expect("it is awaited");
        }
    };
    let registered = end.begin_read(&home, handler);
    assert!(registered.is_ok(), "the server is here");
}

/// A burst of messages to a server and back, each sent on in the memory it came in; a run is a burst.
fn bursts(messages: usize, size: usize, builder: fn() -> DispatcherBuilder) -> Sample {
    let runtime = runtime(2);
    let client = dispatcher(&runtime, "client", builder());
    let server = dispatcher(&runtime, "server", builder());
    let (near, far) = Channel::pair();
    echo(Arc::new(far), server, |_| ());
    let near = Arc::new(near);
    let (done, told) = channel();
    let mut burst: Vec<Message> = (0..messages).map(|_| Message::with_len(size)).collect();
    let sample = repeat(if messages == 1 { LONG } else { LONG / 20 }, || {
        let (home, done) = (client.clone(), done.clone());
        let replies = Vec::with_capacity(messages);
        collect(Box::new(Collecting { end: Arc::clone(&near), home, want: messages, replies, done }));
        let (writer, requests) = (Arc::clone(&near), std::mem::take(&mut burst));
        let write = move |_| requests.into_iter().for_each(|request| writer.write(request).expect("it is read"));
        client.post_task(write).expect("accepted");
        burst = told.recv().unwrap_or_default();
        burst.len() == messages && burst.iter().all(|reply| reply.len() == size)
    });
    finish(&runtime, sample)
}

/// Runs `body` on a dispatcher that may block, beside a synchronized one of another driver.
fn on_client(body: impl FnOnce(DispatcherHandle) -> Sample + Send + 'static) -> Sample {
    let runtime = runtime(2);
    let client = dispatcher(&runtime, "client", DispatcherBuilder::new().allow_sync_calls());
    let server = dispatcher(&runtime, "server", DispatcherBuilder::new());
    let (done, told) = channel();
    client.post_task(move |_| done.send(body(server)).expect("it is awaited")).expect("accepted");
    let sample = told.recv().expect("it ends");
    finish(&runtime, sample)
}

fn channel_call() -> Sample {
    on_client(|server| {
        const SIZE: usize = 65_536;
        let (near, far) = Channel::pair();
        echo(Arc::new(far), server, |_| ());
        let mut message = Some(Message::with_len(SIZE));
        repeat(LONG * 10, || {
            let request = message.take().expect("it came back");
            message = near.call(request, Instant::INFINITE).ok();
            message.as_ref().is_some_and(|reply| reply.len() == SIZE)
        })
    })
}

/// A protocol with one call, without anything in it.
struct Empty;

impl Protocol for Empty {
    type Request = ();
    type Reply = ();
    type Event = ();
}

fn empty_call() -> Sample {
    on_client(|home| {
        let (client, server) = Client::<Empty>::pair();
        let served = server.serve(&home, |incoming: Result<Incoming<Empty>, Status>| {
            if let Ok(Incoming::Call((), responder)) = incoming {
                responder.reply(()).expect("the client waits");
            }
        });
        assert!(served.is_ok(), "the client is here");
        let runs = scaled(LONG * 10);
        let watch = Stopwatch::start();
        let answered = (0..runs).filter(|_| client.call((), Instant::INFINITE).is_ok()).count();
        watch.stop(runs, answered as u64 == runs)
    })
}

pub(super) fn workloads() -> Vec<Workload> {
    let synchronized: fn() -> DispatcherBuilder = DispatcherBuilder::new;
    let sync_calls: fn() -> DispatcherBuilder = || DispatcherBuilder::new().allow_sync_calls();
    let mut all: Vec<_> = [
        ("RoundTrip_ChannelDispatcher_Synchronized", 1, 4, synchronized, "synchronized"),
        ("RoundTrip_ChannelDispatcher_AllowSyncCalls", 1, 4, sync_calls, "that allow sync calls"),
        ("IpcThroughput_BasicChannel_1_64kbytes", 1, 65_536, synchronized, "synchronized"),
        ("IpcThroughput_BasicChannel_1024_4bytes", 1_024, 4, synchronized, "synchronized"),
        ("IpcThroughput_BasicChannel_1024_64kbytes", 1_024, 65_536, synchronized, "synchronized"),
    ]
    .into_iter()
    .map(|(name, messages, size, builder, kind)| {
        let what = format!("{messages} messages of {size} bytes there and back, both dispatchers {kind}");
        ours(name, what, move || bursts(messages, size, builder))
    })
    .collect();
    let what = "a blocking call with 64 KiB, the server runs inline on the caller's thread";
    all.push(ours("RoundTrip_ChannelCall", what, channel_call));
    all.push(ours("FidlInlineEmptyCall", "the same with a typed protocol and nothing in it", empty_call));
    all
}
