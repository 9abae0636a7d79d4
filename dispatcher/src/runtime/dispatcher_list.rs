//! The dispatchers of a driver, oldest first.
//!
//! Numbers of dispatchers only grow, so a list that is only ever added to at its end is in their order, and one of many is
//! found by halving. What has gone leaves its place empty; when more than half of the places are, the list is packed. So
//! coming and going cost the same however many there are, and a dispatcher takes two words here.
//!
//! # Invariants
//! - The numbers grow along the list, those of empty places included.
//! - `gone` places are empty.

use super::dispatcher::DispatcherInner;
use super::ids::DispatcherId;
use crate::sync::Arc;

#[derive(Default)]
pub(super) struct DispatcherList {
    places: Vec<(DispatcherId, Option<Arc<DispatcherInner>>)>,
    gone: usize,
}

impl DispatcherList {
    /// Adds one that is newer than all that were added before.
    pub(super) fn push(&mut self, dispatcher: Arc<DispatcherInner>) {
        debug_assert!(self.places.last().is_none_or(|(newest, _)| *newest < dispatcher.id()));
        self.places.push((dispatcher.id(), Some(dispatcher)));
    }

    /// Takes one out; `None` if it is not there any more.
    pub(super) fn remove(&mut self, id: DispatcherId) -> Option<Arc<DispatcherInner>> {
        let at = self.places.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let removed = self.places[at].1.take()?;
        self.gone += 1;
        if self.gone * 2 > self.places.len() {
            self.places.retain(|(_, dispatcher)| dispatcher.is_some());
            self.gone = 0;
            self.places.shrink_to(self.places.len() * 2);
        }
        Some(removed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.len() == self.gone
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<DispatcherInner>> {
        self.places.iter().filter_map(|(_, dispatcher)| dispatcher.as_ref())
    }

    /// How many places there are, empty ones included.
    #[cfg(test)]
    fn places(&self) -> usize {
        self.places.len()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::runtime::{DispatcherBuilder, RuntimeBuilder};

    #[test]
    fn what_is_left_is_in_order_and_takes_at_most_twice_its_places() {
        let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
        let driver = runtime.new_driver("driver");
        let make = |_| driver.new_dispatcher(DispatcherBuilder::new()).expect("created").release();
        let handles: Vec<_> = (0..100).map(make).collect();
        let mut list = DispatcherList::default();
        handles.iter().for_each(|handle| list.push(Arc::clone(handle.inner())));
        let mut left: Vec<_> = handles.iter().map(|handle| handle.inner().id()).collect();
        for step in 0..100 {
            let gone = left.remove(step * 7 % left.len());
            assert_eq!(list.remove(gone).map(|dispatcher| dispatcher.id()), Some(gone));
            assert!(list.remove(gone).is_none(), "it leaves once");
            assert!(list.iter().map(|dispatcher| dispatcher.id()).eq(left.iter().copied()));
            assert!(list.places() <= 2 * left.len(), "{} places for {}", list.places(), left.len());
            assert_eq!(list.is_empty(), left.is_empty());
        }
    }
}
