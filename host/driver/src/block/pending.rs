//! What a client waits for: callbacks by id, where an id is never mistaken for an older one.

use super::BlockBuffer;
use crate::Status;

/// What is called with the outcome of a request.
pub type BlockDone = Box<dyn FnOnce(Result<BlockBuffer, Status>) + Send>;

/// A request without an answer.
pub(super) struct Asked {
    pub(super) done: BlockDone,
    /// How many bytes of data a success brings.
    pub(super) expects: u32,
}

/// Callbacks in slots that are used again. An id is a slot's index and its generation, so that a reply which comes twice
/// finds nothing.
#[derive(Default)]
pub(super) struct Pending {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    asked: Option<Asked>,
}

impl Pending {
    pub(super) fn insert(&mut self, asked: Asked) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, asked: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than four billion requests in flight")
        });
        let slot = &mut self.slots[index as usize];
        slot.asked = Some(asked);
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Asked> {
        let index = (id & u64::from(u32::MAX)) as usize;
        let slot = self.slots.get_mut(index)?;
        if u64::from(slot.generation) != id >> 32 {
            return None;
        }
        let asked = slot.asked.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(u32::try_from(index).expect("it came from 32 bits"));
        Some(asked)
    }

    /// Takes all that is left.
    pub(super) fn drain(&mut self) -> Vec<BlockDone> {
        let all = std::mem::take(&mut self.slots);
        self.free.clear();
        all.into_iter().filter_map(|slot| slot.asked).map(|asked| asked.done).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked { done: Box::new(|_| ()), expects: 0 }
    }

    #[test]
    fn an_id_finds_its_request_once_and_is_not_used_again() {
        let mut pending = Pending::default();
        let first = pending.insert(asked());
        let second = pending.insert(asked());
        assert_ne!(first, second);
        assert_eq!(pending.len(), 2);
        assert!(pending.remove(first).is_some());
        assert!(pending.remove(first).is_none());
        let third = pending.insert(asked());
        assert_ne!(third, first, "the slot is the same, the id is not");
        assert!(pending.remove(first).is_none());
        assert!(pending.remove(u64::MAX).is_none());
        assert_eq!(pending.drain().len(), 2);
        assert_eq!(pending.len(), 0);
        assert!(pending.remove(third).is_none());
    }
}
