//! One side of a bridge: a future that reads from a channel and writes to a socket, and the other way round.
//!
//! # How it ends
//! The two directions end by themselves: outbound when the channel is closed and everything of it was sent, inbound when the
//! socket is and everything of it was delivered. Either ends the bridge, by which both sides are closed. A direction that
//! finds nobody to write to just stops, since there may be messages for the other one; if both stop, that is the end too.
//!
//! # Calls
//! A transaction id names a channel of one process, so it does not go on to the channel at the far side. The bridge there
//! makes a call of its own, and sends the reply back with the id that came with the request.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use fuchsine_dispatcher::{Channel, DispatcherHandle, Handle, Instant, Interest, Message, Status, Txid, ready};

use super::packet::{CallId, HandleKind, Head, Kind, MAX_BYTES, MAX_HANDLES, Malformed, PACKET};
use super::packets::{Packets, Received, Sent, pair};
use super::replies::{Next, Replies};

/// How many packets go one way until others on the dispatcher get a turn.
const BATCH: u32 = 32;

/// Joins an end of a channel with a socket of a [`socket_pair`](super::socket_pair), on a dispatcher, until one of them is
/// closed or the dispatcher shuts down. Both are closed then.
///
/// # Errors
/// [`Status::BadState`] when the dispatcher shuts down or has shut down; both are closed.
///
/// # Thread requirements
/// Any thread.
///
/// # Examples
/// Both sides in one process; else one of the sockets would be handed to another.
/// ```
/// use fuchsine_dispatcher::{Channel, DispatcherBuilder, Message, RuntimeBuilder};
/// use fuchsine_host::process::{bridge, socket_pair};
///
/// let runtime = RuntimeBuilder::new().build()?;
/// let driver = runtime.new_driver("bridges");
/// let home = driver.new_dispatcher(DispatcherBuilder::new().name("bridges"))?;
///
/// let ((ours, near), (far, theirs)) = (Channel::pair(), Channel::pair());
/// let (here, there) = socket_pair()?;
/// bridge(&home, near, here)?;
/// bridge(&home, far, there)?;
///
/// ours.write(Message::from_bytes(b"hello"))?;
/// let (told, tell) = std::sync::mpsc::channel();
/// let read = home.spawn(async move { told.send(theirs.read().await.map(|message| message.bytes().to_vec())) })?;
/// assert_eq!(tell.recv()??, b"hello");
/// # drop(read);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bridge(dispatcher: &DispatcherHandle, end: Channel, socket: OwnedFd) -> Result<(), Status> {
    let sides = Sides {
        local: end,
        remote: Packets::new(socket),
        home: dispatcher.clone(),
        replies: Arc::new(Replies::default()),
    };
    // In a box, as a bridge makes others.
    let future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(run(sides));
    dispatcher.spawn(future).map(drop).map_err(|error| error.status())
}

/// Why a bridge cannot go on.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("{0}")]
    System(#[from] io::Error),
    #[error("what came is no message: {0}")]
    Malformed(#[from] Malformed),
    #[error("a message of {0} bytes is to cross, and at most {MAX_BYTES} can")]
    Bytes(usize),
    #[error("a message of {0} handles is to cross, and at most {MAX_HANDLES} can")]
    Handles(usize),
    #[error("a message with a token or a value is to cross, and only ends of channels and descriptors can")]
    Value,
    #[error("the dispatcher of the bridge said: {0}")]
    Dispatcher(#[from] Status),
}

/// Who is not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    Local,
    Remote,
}

struct Sides {
    local: Channel,
    remote: Packets,
    home: DispatcherHandle,
    replies: Arc<Replies>,
}

async fn run(sides: Sides) {
    if let Err(broken) = join(&sides).await {
        tracing::warn!(reason = %broken, "a channel to another process is closed");
    }
}

/// Both directions, until the bridge is over.
async fn join(sides: &Sides) -> Result<(), Broken> {
    let (mut outbound, mut inbound) = (pin!(sides.outbound()), pin!(sides.inbound()));
    let (mut out_ended, mut in_ended) = (None, None);
    poll_fn(|cx| {
        if in_ended.is_none()
            && let Poll::Ready(gone) = inbound.as_mut().poll(cx)
        {
            in_ended = Some(gone?);
        }
        if in_ended != Some(Gone::Remote)
            && out_ended.is_none()
            && let Poll::Ready(gone) = outbound.as_mut().poll(cx)
        {
            out_ended = Some(gone?);
        }
        let is_over = in_ended == Some(Gone::Remote)
            || out_ended == Some(Gone::Local)
            || (in_ended.is_some() && out_ended.is_some());
        if is_over { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

impl Sides {
    async fn outbound(&self) -> Result<Gone, Broken> {
        let mut pace = Pace::default();
        while let Some((kind, message)) = self.next().await {
            if !self.send(kind, message, &mut pace).await? {
                return Ok(Gone::Remote);
            }
        }
        Ok(Gone::Local)
    }

    /// What is to be sent next: replies before messages. `None` when there will be nothing.
    async fn next(&self) -> Option<(Kind, Message)> {
        let mut read = self.local.read();
        poll_fn(|cx| {
            let replies = self.replies.next(cx.waker());
            if let Next::Reply(call, reply) = replies {
                return Poll::Ready(Some((Kind::Reply(call), reply)));
            }
            match (Pin::new(&mut read).poll(cx), replies) {
                (Poll::Pending, _) | (Poll::Ready(Err(_)), Next::Later) => Poll::Pending,
                (Poll::Ready(Err(_)), _) => Poll::Ready(None),
                (Poll::Ready(Ok(message)), _) => {
                    let call = message.txid().map(Txid::into_raw_parts);
                    let kind =
                        call.map_or(Kind::Message, |(channel, number)| Kind::Request(CallId { channel, number }));
                    Poll::Ready(Some((kind, message)))
                }
            }
        })
        .await
    }

    /// Whether there is somebody who may get it.
    async fn send(&self, kind: Kind, message: Message, pace: &mut Pace) -> Result<bool, Broken> {
        let (buffer, handles) = message.into_parts();
        let bytes = buffer.as_deref().unwrap_or_default();
        let (kinds, descriptors) = self.descriptors(bytes.len(), handles)?;
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(OwnedFd::as_fd).collect();
        let head = Head { kind, len: bytes.len(), handles: kinds }.encode();
        let (piece, rest) = bytes.split_at(bytes.len().min(PACKET - head.len()));
        if !self.send_packet(&head, piece, &borrowed, pace).await? {
            return Ok(false);
        }
        for piece in rest.chunks(PACKET) {
            if !self.send_packet(&[], piece, &[], pace).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn send_packet(
        &self,
        head: &[u8],
        piece: &[u8],
        descriptors: &[BorrowedFd<'_>],
        pace: &mut Pace,
    ) -> Result<bool, Broken> {
        pace.step().await;
        loop {
            match self.remote.send(head, piece, descriptors)? {
                Sent::Yes => return Ok(true),
                Sent::Gone => return Ok(false),
                Sent::Later => drop(ready(&self.remote, Interest::WRITABLE).await?),
            }
        }
    }

    /// The handles of a message as descriptors. Ends of channels get bridges.
    fn descriptors(&self, bytes: usize, handles: Vec<Handle>) -> Result<(Vec<HandleKind>, Vec<OwnedFd>), Broken> {
        if bytes > MAX_BYTES {
            return Err(Broken::Bytes(bytes));
        }
        if handles.len() > MAX_HANDLES {
            return Err(Broken::Handles(handles.len()));
        }
        let mut all = (Vec::with_capacity(handles.len()), Vec::with_capacity(handles.len()));
        for handle in handles {
            let (kind, descriptor) = match handle {
                Handle::Fd(descriptor) => (HandleKind::Fd, descriptor),
                Handle::Channel(end) => {
                    let limits = end.limits();
                    let (here, there) = pair()?;
                    bridge(&self.home, end, here)?;
                    (HandleKind::Channel(limits), there)
                }
                _ => return Err(Broken::Value),
            };
            all.0.push(kind);
            all.1.push(descriptor);
        }
        Ok(all)
    }

    async fn inbound(&self) -> Result<Gone, Broken> {
        let mut pace = Pace::default();
        let mut packet = vec![0; PACKET];
        while let Some((len, descriptors)) = self.receive(&mut packet, &mut pace).await? {
            let (head, piece) = Head::decode(&packet[..len])?;
            let (told, came) = (head.handles.len(), descriptors.len());
            if told != came {
                return Err(Malformed::Descriptors { told, came }.into());
            }
            let mut message = if head.len == 0 { Message::new() } else { Message::with_len(head.len) };
            message.bytes_mut()[..piece.len()].copy_from_slice(piece);
            let mut at = piece.len();
            while at < head.len {
                let rest = &mut message.bytes_mut()[at..];
                // Who ends in the middle of a message has not sent it.
                let Some((len, stray)) = self.receive(rest, &mut pace).await? else { return Ok(Gone::Remote) };
                if !stray.is_empty() {
                    return Err(Malformed::Descriptors { told: 0, came: stray.len() }.into());
                }
                at += len;
            }
            for (kind, descriptor) in head.handles.into_iter().zip(descriptors) {
                message.push(self.handle(kind, descriptor)?);
            }
            if !self.deliver(head.kind, message).await {
                return Ok(Gone::Local);
            }
        }
        Ok(Gone::Remote)
    }

    /// The next packet, or `None` if none will come.
    async fn receive(&self, into: &mut [u8], pace: &mut Pace) -> Result<Option<(usize, Vec<OwnedFd>)>, Broken> {
        pace.step().await;
        loop {
            match self.remote.receive(into)? {
                Received::Packet(len, descriptors) => return Ok(Some((len, descriptors))),
                Received::End => return Ok(None),
                Received::Nothing => drop(ready(&self.remote, Interest::READABLE).await?),
            }
        }
    }

    fn handle(&self, kind: HandleKind, descriptor: OwnedFd) -> Result<Handle, Broken> {
        Ok(match kind {
            HandleKind::Fd => Handle::Fd(descriptor),
            HandleKind::Channel(limits) => {
                let (near, far) = Channel::pair_with(limits);
                bridge(&self.home, far, descriptor)?;
                Handle::Channel(near)
            }
        })
    }

    /// Whether there is somebody who may read it.
    async fn deliver(&self, kind: Kind, mut message: Message) -> bool {
        if let Kind::Reply(CallId { channel, number }) = kind {
            // One that names no call of this channel is an ordinary message, which the far side may send anyway.
            message = message.in_reply_to(Txid::from_raw_parts(channel, number));
        }
        loop {
            let refused = match kind {
                Kind::Request(call) => self.call(call, message),
                Kind::Message | Kind::Reply(_) => {
                    self.local.write(message).map_err(|error| (error.status(), error.into_message()))
                }
            };
            message = match refused {
                Ok(()) => return true,
                Err((Status::ShouldWait, message)) => message,
                Err(_) => return false,
            };
            if self.local.writable(message.len()).await.is_err() {
                return false;
            }
        }
    }

    /// Makes a call for the far side.
    fn call(&self, id: CallId, request: Message) -> Result<(), (Status, Message)> {
        let replies = Arc::clone(&self.replies);
        let answered = move |outcome| replies.end(id, outcome);
        self.replies.begin();
        match self.local.begin_call(&self.home, request, Instant::INFINITE, answered) {
            Ok(_never_taken_back) => Ok(()),
            Err(refused) => {
                let (status, (request, answered)) = (refused.status(), refused.into_inner());
                answered(Err(status));
                Err((status, request))
            }
        }
    }
}

/// Lets others have a turn after each batch.
#[derive(Debug, Default)]
struct Pace(u32);

impl Pace {
    async fn step(&mut self) {
        self.0 += 1;
        if self.0 < BATCH {
            return;
        }
        self.0 = 0;
        let mut is_over = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut is_over, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
