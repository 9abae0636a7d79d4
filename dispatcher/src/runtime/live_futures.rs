//! The futures of a dispatcher that have neither finished nor been dropped.
//!
//! Each stands here with its waker from the moment it is spawned, so that shutdown can have every one of them handed
//! over to be dropped in context. A future counts as one accepted callback and ends as ran, canceled or taken back.
//! A wake that is queued is an operation of its own, which is counted nowhere.

use std::task::Waker;

/// The name of a future within its dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FutureId {
    index: u32,
    generation: u32,
}

impl FutureId {
    /// The id as a number.
    pub(crate) fn as_key(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// `Some` while the future lives; the inner option is `None` until its waker is known.
    waker: Option<Option<Waker>>,
}

#[derive(Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// The live futures of one dispatcher. The table is made for the first one.
#[derive(Debug)]
pub(crate) struct LiveFutures(Option<Box<Table>>);

impl LiveFutures {
    pub(crate) const fn new() -> Self {
        LiveFutures(None)
    }

    /// Adds a future.
    pub(crate) fn insert(&mut self) -> FutureId {
        let table = self.0.get_or_insert_default();
        let index = table.free.pop().unwrap_or_else(|| {
            if table.slots.is_empty() {
                // Most dispatchers that have a future have one.
                table.slots.reserve_exact(1);
            }
            table.slots.push(Slot { generation: 0, waker: None });
            (table.slots.len() - 1) as u32
        });
        let slot = &mut table.slots[index as usize];
        slot.waker = Some(None);
        FutureId { index, generation: slot.generation }
    }

    /// Notes the waker of a future that lives.
    pub(crate) fn set_waker(&mut self, id: FutureId, waker: Waker) {
        if let Some(slot) = self.slot(id) {
            slot.waker = Some(Some(waker));
        }
    }

    /// The future is gone; its waker comes back so that it is dropped without a lock held.
    #[must_use = "the waker is dropped outside of the lock"]
    pub(crate) fn remove(&mut self, id: FutureId) -> Option<Waker> {
        let slot = self.slot(id)?;
        slot.generation = slot.generation.wrapping_add(1);
        let waker = slot.waker.take();
        let table = self.0.as_mut()?;
        table.free.push(id.index);
        if table.free.len() == table.slots.len() && table.slots.len() > 1024 {
            // A burst is over. Ids of this table are used only by futures that live, so it can start anew.
            *self = LiveFutures::new();
        }
        waker.flatten()
    }

    /// How many futures live.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |table| table.slots.len() - table.free.len())
    }

    /// The wakers of all that live.
    pub(crate) fn wakers(&self) -> Vec<Waker> {
        let slots = self.0.iter().flat_map(|table| &table.slots);
        slots.filter_map(|slot| slot.waker.clone().flatten()).collect()
    }

    fn slot(&mut self, id: FutureId) -> Option<&mut Slot> {
        let slots = &mut self.0.as_mut()?.slots;
        slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation && slot.waker.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_is_counted_from_insertion_to_its_one_removal() {
        let mut futures = LiveFutures::new();
        let (first, second) = (futures.insert(), futures.insert());
        assert_eq!(futures.len(), 2);
        futures.set_waker(first, Waker::noop().clone());
        assert_eq!(futures.wakers().len(), 1);
        assert!(futures.remove(first).is_some());
        assert!(futures.remove(first).is_none());
        assert_eq!(futures.len(), 1);
        let third = futures.insert();
        assert_ne!(first, third);
        assert!(futures.remove(second).is_none(), "it never had a waker");
        assert_eq!(futures.len(), 1);
    }
}
