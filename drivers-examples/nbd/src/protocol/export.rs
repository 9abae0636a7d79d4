//! [`Export`]: the one thing a server of this driver offers, as the handshake describes it.

use super::constants::{
    FLAG_CAN_MULTI_CONN, FLAG_HAS_FLAGS, FLAG_READ_ONLY, FLAG_SEND_FLUSH, FLAG_SEND_FUA, FLAG_SEND_TRIM,
    FLAG_SEND_WRITE_ZEROES, MAX_PAYLOAD, MAX_STRING,
};

/// Up to this block size a client that was not told of block sizes manages by itself.
const COMMON_BLOCK_SIZE: u32 = 512;

/// The name and shape of the block device behind the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) name: String,
    /// Bytes; a multiple of `block_size`.
    pub(crate) size: u64,
    /// What offsets and lengths are multiples of; a power of two.
    pub(crate) block_size: u32,
    pub(crate) read_only: bool,
}

impl Export {
    /// Whether a client that asks for `name` means this export; the empty name asks for the default one.
    pub(crate) fn answers_to(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.name.as_bytes()
    }

    /// Whether this name can be told to clients.
    pub(crate) fn is_valid_name(name: &str) -> bool {
        name.len() <= MAX_STRING && !name.contains('\0')
    }

    /// The transmission flags. Several connections may be used at once: they all reach the same device, which has no
    /// cache of its own for each.
    pub(crate) fn transmission_flags(&self) -> u16 {
        let always = FLAG_HAS_FLAGS | FLAG_SEND_FLUSH | FLAG_SEND_FUA | FLAG_CAN_MULTI_CONN;
        always | if self.read_only { FLAG_READ_ONLY } else { FLAG_SEND_TRIM | FLAG_SEND_WRITE_ZEROES }
    }

    /// Minimum, preferred and maximum block size, as told to clients that ask.
    pub(crate) fn block_sizes(&self) -> [u32; 3] {
        [self.block_size, self.block_size.max(4096), MAX_PAYLOAD]
    }

    /// Whether a client must have asked for the block sizes before it may go on: it could not guess them.
    pub(crate) fn requires_block_size(&self) -> bool {
        self.block_size > COMMON_BLOCK_SIZE
    }

    /// Whether the range lies within the device, without overflow.
    pub(crate) fn contains(&self, offset: u64, length: u32) -> bool {
        offset.checked_add(u64::from(length)).is_some_and(|end| end <= self.size)
    }

    /// Whether the range begins and ends at borders of blocks.
    pub(crate) fn is_aligned(&self, offset: u64, length: u32) -> bool {
        let mask = u64::from(self.block_size) - 1;
        (offset | u64::from(length)) & mask == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_protocol_cannot_carry_are_not_valid() {
        assert!(Export::is_valid_name("disk") && Export::is_valid_name("") && Export::is_valid_name(&"x".repeat(4096)));
        assert!(!Export::is_valid_name(&"x".repeat(4097)) && !Export::is_valid_name("a\0b"));
    }

    #[test]
    fn a_read_only_export_offers_nothing_that_changes_it() {
        let export = Export { name: "disk".into(), size: 1024, block_size: 512, read_only: true };
        let flags = export.transmission_flags();
        assert_eq!(flags & (FLAG_SEND_TRIM | FLAG_SEND_WRITE_ZEROES), 0);
        assert_ne!(flags & FLAG_READ_ONLY, 0);
    }
}
