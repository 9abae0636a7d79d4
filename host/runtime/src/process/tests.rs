//! Goal: two ends with bridges in between behave as the two ends of one channel, and what cannot cross, or comes from a side
//! that does not keep to the rules, closes that one channel and nothing else. Method: both sides in this process, each on a
//! runtime of its own; the far side is a raw socket, or a program that is killed, where a test is about that.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Handle, Instant, Limits, Message, Runtime,
    RuntimeBuilder, Status,
};

use super::packet::{HandleKind, Head, Kind, MAX_BYTES, MAX_HANDLES};
use super::packets::{Packets, Sent};
use super::{bridge, socket_pair};

/// Turns a hang into a failure.
const LONG: Duration = Duration::from_secs(60);

/// A process, as far as bridges can tell.
pub(super) struct Side {
    home: Dispatcher,
    runtime: Runtime,
}

impl Side {
    pub(super) fn new() -> Side {
        let runtime = RuntimeBuilder::new().threads(2).build().unwrap();
        let driver = runtime.new_driver("bridges");
        let home = driver.new_dispatcher(DispatcherBuilder::new().name("bridges")).unwrap();
        Side { home, runtime }
    }

    pub(super) fn home(&self) -> &DispatcherHandle {
        &self.home
    }

    /// The outcome of a future, of which a test waits for the end.
    pub(super) fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (told, tell) = mpsc::channel();
        let _detached = self.home.spawn(async move { told.send(future.await) }).map_err(drop).unwrap();
        tell.recv_timeout(LONG).expect("it hangs")
    }

    pub(super) fn read(&self, end: &Arc<Channel>) -> Result<Message, Status> {
        let end = Arc::clone(end);
        self.wait(async move { end.read().await })
    }

    pub(super) fn end(self) {
        drop(self.home);
        self.runtime.shutdown(LONG).unwrap();
    }
}

/// Two sides, and one channel between them.
struct Joined {
    here: Side,
    there: Side,
    ours: Arc<Channel>,
    theirs: Arc<Channel>,
}

impl Joined {
    fn new() -> Joined {
        Joined::with(Limits::default())
    }

    fn with(limits: Limits) -> Joined {
        let (here, there) = (Side::new(), Side::new());
        let ((ours, near), (theirs, far)) = (Channel::pair_with(limits), Channel::pair_with(limits));
        let (socket, other) = socket_pair().unwrap();
        bridge(&here.home, near, socket).unwrap();
        bridge(&there.home, far, other).unwrap();
        Joined { here, there, ours: Arc::new(ours), theirs: Arc::new(theirs) }
    }

    fn arrives(&self) -> Result<Message, Status> {
        self.there.read(&self.theirs)
    }
}

/// One side, and the raw socket of the other.
fn half() -> (Side, Arc<Channel>, Packets) {
    let (here, (ours, near)) = (Side::new(), Channel::pair());
    let (socket, other) = socket_pair().unwrap();
    bridge(&here.home, near, socket).unwrap();
    (here, Arc::new(ours), Packets::new(other))
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) + seed) as u8).collect()
}

#[test]
fn messages_arrive_in_order_and_then_the_close_does() {
    let mut joined = Joined::new();
    for number in 0..1_000_u32 {
        joined.ours.write(Message::from_bytes(&number.to_le_bytes())).unwrap();
    }
    joined.ours = Arc::new(Channel::pair().0);
    for number in 0..1_000_u32 {
        assert_eq!(joined.arrives().unwrap().bytes(), number.to_le_bytes());
    }
    assert_eq!(joined.arrives().unwrap_err(), Status::PeerClosed);
    assert!(joined.theirs.write(Message::new()).is_err(), "the other direction is closed too");
}

#[test]
fn an_empty_message_arrives_as_one() {
    let joined = Joined::new();
    joined.ours.write(Message::new()).unwrap();
    joined.ours.write(Message::from_bytes(b"x")).unwrap();
    assert!(joined.arrives().unwrap().is_empty());
    assert_eq!(joined.arrives().unwrap().bytes(), b"x");
}

#[test]
fn what_was_sent_is_read_although_the_sender_closes_without_having_read() {
    for _ in 0..50 {
        let mut joined = Joined::new();
        for number in 0..20 {
            // Back and forth, so that both queues of the socket hold something when it is closed.
            joined.theirs.write(Message::from_bytes(&pattern(20_000, number))).unwrap();
            joined.ours.write(Message::from_bytes(&pattern(20_000, number))).unwrap();
        }
        joined.ours = Arc::new(Channel::pair().0);
        for number in 0..20 {
            assert_eq!(joined.arrives().unwrap().bytes(), pattern(20_000, number));
        }
        assert_eq!(joined.arrives().unwrap_err(), Status::PeerClosed);
    }
}

#[test]
fn large_messages_cross_in_pieces_both_ways_at_once() {
    let joined = Joined::new();
    let lengths = [0, 1, 32_727, 32_728, 32_729, 65_536, 1 << 20, 4 << 20, MAX_BYTES];
    for (seed, &len) in lengths.iter().enumerate() {
        joined.ours.write(Message::from_bytes(&pattern(len, seed))).unwrap();
        joined.theirs.write(Message::from_bytes(&pattern(len, seed + 1))).unwrap();
    }
    for (seed, &len) in lengths.iter().enumerate() {
        assert!(joined.arrives().unwrap().bytes() == pattern(len, seed), "{len} bytes there");
        let back = joined.here.read(&joined.ours).unwrap();
        assert!(back.bytes() == pattern(len, seed + 1), "{len} bytes back");
    }
}

#[test]
fn descriptors_and_ends_travel_with_what_waits_in_them() {
    let joined = Joined::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (kept, sent) = Channel::pair_with(Limits::default().messages(7).bytes(700));
    kept.write(Message::from_bytes(b"queued before")).unwrap();
    sent.write(Message::from_bytes(b"from the sent end")).unwrap();
    let message = Message::from_bytes(b"both").with(OwnedFd::from(reader)).with(sent);
    joined.ours.write(message).unwrap();

    let mut arrived = joined.arrives().unwrap();
    assert_eq!(arrived.bytes(), b"both");
    let mut handles = arrived.take_handles().into_iter();
    let fd = handles.next().unwrap().into_fd().unwrap();
    let end = Arc::new(handles.next().unwrap().into_channel().unwrap());
    writer.write_all(b"by the pipe").unwrap();
    drop(writer);
    let mut text = String::new();
    std::io::PipeReader::from(fd).read_to_string(&mut text).unwrap();
    assert_eq!(text, "by the pipe");

    assert_eq!(end.limits(), Limits::default().messages(7).bytes(700));
    assert_eq!(joined.there.read(&end).unwrap().bytes(), b"queued before");
    let kept = Arc::new(kept);
    assert_eq!(joined.here.read(&kept).unwrap().bytes(), b"from the sent end");
    end.write(Message::from_bytes(b"back")).unwrap();
    assert_eq!(joined.here.read(&kept).unwrap().bytes(), b"back");
    drop(kept);
    assert_eq!(joined.there.read(&end).unwrap_err(), Status::PeerClosed);
    joined.ours.write(Message::from_bytes(b"the first one lives")).unwrap();
    assert_eq!(joined.arrives().unwrap().bytes(), b"the first one lives");
}

#[test]
fn as_many_handles_as_the_kernel_takes_cross_and_no_more() {
    let joined = Joined::new();
    let file = std::fs::File::open("/dev/null").unwrap();
    let with = |count: usize| {
        (0..count).fold(Message::new(), |message, _| message.with(OwnedFd::from(file.try_clone().unwrap())))
    };
    joined.ours.write(with(MAX_HANDLES)).unwrap();
    joined.ours.write(with(MAX_HANDLES + 1)).unwrap();
    assert_eq!(joined.arrives().unwrap().handles().len(), MAX_HANDLES);
    assert_eq!(joined.arrives().unwrap_err(), Status::PeerClosed);
    assert_eq!(joined.here.read(&joined.ours).unwrap_err(), Status::PeerClosed);
}

#[test]
fn what_cannot_cross_closes_the_channel_after_what_came_before() {
    let bad = [Message::new().with(Handle::value(7_u8)), Message::with_len(MAX_BYTES + 1)];
    for bad in bad {
        let joined = Joined::new();
        joined.ours.write(Message::from_bytes(b"before")).unwrap();
        joined.ours.write(bad).unwrap();
        assert_eq!(joined.arrives().unwrap().bytes(), b"before");
        assert_eq!(joined.arrives().unwrap_err(), Status::PeerClosed);
        assert_eq!(joined.here.read(&joined.ours).unwrap_err(), Status::PeerClosed);
    }
}

#[test]
fn a_full_queue_there_is_told_to_the_writer_here_and_nothing_is_lost() {
    let joined = Joined::with(Limits::default().messages(4));
    let mut written = 0_usize;
    // The reader takes nothing, so this comes to an end when both queues and the socket are full.
    loop {
        match joined.ours.write(Message::from_bytes(&pattern(30_000, written))) {
            Ok(()) => written += 1,
            Err(error) => {
                assert_eq!(error.status(), Status::ShouldWait);
                if joined.theirs.queued_messages() == 4 && written > 12 {
                    break;
                }
                std::thread::yield_now();
            }
        }
        assert!(written < 100_000, "nobody stops the writer");
    }
    for number in 0..written {
        assert_eq!(joined.arrives().unwrap().bytes(), pattern(30_000, number), "{number} of {written}");
    }
}

#[test]
fn calls_are_answered_across_in_both_directions() {
    let joined = Joined::new();
    for (from, asks, to, serves) in [
        (&joined.here, &joined.ours, &joined.there, &joined.theirs),
        (&joined.there, &joined.theirs, &joined.here, &joined.ours),
    ] {
        let (told, tell) = mpsc::channel();
        for question in 0..3_u8 {
            let (request, told) = (Message::from_bytes(&[question]), told.clone());
            let answered =
                move |reply: Result<Message, Status>| told.send(reply.map(|it| it.bytes().to_vec())).unwrap();
            let _call = asks.begin_call(&from.home, request, Instant::INFINITE, answered).map_err(drop).unwrap();
        }
        let requests: Vec<Message> = (0..3).map(|_| to.read(serves).unwrap()).collect();
        serves.write(Message::from_bytes(b"beside")).unwrap();
        for request in requests.into_iter().rev() {
            let answer = [request.bytes()[0] + 100];
            let mut reply = request.recycle(1);
            reply.bytes_mut().copy_from_slice(&answer);
            serves.write(reply).unwrap();
        }
        let mut answers: Vec<_> = (0..3).map(|_| tell.recv_timeout(LONG).unwrap().unwrap()).collect();
        answers.sort();
        assert_eq!(answers, [[100], [101], [102]]);
        assert_eq!(from.read(asks).unwrap().bytes(), b"beside");
    }
}

#[test]
fn a_reply_that_is_written_just_before_the_close_arrives() {
    let mut joined = Joined::new();
    let (told, tell) = mpsc::channel();
    let answered = move |reply: Result<Message, Status>| told.send(reply.map(|it| it.len())).unwrap();
    let request = Message::from_bytes(b"?");
    let _call = joined.ours.begin_call(&joined.here.home, request, Instant::INFINITE, answered).map_err(drop).unwrap();
    let request = joined.arrives().unwrap();
    // The bridge stands still, so that the message makes it ready before the outcome of the call does.
    let (open, gate) = mpsc::channel::<()>();
    joined.there.home.post_task(move |_| assert!(gate.recv().is_err())).map_err(drop).unwrap();
    joined.theirs.write(Message::from_bytes(b"first")).unwrap();
    joined.theirs.write(request.recycle(5)).unwrap();
    joined.theirs = Arc::new(Channel::pair().0);
    drop(open);
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Ok(5));
    assert_eq!(joined.here.read(&joined.ours).unwrap().bytes(), b"first");
    assert_eq!(joined.here.read(&joined.ours).unwrap_err(), Status::PeerClosed);
}

#[test]
fn a_call_is_told_when_the_other_side_is_gone() {
    let mut joined = Joined::new();
    let (told, tell) = mpsc::channel();
    let answered = move |reply: Result<Message, Status>| told.send(reply.map(drop)).unwrap();
    let request = Message::from_bytes(b"?");
    let _call = joined.ours.begin_call(&joined.here.home, request, Instant::INFINITE, answered).map_err(drop).unwrap();
    assert!(joined.arrives().unwrap().txid().is_some());
    joined.theirs = Arc::new(Channel::pair().0);
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Err(Status::PeerClosed));
}

#[test]
fn a_side_that_shuts_down_closes_the_other_one() {
    let Joined { here, there, ours, theirs } = Joined::new();
    ours.write(Message::from_bytes(b"last")).unwrap();
    assert_eq!(there.read(&theirs).unwrap().bytes(), b"last");
    there.end();
    assert_eq!(here.read(&ours).unwrap_err(), Status::PeerClosed);
    assert_eq!(theirs.try_read().unwrap_err().status(), Status::PeerClosed);
    let (_ours, near) = Channel::pair();
    let home = here.home.handle();
    here.end();
    assert_eq!(bridge(&home, near, socket_pair().unwrap().0).unwrap_err(), Status::BadState);
}

#[test]
fn a_far_side_that_sends_anything_else_is_closed_and_nobody_else_is() {
    let good = |len| Head { kind: Kind::Message, len, handles: Vec::new() }.encode();
    let fd = Head { kind: Kind::Message, len: 0, handles: vec![HandleKind::Fd] }.encode();
    let end = Head { kind: Kind::Message, len: 0, handles: vec![HandleKind::Channel(Limits::default())] }.encode();
    let file = std::fs::File::open("/dev/null").unwrap();
    let some = [file.as_fd()];
    type Case<'a> = (&'a str, &'a [u8], &'a [u8], &'a [BorrowedFd<'a>]);
    let cases: [Case<'_>; 6] = [
        ("garbage", b"garbage", b"", &[]),
        ("a handle without a descriptor", &fd, b"", &[]),
        ("a descriptor without a handle", &good(0), b"", &some),
        ("more bytes than told", &good(3), b"four", &[]),
        ("a packet beyond measure", &good(0), &[0; 60_000], &[]),
        ("an end that is no socket", &end, b"", &some),
    ];
    for (what, head, piece, descriptors) in cases {
        let (here, ours, raw) = half();
        assert_eq!(raw.send(&good(2), b"ok", &[]).unwrap(), Sent::Yes);
        assert_eq!(raw.send(head, piece, descriptors).unwrap(), Sent::Yes);
        assert_eq!(here.read(&ours).unwrap().bytes(), b"ok", "{what}");
        match here.read(&ours) {
            Err(status) => assert_eq!(status, Status::PeerClosed, "{what}"),
            // The end that came is what is closed, not the channel that it came by.
            Ok(mut message) => {
                let end = Arc::new(message.take_handles().remove(0).into_channel().expect(what));
                assert_eq!(here.read(&end).unwrap_err(), Status::PeerClosed, "{what}");
            }
        }
        here.end();
    }
}

#[test]
fn a_message_that_is_cut_off_is_none() {
    let (here, ours, raw) = half();
    let head = Head { kind: Kind::Message, len: 100_000, handles: Vec::new() }.encode();
    assert_eq!(raw.send(&head, b"the begin", &[]).unwrap(), Sent::Yes);
    drop(raw);
    assert_eq!(here.read(&ours).unwrap_err(), Status::PeerClosed);
}

#[test]
fn a_process_that_is_killed_is_a_peer_that_has_closed() {
    let (here, (ours, near)) = (Side::new(), Channel::pair());
    let (socket, other) = socket_pair().unwrap();
    bridge(&here.home, near, socket).unwrap();
    let mut child = Command::new("sleep").arg("1000").stdin(Stdio::from(other)).spawn().unwrap();
    let ours = Arc::new(ours);
    // More than a socket takes, so that the bridge is in the middle of it.
    ours.write(Message::with_len(4 << 20)).unwrap();
    let end = Arc::clone(&ours);
    let (told, tell) = mpsc::channel();
    let waits = async move { told.send(end.read().await.map(drop)) };
    let _detached = here.home.spawn(waits).map_err(drop).unwrap();
    assert!(tell.try_recv().is_err(), "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(tell.recv_timeout(LONG).unwrap(), Err(Status::PeerClosed));
    here.end();
}
