//! [`Violation`]: what a client did that ends its connection, as the log tells it.

use super::constants::{MAX_PAYLOAD, OPTION_MAGIC, REQUEST_MAGIC};

/// A breach of the protocol after which the byte stream has no agreed meaning, or for which the protocol has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("the client set unknown handshake flags {0:#x}")]
    ClientFlags(u32),
    #[error("an option starts with {0:#x} instead of {OPTION_MAGIC:#x}: this is no NBD client, or it lost its place")]
    OptionMagic(u64),
    #[error("option {option} announces {length} bytes of data, over the limit of {limit}")]
    OptionLength { option: u32, length: u32, limit: u32 },
    #[error(
        "the client asked by EXPORT_NAME for the export `{0}`, which is not here (this option has no other refusal)"
    )]
    UnknownExport(String),
    #[error("a request starts with {0:#x} instead of {REQUEST_MAGIC:#x}: the client lost its place in the stream")]
    RequestMagic(u32),
    #[error("a write of {0} bytes is over the limit of {MAX_PAYLOAD}, and its data cannot be told from what follows")]
    WriteTooLong(u32),
}
