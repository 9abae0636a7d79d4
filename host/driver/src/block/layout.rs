//! The bytes of the block protocol: headers, the description of a device, and what is malformed.

use thiserror::Error;

use crate::Status;

/// The size of a header, of requests and of replies. The payload begins right behind it.
pub const HEADER_LEN: usize = 32;

/// The size of the payload of a reply to [`Op::Info`].
pub const INFO_LEN: usize = 24;

/// In the `op` field of a reply, beside the number of the operation.
pub const REPLY_BIT: u16 = 0x8000;

/// What a device is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum Op {
    /// Describe yourself.
    Info = 1,
    /// Give the bytes of a range.
    Read = 2,
    /// Store the payload in a range.
    Write = 3,
    /// Make all writes that were answered before this request survive a loss of power.
    Flush = 4,
    /// The contents of a range are not needed any more; it reads as anything, usually zeroes.
    Trim = 5,
    /// Store zeroes in a range.
    WriteZeroes = 6,
}

impl Op {
    /// Every operation.
    pub const ALL: &[Op] = &[Op::Info, Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes];

    fn from_raw(raw: u16) -> Option<Op> {
        Op::ALL.iter().copied().find(|&op| op as u16 == raw)
    }

    /// Whether it concerns a range of the device.
    pub fn has_range(self) -> bool {
        matches!(self, Op::Read | Op::Write | Op::Trim | Op::WriteZeroes)
    }

    /// Whether it changes the device.
    pub fn changes(self) -> bool {
        matches!(self, Op::Write | Op::Trim | Op::WriteZeroes)
    }

    fn allowed(self) -> u16 {
        match self {
            Op::Write | Op::Trim => Flags::FUA.0,
            Op::WriteZeroes => Flags::FUA.0 | Flags::NO_HOLE.0,
            Op::Info | Op::Read | Op::Flush => 0,
        }
    }
}

/// How an operation is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u16);

impl Flags {
    /// Nothing special.
    pub const NONE: Flags = Flags(0);
    /// Write, trim, write zeroes: the reply means that the change survives a loss of power.
    pub const FUA: Flags = Flags(1);
    /// Write zeroes: the space stays allocated.
    pub const NO_HOLE: Flags = Flags(2);

    /// Whether all of `other` is set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The number on the wire.
    pub fn to_raw(self) -> u16 {
        self.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// Chosen by the client; comes back in the reply.
    pub id: u64,
    /// What to do.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// Where the range begins, in bytes. 0 without a range.
    pub offset: u64,
    /// How long it is, in bytes. 0 without a range.
    pub length: u32,
}

impl RequestHeader {
    /// The bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        encode(self.id, self.op as u16, self.flags.0, 0, self.offset, self.length)
    }

    /// Reads a header from the start of a message.
    ///
    /// # Errors
    /// What is wrong with it. That the range fits the device is not checked here: [`BlockInfo::check`] does that.
    pub fn decode(message: &[u8]) -> Result<RequestHeader, Malformed> {
        let fields = Fields::decode(message)?;
        let op = Op::from_raw(fields.op).ok_or(Malformed::Op(fields.op))?;
        if fields.flags & !op.allowed() != 0 {
            return Err(Malformed::Flags(fields.flags));
        }
        if !op.has_range() && (fields.offset, fields.length) != (0, 0) {
            return Err(Malformed::Range);
        }
        if fields.status != 0 {
            return Err(Malformed::Status(fields.status));
        }
        let Fields { id, flags, offset, length, .. } = fields;
        if op == Op::Write && message.len() - HEADER_LEN < length as usize {
            return Err(Malformed::Payload);
        }
        Ok(RequestHeader { id, op, flags: Flags(flags), offset, length })
    }
}

/// The header of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The id of the request.
    pub id: u64,
    /// The operation of the request, as a number: that of a request that was malformed may be anything.
    pub op: u16,
    /// How it went.
    pub status: Result<(), Status>,
    /// The length of the payload, in bytes: what was read, the description, else 0.
    pub length: u32,
}

impl ReplyHeader {
    /// The bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let status = self.status.err().map_or(0, Status::as_raw);
        encode(self.id, self.op | REPLY_BIT, 0, status, 0, self.length)
    }

    /// Reads a header from the start of a message.
    ///
    /// # Errors
    /// What is wrong with it; among that, a payload that is shorter than the header says.
    pub fn decode(message: &[u8]) -> Result<ReplyHeader, Malformed> {
        let Fields { id, op, status, length, .. } = Fields::decode(message)?;
        if op & REPLY_BIT == 0 {
            return Err(Malformed::Op(op));
        }
        if status > 0 {
            return Err(Malformed::Status(status));
        }
        if message.len() - HEADER_LEN < length as usize {
            return Err(Malformed::Payload);
        }
        Ok(ReplyHeader { id, op: op & !REPLY_BIT, status: Status::result_of(status), length })
    }
}

/// The id at the start of a message that may be malformed; 0 if it is too short for one.
pub(super) fn id_of(message: &[u8]) -> u64 {
    message.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The raw operation of a message that may be malformed.
pub(super) fn op_of(message: &[u8]) -> u16 {
    message.get(8..10).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]])) & !REPLY_BIT
}

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its size in bytes, a multiple of `block_size`.
    pub size: u64,
    /// The size and alignment that every range must be a multiple of: a power of two, at most [`MAX_BLOCK_SIZE`].
    pub block_size: u32,
    /// The size of transfer that serves it best, a multiple of `block_size`.
    pub optimal_size: u32,
    /// The most that one read or write may transfer, a multiple of `block_size`.
    pub max_transfer: u32,
    /// Whether nothing can be changed.
    pub read_only: bool,
    /// Whether trim, and write zeroes with the permission to make a hole, give memory back.
    pub trims: bool,
    /// Whether flush and FUA do something; without it nothing survives a loss of power anyway.
    pub durable: bool,
}

/// The biggest block size.
pub const MAX_BLOCK_SIZE: u32 = 64 << 10;

const READ_ONLY: u32 = 1;
const TRIMS: u32 = 2;
const DURABLE: u32 = 4;

impl BlockInfo {
    /// A device that can be changed, trimmed, and keeps nothing; transfers are limited to 32 MiB.
    pub fn new(size: u64, block_size: u32) -> BlockInfo {
        BlockInfo {
            size,
            block_size,
            optimal_size: block_size.max(4096),
            max_transfer: 32 << 20,
            read_only: false,
            trims: true,
            durable: false,
        }
    }

    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// [`Malformed::Info`].
    pub fn validate(&self) -> Result<(), Malformed> {
        let block = self.block_size;
        let sound = block.is_power_of_two()
            && block <= MAX_BLOCK_SIZE
            && self.size.is_multiple_of(u64::from(block))
            && self.optimal_size >= block
            && self.optimal_size.is_multiple_of(block)
            && self.max_transfer >= block
            && self.max_transfer.is_multiple_of(block);
        if sound { Ok(()) } else { Err(Malformed::Info) }
    }

    /// Whether the device can do what a request asks.
    ///
    /// # Errors
    /// `InvalidArgs`: the range is not aligned to blocks, or too long for one transfer. `OutOfRange`: it goes past the
    /// end. `AccessDenied`: the device cannot be changed.
    pub fn check(&self, request: &RequestHeader) -> Result<(), Status> {
        if self.read_only && request.op.changes() {
            return Err(Status::AccessDenied);
        }
        if !request.op.has_range() {
            return Ok(());
        }
        let (offset, length) = (request.offset, u64::from(request.length));
        if offset.checked_add(length).is_none_or(|end| end > self.size) {
            return Err(Status::OutOfRange);
        }
        let block = u64::from(self.block_size);
        if !offset.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Err(Status::InvalidArgs);
        }
        if matches!(request.op, Op::Read | Op::Write) && request.length > self.max_transfer {
            return Err(Status::InvalidArgs);
        }
        Ok(())
    }

    /// The bytes of the payload of a reply.
    pub fn encode(&self) -> [u8; INFO_LEN] {
        let flags = [(self.read_only, READ_ONLY), (self.trims, TRIMS), (self.durable, DURABLE)];
        let flags: u32 = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
        let mut bytes = [0; INFO_LEN];
        bytes[0..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.block_size.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.optimal_size.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.max_transfer.to_le_bytes());
        bytes[20..24].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    /// Reads the payload of a reply. Flags without a meaning are ignored: they may be a newer device's.
    ///
    /// # Errors
    /// It is too short, or the numbers make no sense.
    pub fn decode(payload: &[u8]) -> Result<BlockInfo, Malformed> {
        let payload: &[u8; INFO_LEN] = payload.first_chunk().ok_or(Malformed::Payload)?;
        let word = |at: usize| u32::from_le_bytes(payload[at..at + 4].try_into().expect("four bytes"));
        let flags = word(20);
        let info = BlockInfo {
            size: u64::from_le_bytes(payload[0..8].try_into().expect("eight bytes")),
            block_size: word(8),
            optimal_size: word(12),
            max_transfer: word(16),
            read_only: flags & READ_ONLY != 0,
            trims: flags & TRIMS != 0,
            durable: flags & DURABLE != 0,
        };
        info.validate()?;
        Ok(info)
    }
}

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It is shorter than a header.
    #[error("the message is shorter than a header")]
    Short,
    /// There is no such operation, or a request stands where a reply should, or the other way round.
    #[error("operation {0:#x} is unknown here")]
    Op(u16),
    /// A flag that the operation does not have.
    #[error("flags {0:#x} do not fit the operation")]
    Flags(u16),
    /// A range for an operation that has none.
    #[error("the operation has no range")]
    Range,
    /// A status that cannot be.
    #[error("status {0} has no place here")]
    Status(i32),
    /// The payload is shorter than the header says.
    #[error("the payload is shorter than the header says")]
    Payload,
    /// A description whose numbers make no sense.
    #[error("the description of the device makes no sense")]
    Info,
}

/// The fields that both headers have.
struct Fields {
    id: u64,
    op: u16,
    flags: u16,
    status: i32,
    offset: u64,
    length: u32,
}

impl Fields {
    fn decode(message: &[u8]) -> Result<Fields, Malformed> {
        let head: &[u8; HEADER_LEN] = message.first_chunk().ok_or(Malformed::Short)?;
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        Ok(Fields {
            id: long(0),
            op: u16::from_le_bytes([head[8], head[9]]),
            flags: u16::from_le_bytes([head[10], head[11]]),
            status: word(12).cast_signed(),
            offset: long(16),
            length: word(24),
        })
    }
}

fn encode(id: u64, op: u16, flags: u16, status: i32, offset: u64, length: u32) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[0..8].copy_from_slice(&id.to_le_bytes());
    bytes[8..10].copy_from_slice(&op.to_le_bytes());
    bytes[10..12].copy_from_slice(&flags.to_le_bytes());
    bytes[12..16].copy_from_slice(&status.to_le_bytes());
    bytes[16..24].copy_from_slice(&offset.to_le_bytes());
    bytes[24..28].copy_from_slice(&length.to_le_bytes());
    bytes
}
