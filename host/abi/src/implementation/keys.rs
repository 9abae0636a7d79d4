//! Keys: what stands in the `async_state_t` of a structure while an operation is pending.
//!
//! A key names a value in one of several small tables, chosen by the address of the structure, so that threads that work
//! on different structures seldom meet. A value is taken out once, by whoever ends its operation. A key that was used up,
//! or memory that was never cleared, names nothing: slots have generations.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::types::async_state_t;

const SHARDS: usize = 16;

struct Slot<T> {
    /// Of the value that is there, or of the last one. Never 0.
    generation: u32,
    value: Option<T>,
}

struct Shard<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// Values by their keys.
pub(crate) struct Keys<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
}

impl<T> Keys<T> {
    pub(crate) const fn new() -> Self {
        Keys { shards: [const { Mutex::new(Shard { slots: Vec::new(), free: Vec::new() }) }; SHARDS] }
    }

    /// Puts a value in. `near` is the address of the structure that will hold the key.
    pub(crate) fn insert(&self, near: usize, value: T) -> usize {
        let at = (near >> 4 ^ near >> 12) % SHARDS;
        let mut shard = self.shards[at].lock();
        let index = match shard.free.pop() {
            Some(index) => index,
            None => {
                shard.slots.push(Slot { generation: 0, value: None });
                u32::try_from(shard.slots.len() - 1).expect("fewer operations are pending")
            }
        };
        let slot = &mut shard.slots[index as usize];
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        slot.value = Some(value);
        (slot.generation as usize) << 32 | (index as usize) << 4 | at
    }

    /// Takes a value out.
    pub(crate) fn remove(&self, key: usize) -> Option<T> {
        let mut shard = self.shards[key % SHARDS].lock();
        let index = (key & 0xffff_ffff) >> 4;
        let value = shard.slots.get_mut(index).filter(|slot| slot.generation as usize == key >> 32)?.value.take()?;
        shard.free.push(index as u32);
        Some(value)
    }

    /// Looks at a value that is there.
    pub(crate) fn with<R>(&self, key: usize, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut shard = self.shards[key % SHARDS].lock();
        let index = (key & 0xffff_ffff) >> 4;
        let slot = shard.slots.get_mut(index).filter(|slot| slot.generation as usize == key >> 32)?;
        slot.value.as_mut().map(look)
    }

    /// How many values there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().slots.iter().filter(|slot| slot.value.is_some()).count()).sum()
    }
}

/// The key in a structure of C's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State<'a>(&'a AtomicUsize);

impl<'a> State<'a> {
    /// # Safety
    /// `state` is valid for as long as the result is used, and C does not write to it meanwhile.
    pub(crate) unsafe fn of(state: *mut async_state_t) -> State<'a> {
        // SAFETY: the first word of a valid structure; everybody on this side accesses it atomically.
        State(unsafe { AtomicUsize::from_ptr((&raw mut (*state).reserved).cast::<usize>()) })
    }

    pub(crate) fn key(self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(self, key: usize) {
        self.0.store(key, Ordering::Relaxed);
    }

    pub(crate) fn clear(self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_one_value_until_it_is_taken_out_and_nothing_afterwards() {
        let keys = Keys::new();
        let first = keys.insert(0x1000, "first");
        let second = keys.insert(0x1000, "second");
        assert_ne!(first, second);
        assert_eq!(keys.with(first, |value| *value), Some("first"));
        assert_eq!((keys.remove(first), keys.remove(first)), (Some("first"), None));
        let third = keys.insert(0x1000, "third");
        assert_ne!(third, first, "the slot is used again, the key is not");
        assert_eq!(
            (keys.with(first, |_| ()), keys.remove(third), keys.remove(second)),
            (None, Some("third"), Some("second"))
        );
        assert_eq!(keys.len(), 0);
    }

    #[test]
    fn what_was_never_a_key_names_nothing() {
        let keys = Keys::new();
        let key = keys.insert(0, ());
        for garbage in [0, 1, usize::MAX, 0xaaaa_aaaa_aaaa_aaaa, key ^ 1, key ^ 1 << 32, key & 0xffff_ffff] {
            assert_eq!((keys.remove(garbage), keys.with(garbage, |_| ())), (None, None), "{garbage:#x}");
        }
        assert_eq!(keys.remove(key), Some(()));
    }
}
