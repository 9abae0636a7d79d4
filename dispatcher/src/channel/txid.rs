//! Transaction ids: what ties a reply to its call.

use std::fmt;
use std::num::NonZero;

use super::calls;
use super::ends::Side;

/// Names one call of one end of one channel. A server finds it in a request and puts it into the reply.
///
/// It is beside the bytes of a message, not in them. It says on which channel and by which end the call was made, so a
/// request can never be taken for a reply, also when both ends call each other at the same time, and a reply that is
/// written to another channel answers no call there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Txid {
    channel: u64,
    /// Never 0, so that a message without one is no larger.
    number: NonZero<u32>,
}

impl Txid {
    /// `number` is one of a call, with its highest bit set.
    pub(super) fn new(channel: u64, number: u32) -> Self {
        const HIGHEST: NonZero<u32> = NonZero::new(1 << 31).expect("a bit is set");
        Txid { channel, number: HIGHEST | number }
    }

    /// The number of the call if the end `side` of `channel` made it.
    pub(super) fn call_of(self, channel: u64, side: Side) -> Option<u32> {
        let number = self.as_raw();
        (self.channel == channel && calls::is_of(number, side)).then_some(number)
    }

    /// The number by which the calls of one channel differ, with its highest bit set as in Fuchsia. It is used again
    /// when the call is over and about a billion others have been made.
    pub fn as_raw(self) -> u32 {
        self.number.get()
    }

    /// The whole of it as two numbers, to be carried where a `Txid` cannot go: the channel, and [`as_raw`](Self::as_raw).
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::Txid;
    ///
    /// fn carried(txid: Txid) -> Option<Txid> {
    ///     let (channel, number) = txid.into_raw_parts();
    ///     Txid::from_raw_parts(channel, number)
    /// }
    /// assert_eq!(Txid::from_raw_parts(7, 0), None, "that is no number of a call");
    /// ```
    pub fn into_raw_parts(self) -> (u64, u32) {
        (self.channel, self.as_raw())
    }

    /// What [`into_raw_parts`](Self::into_raw_parts) gave. `None` for a number that no call has; made up ones answer no
    /// call.
    pub fn from_raw_parts(channel: u64, number: u32) -> Option<Txid> {
        (number >> 31 == 1).then(|| Txid::new(channel, number))
    }
}

impl fmt::Debug for Txid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Txid({:#x} of channel {})", self.number, self.channel)
    }
}
