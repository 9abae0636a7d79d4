//! An end of an fdf channel, with what belongs to it while C has it: the wait on it, and what it owes replies for.
//!
//! # Invariants
//! - `End::waiting` holds what C has registered, from the registration until just before its handler is called, or until it is
//!   canceled: whoever takes it out has ended the wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fuchsine_dispatcher::{Channel, Txid};
use parking_lot::Mutex;

use super::Foreign;
use super::faces::Face;
use crate::types::{fdf_channel_read_handler_t, fdf_channel_read_t};

/// A wait that C has registered.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) read: Foreign<fdf_channel_read_t>,
    pub(crate) handler: fdf_channel_read_handler_t,
    pub(crate) face: &'static Face,
    /// A cancel calls the handler, later.
    pub(crate) cancels_later: bool,
    /// Such a cancel has been asked for.
    pub(crate) is_canceled: bool,
    /// Which one it is, so that a handler of an earlier one leaves it alone.
    pub(crate) number: u64,
}

/// An end.
pub(crate) struct End {
    pub(crate) channel: Channel,
    pub(crate) waiting: Mutex<Option<Waiting>>,
    /// What requests of calls that were read here began with, and which call each is of.
    owed: Mutex<HashMap<u32, Txid>>,
    /// The id of the last call from here.
    last_call: AtomicU32,
}

impl End {
    pub(crate) fn new(channel: Channel) -> Arc<End> {
        Arc::new(End {
            channel,
            waiting: Mutex::default(),
            owed: Mutex::default(),
            last_call: AtomicU32::new(0x7fff_ffff),
        })
    }

    /// The id of a call, from 0x80000000 upwards and round again.
    pub(crate) fn next_call(&self) -> u32 {
        0x8000_0000 | self.last_call.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// A request was read here.
    pub(crate) fn owe(&self, bytes: &[u8], txid: Txid) {
        self.owed.lock().insert(id_of(bytes), txid);
    }

    /// The call that a message answers which is written here.
    pub(crate) fn repays(&self, bytes: &[u8]) -> Option<Txid> {
        let mut owed = self.owed.lock();
        if owed.is_empty() { None } else { owed.remove(&id_of(bytes)) }
    }
}

/// The id of a message: its first four bytes; one that is shorter counts as 0.
fn id_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |first| u32::from_ne_bytes(*first))
}
