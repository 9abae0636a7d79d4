//! Channels, messages, arenas, handles.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use super::{Grenade, Journal, Noted};
use crate::abi::fake::FakeHost;
use crate::{Arena, Channel, Handle, HandleKind, Message, Status, timeout};

#[test]
fn messages_arrive_in_order_with_their_bytes_unmoved() {
    let host = FakeHost::new();
    let (a, b) = Channel::pair().expect("attached");
    let arena = Arena::new().expect("memory");
    let mut addresses = Vec::new();
    for index in 0..3_u8 {
        let mut message = arena.message(usize::from(index) * 100 + 1).expect("memory");
        message.bytes_mut().fill(index);
        addresses.push(message.bytes().as_ptr());
        a.write(message).expect("the peer is there");
    }
    drop(arena);
    for index in 0..3_u8 {
        let message = b.try_read().expect("it was sent");
        assert_eq!(message.bytes().as_ptr(), addresses[usize::from(index)], "nothing is copied");
        assert!(message.len() == usize::from(index) * 100 + 1 && message.bytes().iter().all(|&byte| byte == index));
        let mut answer = message.arena().expect("it has one").message(1).expect("memory");
        answer.bytes_mut()[0] = index + 10;
        b.write(answer).expect("the peer is there");
        assert_eq!(a.try_read().expect("it was sent").bytes(), [index + 10]);
    }
    assert_eq!(b.try_read().map(drop), Err(Status::ShouldWait));
    a.write(Message::new()).expect("an empty message is one too");
    assert!(b.try_read().expect("it was sent").is_empty());
    drop((a, b));
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn a_refused_message_comes_back_whole_with_its_handles() {
    let host = FakeHost::new();
    let (a, b) = Channel::pair().expect("attached");
    let (sent, kept) = Channel::pair().expect("attached");
    drop(b);
    let mut message = Message::from_bytes(b"hello").expect("memory");
    message.push(sent);
    message.push(Handle::value(vec![1, 2, 3]));
    let error = a.write(message).expect_err("nobody is there");
    assert_eq!(error.status(), Status::PeerClosed);
    let mut message = error.into_message();
    assert_eq!(message.bytes(), b"hello");
    let mut handles = message.take_handles();
    let value = handles.pop().expect("two").into_value_of::<Vec<i32>>().expect("this image has made it");
    assert_eq!(value, [1, 2, 3]);
    let sent = handles.pop().expect("one").into_channel_end().expect("it is one");
    sent.write(Message::new()).expect("the end still works");
    kept.try_read().expect("it was sent");
    drop((message, sent, kept, a));
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn a_limited_channel_tells_the_writer_to_wait() {
    let _host = FakeHost::new();
    let (a, b) = Channel::pair_with_limit(2).expect("attached");
    a.write(Message::new()).expect("room");
    a.write(Message::new()).expect("room");
    assert_eq!(a.write(Message::new()).map_err(Status::from), Err(Status::ShouldWait));
    b.try_read().expect("it was sent");
    a.write(Message::new()).expect("room again");
}

#[test]
fn handles_of_each_kind_travel_and_are_closed_when_nobody_takes_them() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let (a, b) = Channel::pair().expect("attached");
    let (sent, kept) = Channel::pair().expect("attached");
    let file: OwnedFd = std::fs::File::open("/dev/null").expect("it exists").into();
    let number = file.as_raw_fd();
    let mut message = Message::new();
    message.push(sent);
    message.push(file);
    message.push(Handle::value(Noted(journal.clone(), "value")));
    message.push(Handle::value(5_u8));
    a.write(message).expect("the peer is there");
    let mut message = b.try_read().expect("it was sent");
    let kinds: Vec<HandleKind> = message.handles().iter().map(Handle::kind).collect();
    assert_eq!(kinds, [HandleKind::Channel, HandleKind::Fd, HandleKind::Value, HandleKind::Value]);
    let mut handles = message.take_handles().into_iter();
    let channel = handles.next().expect("four");
    let channel =
        channel.into_owned_fd().expect_err("it is no descriptor").into_channel_end().expect("it is a channel");
    assert_eq!(handles.next().expect("three").into_owned_fd().expect("it is one").as_raw_fd(), number);
    drop(handles.next());
    assert_eq!(journal.take(), ["value dropped"]);
    let wrong = handles.next().expect("one").into_value_of::<u64>().expect_err("another type");
    assert_eq!(wrong.into_value_of::<u8>().expect("the right type"), 5);
    drop(channel);
    assert_eq!(kept.try_read().map(drop), Err(Status::PeerClosed));

    let mut message = Message::new();
    message.push(kept);
    message.push(Handle::value(Noted(journal.clone(), "unread")));
    a.write(message).expect("the peer is there");
    drop((a, b));
    assert_eq!(journal.take(), ["unread dropped"]);
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn a_long_chain_of_channels_in_channels_is_dropped_without_trouble() {
    let host = FakeHost::new();
    let (mut outer, mut keep) = Channel::pair().expect("attached");
    for _ in 0..200 {
        let (next, other) = Channel::pair().expect("attached");
        let mut message = Message::new();
        message.push(keep);
        message.push(outer);
        next.write(message).expect("the peer is there");
        (outer, keep) = (next, other);
    }
    drop((outer, keep));
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn an_end_cannot_be_sent_to_itself() {
    let host = FakeHost::new();
    let (a, b) = Channel::pair().expect("attached");
    let mut message = Message::new();
    message.push(b);
    let error = a.write(message).expect_err("nobody could ever read it");
    assert_eq!(error.status(), Status::NotSupported);
    let b = error.into_message().take_handles().remove(0).into_channel_end().expect("it comes back");
    a.write(Message::new()).expect("both ends still work");
    b.try_read().expect("it was sent");
    drop((a, b));
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn reading_waits_for_a_message_and_sees_the_close_after_the_last_one() {
    let host = FakeHost::new();
    let (a, b) = Channel::pair().expect("attached");
    let dispatcher = host.dispatcher("reader");
    let journal = Journal::default();
    let noted = journal.clone();
    dispatcher
        .spawn(async move {
            loop {
                match b.read().await {
                    Ok(message) => noted.note(format!("{:?}", message.bytes())),
                    Err(status) => return noted.note(format!("{status:?}")),
                }
            }
        })
        .expect("it runs");
    host.run();
    a.write(Message::from_bytes(&[1]).expect("memory")).expect("the peer is there");
    host.run();
    assert_eq!(journal.take(), ["[1]"]);
    a.write(Message::from_bytes(&[2]).expect("memory")).expect("the peer is there");
    a.write(Message::from_bytes(&[3]).expect("memory")).expect("the peer is there");
    drop(a);
    host.run();
    assert_eq!(journal.take(), ["[2]", "[3]", "PeerClosed"]);
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn a_dropped_read_loses_nothing_and_the_next_one_works() {
    let host = FakeHost::new();
    let (a, b) = Channel::pair().expect("attached");
    let first = host.block_on(async move {
        let early = timeout(std::time::Duration::from_secs(1), b.read()).await;
        assert_eq!(early.map(drop), Err(Status::TimedOut));
        a.write(Message::from_bytes(b"late").expect("memory")).expect("the peer is there");
        b.read().await.map(|message| message.bytes().to_vec())
    });
    assert_eq!(first, Ok(b"late".to_vec()));
    assert_eq!(host.objects_left(), 0);
}

#[test]
fn the_callback_form_runs_once_and_can_be_taken_back() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let (a, b) = Channel::pair().expect("attached");
    let noted = journal.clone();
    b.begin_read(&dispatcher, move |told| noted.note(format!("first {told:?}"))).expect("nobody else");
    let second = b.begin_read(&dispatcher, |_| ()).expect_err("one at a time");
    assert_eq!(second.status(), Status::BadState);
    a.write(Message::new()).expect("the peer is there");
    a.write(Message::new()).expect("the peer is there");
    host.run();
    assert_eq!(journal.take(), ["first Ok(())"]);
    let held = Noted(journal.clone(), "closure");
    b.begin_read(&dispatcher, move |_| drop(held)).expect("the first one has ended");
    assert_eq!(b.cancel_read(), Ok(()));
    assert_eq!(journal.take(), ["closure dropped"]);
    assert_eq!(b.cancel_read(), Err(Status::NotFound));
    b.try_read().expect("nothing was lost");
    b.try_read().expect("nothing was lost");
    drop(a);
    assert_eq!(b.begin_read(&dispatcher, |_| ()).expect_err("at once").status(), Status::PeerClosed);
}

#[test]
fn closing_an_end_with_a_registered_read_tells_its_callback_canceled() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let (_a, b) = Channel::pair().expect("attached");
    let noted = journal.clone();
    b.begin_read(&dispatcher, move |told| noted.note(format!("{told:?}"))).expect("nobody else");
    drop(b);
    host.run();
    assert_eq!(journal.take(), ["Err(Canceled)"]);
}

#[test]
fn the_shutdown_tells_a_registered_read_and_refuses_later_ones() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let (_a, b) = Channel::pair().expect("attached");
    let (noted, b) = (journal.clone(), Arc::new(b));
    b.begin_read(&dispatcher, move |told| noted.note(format!("{told:?}"))).expect("nobody else");
    dispatcher.shutdown();
    host.run();
    assert_eq!(journal.take(), ["Err(Canceled)"]);
    assert_eq!(b.begin_read(&dispatcher, |_| ()).expect_err("shut down").status(), Status::Unavailable);
}

#[test]
fn an_end_with_a_poll_registration_can_be_sent() {
    let host = FakeHost::new();
    let (a, b) = Channel::pair().expect("attached");
    let (outer, reader) = Channel::pair().expect("attached");
    let bytes = host.block_on(async move {
        let pending = std::future::poll_fn(|cx| std::task::Poll::Ready(b.poll_read(cx).is_pending())).await;
        assert!(pending, "it is registered");
        let mut message = Message::new();
        message.push(b);
        outer.write(message).expect("the registration was given up");
        let moved =
            reader.read().await.expect("it was sent").take_handles().remove(0).into_channel_end().expect("a channel");
        a.write(Message::from_bytes(b"x").expect("memory")).expect("the peer is there");
        moved.read().await.expect("it was sent").bytes().to_vec()
    });
    assert_eq!(bytes, b"x");
}

#[test]
fn a_value_whose_destructor_panics_does_not_harm_the_boundary() {
    let host = FakeHost::new();
    let dispatcher = host.dispatcher("d");
    dispatcher
        .post_task(|_| {
            let mut message = Message::new();
            message.push(Handle::value(Grenade));
            drop(message);
        })
        .expect("it runs");
    host.run();
    assert_eq!(host.panics(), ["the destructor panicked"]);
}

#[test]
fn messages_can_be_made_of_every_size_and_cut() {
    let _host = FakeHost::new();
    assert_eq!(Message::zeroed(5).expect("memory").bytes(), [0; 5]);
    let mut message = Message::from_bytes(&[1, 2, 3]).expect("memory");
    message.truncate(2);
    message.truncate(9);
    assert_eq!((message.bytes(), message.len()), (&[1, 2][..], 2));
    let empty = Message::with_len(0).expect("memory");
    assert!(empty.is_empty() && empty.arena().is_some());
    assert_eq!(Message::with_len(usize::MAX / 2).map(drop), Err(Status::NoMemory));
}
