//! Goal: a channel with limits tells its writer when it is full and when there is room again, exactly once a wait.
//! Method: scenarios on the foreground runtime, where the order of steps is the point, and a long stream on every pool.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use common::Log;
use fuchsine_dispatcher::{Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Kind, Limits, Message, Status};
use fuchsine_tests::pools::{World, in_the_foreground, on_every_pool};

fn dispatcher(world: &World, name: &str) -> Dispatcher {
    world.driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

fn sized(len: usize) -> Message {
    Message::with_len(len)
}

#[track_caller]
fn wait_for_room(channel: &Channel, home: &DispatcherHandle, bytes: usize, log: &Log) {
    let log = log.clone();
    channel.begin_writable(home, bytes, move |outcome| log.add(format!("{outcome:?}"))).expect("registered");
}

/// What the original does not have.
///
/// Shows D4, CH-R3.
#[test]
fn a_writer_that_waits_for_room_is_told_once_when_there_is_enough() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "writer");
        let (writer, reader) = Channel::pair_with(Limits::default().bytes(10));
        let log = Log::new();
        for _ in 0..5 {
            writer.write(sized(2)).expect("it fits");
        }
        let refused = writer.write(sized(6)).expect_err("full");
        assert_eq!((refused.status(), refused.message().len()), (Status::ShouldWait, 6));
        wait_for_room(&writer, &home, 6, &log);
        for expected in [8, 6] {
            drop(reader.try_read());
            world.settle();
            assert_eq!((reader.queued_bytes(), log.is_empty()), (expected, true), "not enough for 6 yet");
        }
        drop(reader.try_read());
        world.settle();
        assert_eq!(log.take(), ["Ok(())"]);
        writer.write(refused.into_message()).expect("there is room");
        while reader.try_read().is_ok() {}
        world.settle();
        assert!(log.is_empty(), "it was one wait");
    });
}

#[test]
fn a_wait_for_room_that_is_there_is_told_in_its_turn_and_not_inside_of_the_registration() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "writer");
        let (writer, _reader) = Channel::pair();
        let log = Log::new();
        wait_for_room(&writer, &home, 1000, &log);
        assert!(log.is_empty());
        world.settle();
        assert_eq!(log.take(), ["Ok(())"]);
    });
}

/// A message that alone passes the limit is taken by an empty queue, so the wait for its room ends there.
#[test]
fn room_for_more_than_the_limit_is_there_when_the_queue_is_empty() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "writer");
        let (writer, reader) = Channel::pair_with(Limits::default().bytes(4));
        let log = Log::new();
        writer.write(sized(1)).expect("it fits");
        writer.write(sized(1)).expect("it fits");
        wait_for_room(&writer, &home, 100, &log);
        drop(reader.try_read());
        world.settle();
        assert!(log.is_empty());
        drop(reader.try_read());
        world.settle();
        assert_eq!(log.take(), ["Ok(())"]);
        writer.write(sized(100)).expect("the queue is empty");
    });
}

#[test]
fn a_wait_for_room_is_refused_in_the_order_of_a_read() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "writer");
        let (writer, reader) = Channel::pair_with(Limits::default().messages(1));
        writer.write(sized(1)).expect("it fits");
        let log = Log::new();
        wait_for_room(&writer, &home, 1, &log);
        let again = writer.begin_writable(&home, 1, |_| {}).expect_err("one is registered");
        assert_eq!(again.status(), Status::BadState);
        let mut future = pin!(writer.writable(1));
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(Err(Status::BadState)));
        drop(writer.cancel_writable().expect("it has not begun"));
        assert_eq!(writer.cancel_writable().expect_err("nothing is registered").status(), Status::NotFound);

        let over = dispatcher(world, "over");
        over.shutdown_async();
        world.settle();
        let refused = writer.begin_writable(&over, 1, |_| {}).expect_err("it has shut down");
        assert_eq!(refused.status(), Status::Unavailable);
        assert!(refused.to_string().contains("the wait for room was refused"), "{refused}");
        drop(reader);
        let refused = writer.begin_writable(&over, 1, |_| {}).expect_err("nobody is there");
        assert_eq!(refused.status(), Status::PeerClosed);
        world.settle();
        assert!(log.is_empty(), "the one that was taken back is never told");
    });
}

#[test]
fn a_wait_for_room_ends_with_the_close_of_either_end_and_with_the_shutdown() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "writer");
        let log = Log::new();
        let full = || {
            let (writer, reader) = Channel::pair_with(Limits::default().messages(1));
            writer.write(sized(1)).expect("it fits");
            wait_for_room(&writer, &home, 1, &log);
            (writer, reader)
        };
        let (writer, reader) = full();
        drop(reader);
        world.settle();
        assert_eq!(log.take(), ["Err(PeerClosed)"]);
        drop(writer);
        let (writer, reader) = full();
        drop(writer);
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled)"]);
        drop(reader);
        let (_writer, reader) = full();
        assert_eq!(home.dump().pending[0].kind, Kind::Writable);
        home.shutdown_async();
        drop(reader.try_read());
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled)"]);
    });
}

#[test]
fn an_end_that_waits_for_room_cannot_be_sent() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "writer");
        let (writer, reader) = Channel::pair_with(Limits::default().messages(1));
        let (carrier, _far) = Channel::pair();
        writer.write(sized(1)).expect("it fits");
        wait_for_room(&writer, &home, 1, &Log::new());
        let refused = carrier.write(Message::new().with(writer)).expect_err("it waits");
        assert_eq!(refused.status(), Status::InvalidArgs);
        drop(reader.try_read());
        world.settle();
        carrier.write(refused.into_message()).expect("it has been told");
    });
}

#[test]
fn a_read_and_a_wait_for_room_stand_side_by_side_on_one_end() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "both");
        let (near, far) = Channel::pair_with(Limits::default().messages(1));
        let log = Log::new();
        near.write(sized(1)).expect("it fits");
        wait_for_room(&near, &home, 1, &log);
        let entry = log.clone();
        near.begin_read(&home, move |outcome| entry.add(format!("read {outcome:?}"))).expect("registered");
        far.write(sized(1)).expect("the other direction is empty");
        world.settle();
        assert_eq!(log.take(), ["read Ok(())"]);
        drop(far.try_read());
        world.settle();
        assert_eq!(log.take(), ["Ok(())"]);
    });
}

/// Sends numbers as fast as the queue takes them.
fn send_all(channel: Arc<Channel>, home: DispatcherHandle, from: u64, to: u64) {
    for number in from..to {
        let Err(refused) = channel.write(Message::from_bytes(&number.to_le_bytes())) else { continue };
        assert_eq!(refused.status(), Status::ShouldWait);
        let (own, again) = (Arc::clone(&channel), home.clone());
        channel
            .begin_writable(&home, refused.message().len(), move |outcome| {
                if outcome.is_ok() {
                    send_all(own, again, number, to);
                }
            })
            .expect("it is the only writer");
        return;
    }
}

/// Reads one message a turn.
fn read_slowly(channel: Arc<Channel>, home: DispatcherHandle, seen: Arc<Mutex<Vec<u64>>>, most: Arc<AtomicU64>) {
    let (own, again) = (Arc::clone(&channel), home.clone());
    let _ = channel.begin_read(&home, move |outcome| {
        most.fetch_max(own.queued_messages() as u64, Ordering::Relaxed);
        if let Ok(message) = own.try_read() {
            seen.lock().expect("no panic").push(u64::from_le_bytes(message.bytes().try_into().expect("eight bytes")));
        }
        if outcome.is_ok() {
            read_slowly(own, again, seen, most);
        }
    });
}

#[test]
fn a_stream_through_a_short_queue_keeps_to_the_limit_and_loses_nothing() {
    const ALL: u64 = 500;
    on_every_pool(|world| {
        let (writer, reader) = (dispatcher(world, "writer"), dispatcher(world, "reader"));
        let (near, far) = Channel::pair_with(Limits::default().messages(3));
        let (seen, most) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        read_slowly(Arc::new(far), reader.handle(), Arc::clone(&seen), Arc::clone(&most));
        let home = writer.handle();
        writer.post_task(move |_| send_all(Arc::new(near), home, 0, ALL)).expect("it runs");
        world.wait_until("the stream", || seen.lock().expect("no panic").len() as u64 == ALL);
        assert!(seen.lock().expect("no panic").iter().copied().eq(0..ALL));
        assert!(most.load(Ordering::Relaxed) <= 3);
    });
}

#[test]
fn a_future_waits_for_room_and_frees_the_end_when_it_is_dropped() {
    in_the_foreground(|world| {
        let home = dispatcher(world, "writer");
        let (writer, reader) = Channel::pair_with(Limits::default().messages(1));
        let writer = Arc::new(writer);
        writer.write(sized(1)).expect("it fits");
        let own = Arc::clone(&writer);
        let sending = home
            .spawn(async move {
                for len in [2, 3] {
                    own.writable(len).await?;
                    own.write(sized(len))?;
                }
                own.writable(4).await
            })
            .expect("accepted");
        for len in [1, 2, 3] {
            world.settle();
            assert_eq!(reader.try_read().expect("written").len(), len);
        }
        world.settle();
        assert!(sending.is_finished());

        writer.write(sized(1)).expect("empty");
        let mut dropped = Box::pin(writer.writable(1));
        assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(dropped);
        let log = Log::new();
        wait_for_room(&writer, &home, 1, &log);
        drop(reader);
        world.settle();
        assert_eq!(log.take(), ["Err(PeerClosed)"]);
        let mut late = pin!(writer.writable(1));
        let polled = late.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(Err(Status::PeerClosed)));
    });
}
