//! Round trips between two drivers of ours.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Message, Runtime, RuntimeBuilder};

use super::{CROSSINGS, TRIPS, lines_are, trips, write_lines};
use crate::sample::{Sample, Stopwatch};

pub(crate) fn runtime(threads: usize) -> Runtime {
    RuntimeBuilder::new().threads(threads).build().expect("the system has threads")
}

/// A dispatcher of a driver of its own.
pub(crate) fn dispatcher(runtime: &Runtime, name: &str, builder: DispatcherBuilder) -> DispatcherHandle {
    let created = runtime.new_driver(name).new_dispatcher(builder.name(name));
    created.expect("a runtime that runs creates dispatchers").release()
}

/// Ends the runtime; a sample counts only if all that was posted has ended.
pub(crate) fn finish(runtime: &Runtime, sample: Sample) -> Sample {
    let ended = runtime.shutdown(Duration::from_secs(30)).is_ok();
    sample.if_also(ended && runtime.counters().add_up())
}

/// A server: reads each request where it arrives, and sends it back in the memory it came in.
pub(crate) fn echo(end: Arc<Channel>, home: DispatcherHandle, mut look: impl FnMut(&Message) + Send + 'static) {
    let (reader, handle) = (Arc::clone(&end), home.clone());
    let registered = end.begin_read(&handle, move |outcome| {
        if outcome.is_err() {
            return;
        }
        while let Ok(message) = reader.try_read() {
            look(&message);
            reader.write(message).expect("the client listens");
        }
        echo(reader, home, look);
    });
    // Refused only because the client is gone or the dispatcher shuts down.
    drop(registered);
}

struct Client {
    end: Arc<Channel>,
    home: DispatcherHandle,
    trips: u64,
    seen: u64,
    done: Sender<u64>,
}

/// The client: registers for the reply, then sends the request. The reply is told on this very dispatcher.
fn ask(mut client: Box<Client>, mut message: Message) {
    let (end, home) = (Arc::clone(&client.end), client.home.clone());
    let writer = Arc::clone(&end);
    write_lines(message.bytes_mut(), client.seen as u8);
    end.begin_read(&home, move |outcome| {
        assert_eq!(outcome, Ok(()), "the server answers");
        let message = client.end.try_read().expect("a reply is there");
        assert!(lines_are(message.bytes(), client.seen as u8), "the reply is whole");
        client.seen += 1;
        if client.seen == client.trips {
            client.done.send(client.seen).expect("it is awaited");
            return;
        }
        ask(client, message);
    })
    .expect("registered");
    writer.write(message).expect("the server listens");
}

/// The same with reads that stand: the handler of each reply sends the next request.
pub(super) fn standing_round_trips(size: usize) -> Sample {
    let runtime = runtime(1);
    let trips = trips(TRIPS, size);
    let (client, server) = (
        dispatcher(&runtime, "client", DispatcherBuilder::new()),
        dispatcher(&runtime, "server", DispatcherBuilder::new()),
    );
    let (near, far) = Channel::pair();
    let (near, far) = (Arc::new(near), Arc::new(far));
    let (end, mut stamp) = (Arc::clone(&far), 0_u8);
    far.begin_standing_read(&server, move |_| {
        while let Ok(request) = end.try_read() {
            assert!(lines_are(request.bytes(), stamp), "the request is whole");
            stamp = stamp.wrapping_add(1);
            end.write(request).expect("the client listens");
        }
        ControlFlow::Continue(())
    })
    .expect("registered");
    let (done, finished) = channel();
    let (end, mut seen) = (Arc::clone(&near), 0);
    near.begin_standing_read(&client, move |outcome| {
        assert_eq!(outcome, Ok(()), "the server answers");
        let mut message = end.try_read().expect("a reply is there");
        assert!(lines_are(message.bytes(), seen as u8), "the reply is whole");
        seen += 1;
        if seen == trips {
            done.send(seen).expect("it is awaited");
            return ControlFlow::Break(());
        }
        write_lines(message.bytes_mut(), seen as u8);
        end.write(message).expect("the server listens");
        ControlFlow::Continue(())
    })
    .expect("registered");
    let first = Message::with_len(size);
    let watch = Stopwatch::start();
    client.post_task(move |_| near.write(first).expect("the server listens")).expect("accepted");
    let seen = finished.recv();
    let sample = watch.stop(trips, seen == Ok(trips));
    let inlined = server.dump().inlined;
    finish(&runtime, sample.if_also(inlined >= trips)).named("standing reads")
}

/// The same with handlers that are handed each message.
pub(super) fn handed_round_trips(size: usize) -> Sample {
    let runtime = runtime(1);
    let trips = trips(TRIPS, size);
    let (client, server) = (
        dispatcher(&runtime, "client", DispatcherBuilder::new()),
        dispatcher(&runtime, "server", DispatcherBuilder::new()),
    );
    let (near, far) = Channel::pair();
    let (near, far) = (Arc::new(near), Arc::new(far));
    let (end, mut stamp) = (Arc::clone(&far), 0_u8);
    far.begin_receiving(&server, move |request| {
        let Ok(request) = request else { return ControlFlow::Break(()) };
        assert!(lines_are(request.bytes(), stamp), "the request is whole");
        stamp = stamp.wrapping_add(1);
        end.write(request).expect("the client listens");
        ControlFlow::Continue(())
    })
    .expect("registered");
    let (done, finished) = channel();
    let (end, mut seen) = (Arc::clone(&near), 0);
    near.begin_receiving(&client, move |reply| {
        let mut message = reply.expect("the server answers");
        assert!(lines_are(message.bytes(), seen as u8), "the reply is whole");
        seen += 1;
        if seen == trips {
            done.send(seen).expect("it is awaited");
            return ControlFlow::Break(());
        }
        write_lines(message.bytes_mut(), seen as u8);
        end.write(message).expect("the server listens");
        ControlFlow::Continue(())
    })
    .expect("registered");
    let first = Message::with_len(size);
    let watch = Stopwatch::start();
    client.post_task(move |_| near.write(first).expect("the server listens")).expect("accepted");
    let seen = finished.recv();
    let sample = watch.stop(trips, seen == Ok(trips));
    let inlined = server.dump().inlined;
    finish(&runtime, sample.if_also(inlined >= trips)).named("handed messages")
}

/// Without sync calls the server runs inline on the client's thread; where it allows sync calls, each request takes a hop.
pub(super) fn round_trips(size: usize, hop: bool) -> Sample {
    let runtime = runtime(if hop { 2 } else { 1 });
    let trips = trips(if hop { CROSSINGS } else { TRIPS }, size);
    let client = dispatcher(&runtime, "client", DispatcherBuilder::new());
    let builder = DispatcherBuilder::new();
    let server = dispatcher(&runtime, "server", if hop { builder.allow_sync_calls() } else { builder });
    let (near, far) = Channel::pair();
    let mut stamp = 0_u8;
    echo(Arc::new(far), server.clone(), move |request| {
        assert!(lines_are(request.bytes(), stamp), "the request is whole");
        stamp = stamp.wrapping_add(1);
    });
    let (done, finished) = channel();
    let asking = Box::new(Client { end: Arc::new(near), home: client.clone(), trips, seen: 0, done });
    let first = Message::with_len(size);
    let watch = Stopwatch::start();
    client.post_task(move |_| ask(asking, first)).expect("accepted");
    let seen = finished.recv();
    let sample = watch.stop(trips, seen == Ok(trips));
    let inlined = server.dump().inlined;
    finish(&runtime, sample.if_also(if hop { inlined == 0 } else { inlined >= trips }))
}
