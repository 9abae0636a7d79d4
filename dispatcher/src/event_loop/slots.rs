//! `Slots<T>`: values under numbers that are never mistaken for each other: a number that was used before names
//! nothing.

/// A table of values, each under a [`Key`].
pub(crate) struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// Names a value in one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// The key as one number, which leaves the topmost bit free.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.index) << 32 | u64::from(self.generation)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Key { index: (bits >> 32) as u32, generation: bits as u32 }
    }
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Slots { entries: Vec::new(), free: Vec::new() }
    }

    /// # Panics
    /// With 2^31 values in the table.
    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.value = Some(value);
            return Key { index, generation: entry.generation };
        }
        assert!(self.entries.len() < 1 << 31, "a loop holds fewer than 2^31 things of a kind");
        self.entries.push(Entry { generation: 0, value: Some(value) });
        Key { index: (self.entries.len() - 1) as u32, generation: 0 }
    }

    /// [`Slots::insert`] of a value that knows its key.
    ///
    /// # Panics
    /// As [`Slots::insert`].
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Key {
        let key = match self.free.last() {
            Some(&index) => Key { index, generation: self.entries[index as usize].generation },
            None => Key { index: self.entries.len() as u32, generation: 0 },
        };
        let inserted = self.insert(make(key));
        debug_assert_eq!(inserted, key, "the next place is the one that was looked at");
        inserted
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        entry.value.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.value.as_ref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }

    /// Takes everything out. Keys from before name nothing.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        let mut taken = Vec::with_capacity(self.len());
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if let Some(value) = entry.value.take() {
                entry.generation = entry.generation.wrapping_add(1);
                self.free.push(index as u32);
                taken.push(value);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_key_names_nothing_also_when_its_place_is_used_again() {
        let mut slots = Slots::new();
        let old = slots.insert('a');
        assert_eq!((slots.remove(old), slots.remove(old)), (Some('a'), None));
        let new = slots.insert('b');
        assert_eq!(slots.get_mut(old), None);
        assert_eq!(slots.get_mut(new), Some(&mut 'b'));
        assert_eq!(Key::from_bits(new.to_bits()), new);
        assert_eq!((slots.take_all(), slots.len()), (vec!['b'], 0));
        assert_eq!(slots.get_mut(new), None);
    }
}
