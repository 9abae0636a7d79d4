//! Goal: what a message carries ends once on every path, however deep it is nested and whatever its destructors do.
//! Method: values that count their drops, descriptors whose other end sees them close, and long chains of channels.

use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Arena, Buffer, Channel, Handle, Message, ReadError, Value};
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A message with one counted value, and the count.
fn counted() -> (Message, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    (Message::new().with(Handle::value(Counted(Arc::clone(&count)))), count)
}

#[track_caller]
fn assert_dropped(count: &AtomicUsize, times: usize) {
    assert_eq!(count.load(Ordering::Relaxed), times);
}

/// Shows CH-R83.
#[test]
fn what_is_public_can_be_sent_and_shared() {
    fn both<T: Send + Sync + 'static>() {}
    both::<(Arena, Buffer, Channel, Handle, Message, Value)>();
}

/// Shows CH-R85, CH-R90, RA-6.
#[test]
fn a_value_is_dropped_once_whatever_becomes_of_its_message() {
    let (message, count) = counted();
    drop(message);
    assert_dropped(&count, 1);

    let (near, far) = Channel::pair();
    let (message, count) = counted();
    near.write(message).expect("written");
    assert_dropped(&count, 0);
    drop(far.try_read().expect("there is one"));
    assert_dropped(&count, 1);

    let (message, count) = counted();
    near.write(message).expect("written");
    drop(near);
    assert_dropped(&count, 0);
    drop(far);
    assert_dropped(&count, 1);

    let (near, far) = Channel::pair();
    drop(far);
    let (message, count) = counted();
    let refused = near.write(message).expect_err("nobody reads");
    assert_eq!(refused.status(), Status::PeerClosed);
    assert_eq!(refused.message().handles().len(), 1);
    let refused = near.write(refused.into_message()).expect_err("still nobody");
    assert_dropped(&count, 0);
    assert_eq!(refused.into_status(), Status::PeerClosed);
    assert_dropped(&count, 1);

    let (message, count) = counted();
    let recycled = message.recycle(10);
    assert_dropped(&count, 1);
    assert!(recycled.handles().is_empty());
}

/// Shows CH-R74, CH-R89, HT-1, RA-1, RA-2, RA-3, RA-4.
#[test]
fn a_value_comes_out_as_what_it_was_and_only_as_that() {
    let (mut message, count) = counted();
    let handle = message.take_handles().remove(0);
    assert!(format!("{handle:?}").contains("Counted"), "{handle:?} names the type");
    let handle = handle.into_value::<String>().expect_err("it is no text");
    let handle = handle.into_channel().expect_err("it is no channel");
    let handle = handle.into_fd().expect_err("it is no descriptor");
    let value = handle.into_value::<Counted>().expect("that is what it is");
    drop(message);
    assert_dropped(&count, 0);
    drop(value);
    assert_dropped(&count, 1);
}

/// CH-04, RC-04: descriptors travel, and are closed with a message that nobody read.
///
/// Shows CH-R13, CH-R74, CT-4, RC-4.
#[test]
fn a_descriptor_is_usable_at_the_reader_and_closed_with_what_is_never_read() {
    let (near, far) = Channel::pair();
    let (kept, sent) = UnixStream::pair().expect("the system has sockets");
    near.write(Message::new().with(OwnedFd::from(sent))).expect("written");
    let fd = far.try_read().expect("there is one").take_handles().remove(0).into_fd().expect("a descriptor");
    near.write(Message::new().with(fd)).expect("written");
    kept.set_nonblocking(true).expect("a socket can be told so");
    let alive = (&kept).read(&mut [0; 1]).expect_err("the other end is open");
    assert_eq!(alive.kind(), ErrorKind::WouldBlock);
    drop(far);
    assert_eq!((&kept).read(&mut [0; 1]).expect("an end, and no error"), 0);
}

/// Shows CH-R16, D6.
#[test]
fn bytes_are_moved_and_not_copied() {
    let (near, far) = Channel::pair();
    let message = Message::from_bytes(&[7; 64 * 1024]);
    let place = message.bytes().as_ptr();
    near.write(message).expect("written");
    let message = far.try_read().expect("there is one");
    assert_eq!((message.bytes().as_ptr(), message.len()), (place, 64 * 1024));
    let reply = message.recycle(1000);
    assert_eq!(reply.bytes().as_ptr(), place, "the reply is in the memory of the request");
}

/// CH-22: the reader owns the arena from then on.
///
/// Shows CH-R27, CH-R84, CT-22.
#[test]
fn the_reader_makes_its_reply_in_the_arena_that_it_received() {
    let (near, far) = Channel::pair();
    let arena = Arena::new();
    near.write(arena.message(64)).expect("written");
    drop(arena);
    let request = far.try_read().expect("there is one");
    let mut reply = request.arena().expect("it has bytes").message(32);
    reply.bytes_mut().fill(9);
    far.write(reply).expect("written");
    drop(request);
    assert_eq!(near.try_read().expect("there is one").bytes(), [9; 32]);
}

#[test]
fn a_message_beside_others_in_its_arena_is_recycled_without_touching_them() {
    let arena = Arena::new();
    let mut kept = arena.message(16);
    kept.bytes_mut().fill(1);
    let mut recycled = arena.message(16).recycle(16);
    recycled.bytes_mut().fill(2);
    assert_eq!(kept.bytes(), [1; 16]);
    assert!(arena.contains(recycled.bytes()));
}

#[test]
fn truncating_keeps_the_beginning() {
    let mut message = Message::from_bytes(b"beginning and end");
    message.truncate(100);
    assert_eq!(message.len(), 17);
    message.truncate(9);
    assert_eq!(message.bytes(), b"beginning");
    let (buffer, handles) = message.into_parts();
    assert_eq!(buffer.as_deref(), Some(&b"beginning"[..]));
    assert!(handles.is_empty());
    assert!(Message::new().recycle(0).is_empty());
}

/// Puts both ends of each channel into a message that waits in the one around it; the outermost ends are returned, and
/// the value that is in the innermost message.
fn nested(depth: usize) -> (Channel, Channel, Arc<AtomicUsize>) {
    let (innermost, count) = counted();
    let (mut near, mut far) = Channel::pair();
    near.write(innermost).expect("written");
    for _ in 1..depth {
        let (outer_near, outer_far) = Channel::pair();
        outer_near.write(Message::new().with(near).with(far)).expect("written");
        (near, far) = (outer_near, outer_far);
    }
    (near, far, count)
}

/// CH-25, D9.
///
/// Shows CH-R56, D9, CT-25.
#[test]
fn nested_messages_are_destroyed_without_recursion() {
    for depth in [200, 100_000] {
        let (near, far, count) = nested(depth);
        drop(near);
        assert_dropped(&count, 0);
        drop(far);
        assert_dropped(&count, 1);
    }
}

#[test]
fn ends_inside_of_values_are_destroyed_without_recursion_too() {
    let (message, count) = counted();
    let (near, mut far) = Channel::pair();
    near.write(message).expect("written");
    drop(near);
    for _ in 0..100_000 {
        let (outer_near, outer_far) = Channel::pair();
        outer_near.write(Message::new().with(Handle::value(Box::new(far)))).expect("written");
        far = outer_far;
    }
    drop(far);
    assert_dropped(&count, 1);
}

/// Shows CH-R26, CH-R28, CH-R55, CH-R77, CT-58.
#[test]
fn peers_of_ends_in_a_destroyed_message_see_them_close_at_once() {
    let (kept, sent) = Channel::pair();
    let (near, far) = Channel::pair();
    near.write(Message::new().with(sent)).expect("written");
    assert_eq!(kept.try_read().expect_err("it is on its way"), ReadError::ShouldWait);
    drop((near, far));
    assert_eq!(kept.try_read().expect_err("it is gone"), ReadError::PeerClosed);
    assert!(kept.is_peer_closed());
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[test]
fn destructors_that_panic_cost_nothing_else_its_end() {
    let (first, first_count) = counted();
    let (kept, sent) = Channel::pair();
    let (near, far) = Channel::pair();
    let bombs = || Message::new().with(Handle::value(Bomb)).with(Handle::value(Bomb));
    near.write(bombs()).expect("written");
    near.write(first).expect("written");
    near.write(bombs().with(sent)).expect("written");
    assert!(catch_unwind(AssertUnwindSafe(|| drop(far))).is_err(), "the panic is not hidden");
    assert_dropped(&first_count, 1);
    assert!(kept.is_peer_closed());
    assert_eq!(near.write(Message::new()).expect_err("the end is closed").status(), Status::PeerClosed);

    // A panic that is under way is not joined by another, which would end the process.
    let (near, far) = Channel::pair();
    near.write(bombs()).expect("written");
    let unwinding = catch_unwind(AssertUnwindSafe(|| {
        let _far = far;
        panic!("the first");
    }));
    let payload = unwinding.expect_err("it panicked");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the first"));
    // The thread's work list is in order again.
    let (message, count) = counted();
    drop(message);
    assert_dropped(&count, 1);
}
