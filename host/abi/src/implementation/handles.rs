//! Handles: numbers that C knows objects by.
//!
//! A handle is a place in one table, with how often the place has been used, so that a number is not the same again soon
//! after it was closed: a stale one names nothing. It is never the number of a descriptor. Bits 0 and 1 tell the kind (`11`
//! for objects, `10` for ends of fdf channels), bits 2 to 17 the place, bits 18 to 31 count.
//!
//! # Invariants
//! - The lock of the table is held for a look-up or a change of one place, and never while anything is dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use fuchsine_dispatcher::{Interest, WakeSource};
use parking_lot::Mutex;

use super::end::End;
use super::objects::Object;
use crate::status::{ZX_ERR_BAD_HANDLE, ZX_ERR_NO_RESOURCES};
use crate::types::{ZX_HANDLE_FIXED_BITS_MASK, zx_handle_t, zx_signals_t, zx_status_t};

/// An object as a wait sees it.
pub(crate) trait Observable: Send + Sync {
    /// The signals that are set at this moment.
    fn signals(&self) -> zx_signals_t;

    /// What becomes ready when one of `wanted` may have been set, each source the same whenever it is asked for (wake
    /// vectors are known by it); it keeps what is behind it open. Readiness may be spurious: the wait looks at
    /// [`signals`](Observable::signals) and is armed again, after a pause if it happens again and again.
    ///
    /// # Errors
    /// `ZX_ERR_ACCESS_DENIED` for what cannot be waited for, `ZX_ERR_NOT_SUPPORTED` for signals that the object never has.
    fn sources(&self, wanted: zx_signals_t) -> Result<Vec<(WakeSource, Interest)>, zx_status_t>;

    /// Whether it counts, so that it can be bound as an interrupt; then `ZX_OBJECT_SIGNALED` has one source.
    fn is_interrupt(&self) -> bool {
        false
    }

    /// Takes what it has counted since the last time, as an interrupt.
    fn take_interrupts(&self) -> u64 {
        0
    }
}

/// How many handles there are at most.
const MOST: usize = 1 << 16;
/// The low bits of a handle to an object.
const OBJECT_BITS: zx_handle_t = 0b11;
/// The low bits of a handle to an end of an fdf channel.
const CHANNEL_BITS: zx_handle_t = 0b10;
/// How many places are left unused before one is used again, if there are as many.
const RESTING: usize = 64;

/// What a handle leads to.
#[derive(Clone)]
pub(crate) enum Entry {
    Object(Arc<Object>),
    Channel(Arc<End>),
}

impl Entry {
    fn bits(&self) -> zx_handle_t {
        match self {
            Entry::Object(_) => OBJECT_BITS,
            Entry::Channel(_) => CHANNEL_BITS,
        }
    }
}

struct Slot {
    /// How often the place has been used, 1 to 2^14 - 1.
    uses: u16,
    entry: Option<Entry>,
}

struct Table {
    slots: Vec<Slot>,
    /// Those that are free, the longest free one first. A place whose entry is out for a while is in neither state.
    free: VecDeque<u16>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { slots: Vec::new(), free: VecDeque::new() });

impl Table {
    fn place(&mut self) -> Option<u16> {
        if self.free.len() > RESTING || self.slots.len() == MOST {
            return self.free.pop_front();
        }
        self.slots.push(Slot { uses: 0, entry: None });
        u16::try_from(self.slots.len() - 1).ok()
    }

    fn slot(&mut self, handle: zx_handle_t) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(place_of(handle))?;
        let bits = slot.entry.as_ref()?.bits();
        let is_it = handle & ZX_HANDLE_FIXED_BITS_MASK == bits && u32::from(slot.uses) == handle >> 18;
        is_it.then_some(slot)
    }
}

fn place_of(handle: zx_handle_t) -> usize {
    (handle >> 2 & 0xffff) as usize
}

/// A handle to an object.
///
/// # Errors
/// `ZX_ERR_NO_RESOURCES`: there are 65,536 already.
pub(crate) fn insert(entry: Entry) -> Result<zx_handle_t, zx_status_t> {
    let mut table = TABLE.lock();
    let place = table.place().ok_or(ZX_ERR_NO_RESOURCES)?;
    let slot = &mut table.slots[usize::from(place)];
    slot.uses = slot.uses % 0x3fff + 1;
    let bits = entry.bits();
    slot.entry = Some(entry);
    Ok(u32::from(slot.uses) << 18 | u32::from(place) << 2 | bits)
}

/// What is behind a handle.
///
/// # Errors
/// `ZX_ERR_BAD_HANDLE`: the value names nothing.
pub(crate) fn entry(handle: zx_handle_t) -> Result<Entry, zx_status_t> {
    TABLE.lock().slot(handle).and_then(|slot| slot.entry.clone()).ok_or(ZX_ERR_BAD_HANDLE)
}

/// The object behind a handle.
///
/// # Errors
/// `ZX_ERR_BAD_HANDLE`: the value names no object.
pub(crate) fn get(handle: zx_handle_t) -> Result<Arc<Object>, zx_status_t> {
    match entry(handle)? {
        Entry::Object(object) => Ok(object),
        Entry::Channel(_) => Err(ZX_ERR_BAD_HANDLE),
    }
}

/// The end of an fdf channel behind a handle.
///
/// # Errors
/// `ZX_ERR_BAD_HANDLE`: the value names no such end.
pub(crate) fn end(handle: zx_handle_t) -> Result<Arc<End>, zx_status_t> {
    match entry(handle)? {
        Entry::Channel(end) => Ok(end),
        Entry::Object(_) => Err(ZX_ERR_BAD_HANDLE),
    }
}

/// Takes out what is behind a handle; the place is kept until it is put back or given up.
///
/// # Errors
/// `ZX_ERR_BAD_HANDLE`: the value names nothing.
pub(crate) fn take(handle: zx_handle_t) -> Result<Entry, zx_status_t> {
    TABLE.lock().slot(handle).and_then(|slot| slot.entry.take()).ok_or(ZX_ERR_BAD_HANDLE)
}

/// Puts back what was taken out.
pub(crate) fn put_back(handle: zx_handle_t, entry: Entry) {
    TABLE.lock().slots[place_of(handle)].entry = Some(entry);
}

/// Ends a handle that was taken out.
pub(crate) fn give_up(handle: zx_handle_t) {
    TABLE.lock().free.push_back(place_of(handle) as u16);
}

/// Ends a handle, and returns what was behind it.
///
/// # Errors
/// `ZX_ERR_BAD_HANDLE`: the value names nothing.
pub(crate) fn remove(handle: zx_handle_t) -> Result<Entry, zx_status_t> {
    let entry = take(handle)?;
    give_up(handle);
    Ok(entry)
}

/// The object behind a handle, to be waited for.
///
/// # Errors
/// `ZX_ERR_BAD_HANDLE`: the value names no object.
pub(crate) fn observe(handle: zx_handle_t) -> Result<Arc<dyn Observable>, zx_status_t> {
    get(handle).map(|object| object as Arc<dyn Observable>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_names_nothing_for_a_long_time() {
        let first = insert(Entry::Object(Object::event())).expect("there is room");
        assert_eq!(first & ZX_HANDLE_FIXED_BITS_MASK, OBJECT_BITS);
        assert!(get(first).is_ok() && remove(first).is_ok());
        assert_eq!((get(first).err(), remove(first).err()), (Some(ZX_ERR_BAD_HANDLE), Some(ZX_ERR_BAD_HANDLE)));
        for _ in 0..2_000 {
            let later = insert(Entry::Object(Object::event())).expect("there is room");
            assert_ne!(later, first);
            assert!(remove(later).is_ok());
        }
        for garbage in [0, 1, 2, 3, 7, u32::MAX, first ^ 1, first ^ 1 << 20, first | 0xffff << 2] {
            assert_eq!(get(garbage).err(), Some(ZX_ERR_BAD_HANDLE), "{garbage:#x}");
        }
    }
}
