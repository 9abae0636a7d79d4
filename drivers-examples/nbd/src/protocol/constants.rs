//! The protocol's numbers, under the names that the protocol document gives them (without the `NBD_`).

use std::fmt;

/// Opens the server's greeting ("NBDMAGIC").
pub(crate) const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of the greeting, and in front of each option ("IHAVEOPT").
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// In front of each reply to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// In front of each request of the transmission phase.
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
/// In front of each simple reply.
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

/// Handshake flags, server to client.
pub(crate) const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
pub(crate) const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Client flags, the answer to the handshake flags.
pub(crate) const FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
pub(crate) const FLAG_C_NO_ZEROES: u32 = 1 << 1;

/// Transmission flags: what the export can do.
pub(crate) const FLAG_HAS_FLAGS: u16 = 1 << 0;
pub(crate) const FLAG_READ_ONLY: u16 = 1 << 1;
pub(crate) const FLAG_SEND_FLUSH: u16 = 1 << 2;
pub(crate) const FLAG_SEND_FUA: u16 = 1 << 3;
pub(crate) const FLAG_SEND_TRIM: u16 = 1 << 5;
pub(crate) const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
pub(crate) const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;

/// Options of the handshake.
pub(crate) const OPT_EXPORT_NAME: u32 = 1;
pub(crate) const OPT_ABORT: u32 = 2;
pub(crate) const OPT_LIST: u32 = 3;
pub(crate) const OPT_INFO: u32 = 6;
pub(crate) const OPT_GO: u32 = 7;

/// Kinds of replies to options.
pub(crate) const REP_ACK: u32 = 1;
pub(crate) const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_ERR_UNSUP: u32 = (1 << 31) | 1;
pub(crate) const REP_ERR_INVALID: u32 = (1 << 31) | 3;
pub(crate) const REP_ERR_UNKNOWN: u32 = (1 << 31) | 6;
pub(crate) const REP_ERR_BLOCK_SIZE_REQD: u32 = (1 << 31) | 8;
pub(crate) const REP_ERR_TOO_BIG: u32 = (1 << 31) | 9;

/// Kinds of information about an export.
pub(crate) const INFO_EXPORT: u16 = 0;
pub(crate) const INFO_NAME: u16 = 1;
pub(crate) const INFO_BLOCK_SIZE: u16 = 3;

/// Commands of the transmission phase.
pub(crate) const CMD_READ: u16 = 0;
pub(crate) const CMD_WRITE: u16 = 1;
pub(crate) const CMD_DISC: u16 = 2;
pub(crate) const CMD_FLUSH: u16 = 3;
pub(crate) const CMD_TRIM: u16 = 4;
pub(crate) const CMD_WRITE_ZEROES: u16 = 6;

/// Flags of commands.
pub(crate) const CMD_FLAG_FUA: u16 = 1 << 0;
pub(crate) const CMD_FLAG_NO_HOLE: u16 = 1 << 1;

/// The longest string (name of an export, text of an error).
pub(crate) const MAX_STRING: usize = 4096;
/// The longest payload of a read or write: what the document lets every client count on.
pub(crate) const MAX_PAYLOAD: u32 = 32 << 20;

/// What a reply says about a request that failed: the numbers that the protocol allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum NbdError {
    Perm = 1,
    Io = 5,
    NoMemory = 12,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
    NotSupported = 95,
    Shutdown = 108,
}

impl fmt::Display for NbdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NbdError::Perm => "EPERM",
            NbdError::Io => "EIO",
            NbdError::NoMemory => "ENOMEM",
            NbdError::Invalid => "EINVAL",
            NbdError::NoSpace => "ENOSPC",
            NbdError::Overflow => "EOVERFLOW",
            NbdError::NotSupported => "ENOTSUP",
            NbdError::Shutdown => "ESHUTDOWN",
        })
    }
}
