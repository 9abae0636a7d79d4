//! [`Slab`]: a table whose keys stay wrong forever once their entry is gone.
//!
//! An index would be enough if everyone behaved; a key also carries the generation of its place, so that an answer that
//! comes twice, or too late, finds nothing instead of somebody else's entry.

/// Names an entry; never names another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn to_raw(self) -> u64 {
        self.0
    }

    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn new(index: usize, generation: u32) -> Self {
        Self(index as u64 | u64::from(generation) << 32)
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Entries under keys, in places that are used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    len: usize,
    /// The generation of a new place: beyond that of all keys given out before the last [`Slab::shrink_if_empty`].
    base: u32,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), len: 0, base: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        if let Some(index) = self.free.pop() {
            let index = index as usize;
            let place = &mut self.places[index];
            place.value = Some(value);
            return Key::new(index, place.generation);
        }
        self.places.push(Place { generation: self.base, value: Some(value) });
        Key::new(self.places.len() - 1, self.base)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index())?;
        if Key::new(key.index(), place.generation) == key { place.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get_mut(key)?;
        let place = &mut self.places[key.index()];
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index() as u32);
        self.len -= 1;
        place.value.take()
    }

    /// The keys of all entries.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let taken = self.places.iter().enumerate().filter(|(_, place)| place.value.is_some());
        taken.map(|(index, place)| Key::new(index, place.generation)).collect()
    }

    /// Gives back the memory of the places when none is taken; keys given out before stay wrong.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.is_empty() {
            let newest = self.places.iter().map(|place| place.generation).max().unwrap_or(self.base);
            *self = Self { base: newest.wrapping_add(1), ..Self::new() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_dies_with_its_entry_and_never_names_the_next_one() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index(), first.index());
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.remove(second), Some("second"));
        assert!(slab.is_empty());
    }

    #[test]
    fn keys_stay_wrong_when_the_memory_was_given_back() {
        let mut slab = Slab::new();
        let old = slab.insert("old");
        slab.shrink_if_empty();
        assert_eq!(slab.get_mut(old), Some(&mut "old"));
        slab.remove(old);
        slab.shrink_if_empty();
        let new = slab.insert("new");
        assert_eq!(slab.get_mut(old), None);
        assert_eq!(slab.get_mut(new), Some(&mut "new"));
    }

    #[test]
    fn keys_that_were_never_given_out_name_nothing() {
        let mut slab = Slab::new();
        slab.insert(1);
        for raw in [1, u64::MAX, 1 << 32, 0xffff_ffff] {
            assert_eq!(slab.get_mut(Key::from_raw(raw)), None, "{raw:#x}");
        }
        assert_eq!(slab.keys(), [Key::from_raw(0)]);
    }
}
