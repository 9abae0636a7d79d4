//! What stands at the head of a message that goes from process to process, as bytes.
//!
//! A head is a fixed part and a line for each handle. The bytes of the message follow it, in the same packet as far as there
//! is room and in packets of nothing else after that. The descriptors of all handles come with the packet of the head.
//!
//! Both ends are the same program, so numbers have the order of the machine; the magic number has the version in it. What
//! comes from another process is checked all the same: a driver in a process of its own may be there because nobody trusts it.

use fuchsine_dispatcher::Limits;

/// "fch" and the version.
const MAGIC: u32 = u32::from_ne_bytes(*b"fch\x01");

/// The largest packet. A socket takes a packet whole or not at all, so it has to be far smaller than what a socket buffers.
pub(crate) const PACKET: usize = 32 << 10;

/// The most bytes of a message.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// The most handles of a message: how many descriptors the kernel takes at once (`SCM_MAX_FD`).
pub(super) const MAX_HANDLES: usize = 253;

const FIXED: usize = 40;
const PER_HANDLE: usize = 24;

/// The longest head, which has to fit into a packet.
const MAX_HEAD: usize = FIXED + MAX_HANDLES * PER_HANDLE;
const _: () = assert!(MAX_HEAD < PACKET);

/// A call, as the two numbers of its transaction id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallId {
    pub(super) channel: u64,
    pub(super) number: u32,
}

/// What a message is to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An ordinary message.
    Message,
    /// The request of a call: its reply comes back with the same id.
    Request(CallId),
    /// The reply to a call of the receiver.
    Reply(CallId),
}

/// What a descriptor that comes with a head stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandleKind {
    /// Itself.
    Fd,
    /// An end of a channel with these limits: the descriptor is the socket of its bridge.
    Channel(Limits),
}

/// The head of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) len: usize,
    pub(super) handles: Vec<HandleKind>,
}

/// Why a packet is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("a packet is too short for the head of a message")]
    Short,
    #[error("a packet is not the head of a message of this version")]
    Magic,
    #[error("a message of unknown kind {0}")]
    Kind(u32),
    #[error("a message of {0} bytes, of which at most {MAX_BYTES} can cross")]
    Bytes(u64),
    #[error("a message of {0} handles, of which at most {MAX_HANDLES} can cross")]
    Handles(u32),
    #[error("a handle of unknown kind {0}")]
    HandleKind(u32),
    #[error("a packet with more bytes than its message has")]
    Long,
    #[error("{came} descriptors came for {told} handles")]
    Descriptors { told: usize, came: usize },
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED + self.handles.len() * PER_HANDLE);
        let none = CallId { channel: 0, number: 0 };
        let (kind, call) = match self.kind {
            Kind::Message => (1_u32, none),
            Kind::Request(call) => (2, call),
            Kind::Reply(call) => (3, call),
        };
        out.extend(MAGIC.to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend((self.len as u64).to_ne_bytes());
        out.extend(call.channel.to_ne_bytes());
        out.extend(call.number.to_ne_bytes());
        out.extend((self.handles.len() as u32).to_ne_bytes());
        out.extend([0; 8]);
        for handle in &self.handles {
            let (kind, messages, bytes) = match handle {
                HandleKind::Fd => (1_u64, 0, 0),
                HandleKind::Channel(limits) => (2, limits.max_messages() as u64, limits.max_bytes() as u64),
            };
            for word in [kind, messages, bytes] {
                out.extend(word.to_ne_bytes());
            }
        }
        out
    }

    /// The head at the begin of a packet, and what of the message follows it there.
    pub(super) fn decode(packet: &[u8]) -> Result<(Head, &[u8]), Malformed> {
        let (fixed, rest) = packet.split_at_checked(FIXED).ok_or(Malformed::Short)?;
        let u32_at = |at: usize| u32::from_ne_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        if u32_at(0) != MAGIC {
            return Err(Malformed::Magic);
        }
        let call = CallId { channel: u64_at(fixed, 16), number: u32_at(24) };
        let kind = match u32_at(4) {
            1 => Kind::Message,
            2 => Kind::Request(call),
            3 => Kind::Reply(call),
            other => return Err(Malformed::Kind(other)),
        };
        let (told, count) = (u64_at(fixed, 8), u32_at(28));
        let len = usize::try_from(told).ok().filter(|&len| len <= MAX_BYTES).ok_or(Malformed::Bytes(told))?;
        if count as usize > MAX_HANDLES {
            return Err(Malformed::Handles(count));
        }
        let (lines, piece) = rest.split_at_checked(count as usize * PER_HANDLE).ok_or(Malformed::Short)?;
        let handles = lines.chunks_exact(PER_HANDLE).map(handle_kind).collect::<Result<_, _>>()?;
        if piece.len() > len {
            return Err(Malformed::Long);
        }
        Ok((Head { kind, len, handles }, piece))
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn handle_kind(line: &[u8]) -> Result<HandleKind, Malformed> {
    let limit = |at| usize::try_from(u64_at(line, at)).unwrap_or(usize::MAX);
    match u64_at(line, 0) {
        1 => Ok(HandleKind::Fd),
        2 => Ok(HandleKind::Channel(Limits::default().messages(limit(8)).bytes(limit(16)))),
        other => Err(Malformed::HandleKind(other as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> impl Strategy<Value = Head> {
        let call = (any::<u64>(), any::<u32>()).prop_map(|(channel, number)| CallId { channel, number });
        let kind = prop_oneof![Just(Kind::Message), call.clone().prop_map(Kind::Request), call.prop_map(Kind::Reply)];
        let limits = (any::<usize>(), any::<usize>())
            .prop_map(|(messages, bytes)| Limits::default().messages(messages).bytes(bytes));
        let handle = prop_oneof![Just(HandleKind::Fd), limits.prop_map(HandleKind::Channel)];
        (kind, 0..=MAX_BYTES, prop::collection::vec(handle, 0..=MAX_HANDLES)).prop_map(|(kind, len, handles)| Head {
            kind,
            len,
            handles,
        })
    }

    proptest! {
        #[test]
        fn a_head_is_read_as_it_was_written(head in head(), piece in prop::collection::vec(any::<u8>(), 0..64)) {
            let piece = &piece[..piece.len().min(head.len)];
            let packet = [head.encode().as_slice(), piece].concat();
            prop_assert!(head.encode().len() <= MAX_HEAD);
            prop_assert_eq!(Head::decode(&packet), Ok((head, piece)));
        }

        #[test]
        fn a_packet_of_anything_is_refused_or_read(mut head in head().prop_map(|head| head.encode()),
                                                   at in any::<prop::sample::Index>(), byte in any::<u8>(),
                                                   cut in any::<prop::sample::Index>()) {
            let place = at.index(head.len());
            head[place] = byte;
            let _ = Head::decode(&head);
            let _ = Head::decode(&head[..cut.index(head.len())]);
        }
    }

    #[test]
    fn what_is_too_much_is_refused_before_anything_is_made_for_it() {
        let good = Head { kind: Kind::Message, len: 0, handles: Vec::new() }.encode();
        let with = |at: usize, bytes: &[u8]| {
            let mut head = good.clone();
            head[at..at + bytes.len()].copy_from_slice(bytes);
            Head::decode(&head).map(drop).expect_err("it is refused")
        };
        let much = MAX_BYTES as u64 + 1;
        assert_eq!(with(8, &much.to_ne_bytes()), Malformed::Bytes(much));
        assert_eq!(with(28, &254_u32.to_ne_bytes()), Malformed::Handles(254));
        assert_eq!(with(28, &1_u32.to_ne_bytes()), Malformed::Short);
        assert_eq!(with(0, b"fch\x02"), Malformed::Magic);
        assert_eq!(with(4, &9_u32.to_ne_bytes()), Malformed::Kind(9));
        assert_eq!(Head::decode(&[&good[..], b"x"].concat()), Err(Malformed::Long));
        assert_eq!(Head::decode(b""), Err(Malformed::Short));
    }
}
