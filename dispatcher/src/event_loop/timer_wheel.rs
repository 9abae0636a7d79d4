//! `TimerWheel<T>`: any number of deadlines, armed and canceled in constant time.
//!
//! Time is a 64-bit number of nanoseconds, cut into eleven digits of six bits. A timer hangs in the ring of the highest
//! digit in which its deadline differs from the wheel's own time, at the place that this digit of the deadline names.
//!
//! 1. Whatever hangs in a lower ring is due before whatever hangs in a higher one, so the first occupied place of
//!    the lowest occupied ring holds the earliest deadline. Bit maps find it in two instructions.
//! 2. When the wheel's time reaches a place, what hangs there is due or moves to a lower ring: at most ten moves in a
//!    timer's life, and none of them early.
//! 3. Equal deadlines always share a place, in the order of arming, and move together. Hence they fire in that order.
//! 4. What is armed for a time that has passed waits in a list of its own and is due at once.
//!
//! The wheel is pure: it calls nobody and reads no clock.

use std::fmt;

use crate::time::Instant;

const BITS: u32 = 6;
const PLACES: usize = 1 << BITS;
const RINGS: usize = 64usize.div_ceil(BITS as usize);
/// Where timers wait that were armed for a time that had passed.
const OVERDUE: usize = RINGS * PLACES;
const NONE: u32 = u32::MAX;
/// So many unused slots are kept when the wheel is empty; those of a burst go back to the allocator.
const KEPT_SLOTS: usize = 1024;

/// Deadlines with a value each.
pub(crate) struct TimerWheel<T> {
    /// Everything up to here has been taken out. Only grows.
    now: u64,
    /// A bit a ring: whether anything hangs in it.
    occupied_rings: u16,
    /// A bit a place.
    occupied_places: [u64; RINGS],
    /// Lists of timers, ring by ring, and the overdue ones last.
    lists: Box<[List; OVERDUE + 1]>,
    timers: Vec<Slot<T>>,
    /// First of the unused slots, linked through `next`.
    free: u32,
    armed: usize,
    /// The generation of a slot that is made anew: above all that were ever used.
    first_generation: u32,
}

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
    /// No later than the earliest deadline in the list; exact unless that one was canceled.
    earliest: u64,
}

const EMPTY: List = List { first: NONE, last: NONE, earliest: u64::MAX };

struct Slot<T> {
    deadline: u64,
    previous: u32,
    next: u32,
    /// Grows when the slot is given up, so that a stale key finds nothing.
    generation: u32,
    list: u16,
    value: Option<T>,
}

/// Names an armed timer of one wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TimerKey {
    index: u32,
    generation: u32,
}

impl<T> TimerWheel<T> {
    /// A wheel whose time begins at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        TimerWheel {
            now: now.as_nanos(),
            occupied_rings: 0,
            occupied_places: [0; RINGS],
            lists: Box::new([EMPTY; OVERDUE + 1]),
            timers: Vec::new(),
            free: NONE,
            armed: 0,
            first_generation: 0,
        }
    }

    /// How many timers are armed.
    pub(crate) fn len(&self) -> usize {
        self.armed
    }

    /// Arms a timer.
    ///
    /// # Panics
    /// With 2^32 - 1 timers armed.
    #[inline]
    pub(crate) fn arm(&mut self, deadline: Instant, value: T) -> TimerKey {
        let index = self.slot_for(deadline.as_nanos(), value);
        self.armed += 1;
        TimerKey { index, generation: self.append(index) }
    }

    /// Disarms a timer and returns its value; `None` if it was taken out or canceled before.
    #[inline]
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let slot = self.timers.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        self.unlink(key.index);
        self.give_up(key.index);
        Some(value)
    }

    /// The earliest deadline, or something before it after cancellations; [`Instant::INFINITE`] if nothing is armed.
    pub(crate) fn next_deadline(&self) -> Instant {
        let overdue = self.lists[OVERDUE].earliest;
        let nanos = self.first_place().map_or(overdue, |(_, list)| overdue.min(self.lists[list].earliest));
        Instant::from_nanos(nanos)
    }

    /// Moves the wheel's time to `now` and gives every timer that is due to `due`, with its deadline: in the order of
    /// arming for equal deadlines, in no particular order else.
    pub(crate) fn advance(&mut self, now: Instant, mut due: impl FnMut(Instant, T)) {
        let now = now.as_nanos();
        self.take_list(OVERDUE, now, &mut due);
        while let Some((start, list)) = self.first_place() {
            if start > now {
                break;
            }
            self.now = start;
            self.take_list(list, now, &mut due);
        }
        self.now = self.now.max(now);
    }

    /// The deadline of the one that is due first at `now`.
    pub(crate) fn first_due_at(&self, now: Instant) -> Option<Instant> {
        self.first_due(now).map(|index| Instant::from_nanos(self.timers[index as usize].deadline))
    }

    /// Takes out the one that is due first at `now`, with its deadline. The wheel's time stays, and so do all others.
    /// Linear in how many share a list with it.
    pub(crate) fn take_first(&mut self, now: Instant) -> Option<(Instant, T)> {
        let index = self.first_due(now)?;
        let slot = &mut self.timers[index as usize];
        let (deadline, value) = (slot.deadline, slot.value.take());
        self.unlink(index);
        self.give_up(index);
        Some((Instant::from_nanos(deadline), value.expect("a timer in a list has its value")))
    }

    fn first_due(&self, now: Instant) -> Option<u32> {
        let lists = [Some(OVERDUE), self.first_place().map(|(_, list)| list)];
        let all = lists.into_iter().flatten().flat_map(|list| self.indices(list));
        // The first of equal ones: they share a list, in the order of arming.
        let first = all.min_by_key(|&index| self.timers[index as usize].deadline)?;
        (self.timers[first as usize].deadline <= now.as_nanos()).then_some(first)
    }

    fn indices(&self, list: usize) -> impl Iterator<Item = u32> + '_ {
        let some = |index| (index != NONE).then_some(index);
        std::iter::successors(some(self.lists[list].first), move |&index| some(self.timers[index as usize].next))
    }

    /// Empties a list: what is due at `now` is given away, the rest hangs itself up anew.
    fn take_list(&mut self, list: usize, now: u64, due: &mut impl FnMut(Instant, T)) {
        let mut index = std::mem::replace(&mut self.lists[list], EMPTY).first;
        self.mark_empty(list);
        while index != NONE {
            let slot = &mut self.timers[index as usize];
            let next = slot.next;
            if slot.deadline <= now {
                let (deadline, value) = (slot.deadline, slot.value.take());
                self.give_up(index);
                due(Instant::from_nanos(deadline), value.expect("a timer in a list has its value"));
            } else {
                self.append(index);
            }
            index = next;
        }
    }

    /// Start time and list of the first occupied place.
    fn first_place(&self) -> Option<(u64, usize)> {
        if self.occupied_rings == 0 {
            return None;
        }
        let ring = self.occupied_rings.trailing_zeros() as usize;
        let place = self.occupied_places[ring].trailing_zeros() as usize;
        let shift = ring as u32 * BITS;
        let above = self.now.checked_shr(shift + BITS).unwrap_or(0).checked_shl(shift + BITS).unwrap_or(0);
        Some((above | (place as u64) << shift, ring * PLACES + place))
    }

    /// Hangs a slot up at the end of its list. Answers with its generation.
    #[inline]
    fn append(&mut self, index: u32) -> u32 {
        let at = list_for(self.timers[index as usize].deadline, self.now);
        let list = &mut self.lists[at];
        let previous = std::mem::replace(&mut list.last, index);
        let slot = &mut self.timers[index as usize];
        (slot.previous, slot.next, slot.list) = (previous, NONE, at as u16);
        list.earliest = list.earliest.min(slot.deadline);
        let generation = slot.generation;
        if previous != NONE {
            self.timers[previous as usize].next = index;
            return generation;
        }
        list.first = index;
        if at != OVERDUE {
            self.occupied_places[at / PLACES] |= 1 << (at % PLACES);
            self.occupied_rings |= 1 << (at / PLACES);
        }
        generation
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let Slot { previous, next, list, .. } = self.timers[index as usize];
        let list = usize::from(list);
        match previous {
            NONE => self.lists[list].first = next,
            previous => self.timers[previous as usize].next = next,
        }
        match next {
            NONE => self.lists[list].last = previous,
            next => self.timers[next as usize].previous = previous,
        }
        if self.lists[list].first == NONE {
            self.lists[list] = EMPTY;
            self.mark_empty(list);
        }
    }

    #[inline]
    fn mark_empty(&mut self, list: usize) {
        if list == OVERDUE {
            return;
        }
        let ring = list / PLACES;
        self.occupied_places[ring] &= !(1 << (list % PLACES));
        if self.occupied_places[ring] == 0 {
            self.occupied_rings &= !(1 << ring);
        }
    }

    #[inline]
    fn slot_for(&mut self, deadline: u64, value: T) -> u32 {
        if self.free != NONE {
            let index = self.free;
            let slot = &mut self.timers[index as usize];
            self.free = slot.next;
            (slot.deadline, slot.value) = (deadline, Some(value));
            return index;
        }
        let index = u32::try_from(self.timers.len()).ok().filter(|index| *index != NONE);
        let index = index.expect("fewer than 2^32 - 1 timers are armed at a time");
        let generation = self.first_generation;
        self.timers.push(Slot { deadline, previous: NONE, next: NONE, generation, list: 0, value: Some(value) });
        index
    }

    #[inline]
    fn give_up(&mut self, index: u32) {
        let slot = &mut self.timers[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.next = std::mem::replace(&mut self.free, index);
        self.armed -= 1;
        if self.armed == 0 && self.timers.len() > KEPT_SLOTS {
            self.end_burst();
        }
    }

    /// Gives the memory of a burst back, once nothing is armed. A stale key still finds nothing.
    #[cold]
    fn end_burst(&mut self) {
        let latest = self.timers.iter().map(|slot| slot.generation).max();
        self.first_generation = latest.map_or(0, |generation| generation.wrapping_add(1));
        self.timers.clear();
        self.timers.shrink_to(KEPT_SLOTS);
        self.free = NONE;
    }
}

/// The list in which a deadline hangs while the wheel is at `now`.
fn list_for(deadline: u64, now: u64) -> usize {
    if deadline <= now {
        return OVERDUE;
    }
    let ring = (63 - (deadline ^ now).leading_zeros()) / BITS;
    let place = (deadline >> (ring * BITS)) as usize % PLACES;
    ring as usize * PLACES + place
}

impl<T> fmt::Debug for TimerWheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerWheel({} armed, next {:?})", self.armed, self.next_deadline())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn take(wheel: &mut TimerWheel<u32>, now: u64) -> Vec<(u64, u32)> {
        let mut due = Vec::new();
        wheel.advance(at(now), |deadline, value| due.push((deadline.as_nanos(), value)));
        due.sort_by_key(|(deadline, _)| *deadline);
        due
    }

    #[test]
    fn nothing_fires_early_and_the_exact_nanosecond_fires() {
        let mut wheel = TimerWheel::new(at(1_000));
        wheel.arm(at(5_000_000_000), 1);
        assert_eq!(take(&mut wheel, 4_999_999_999), []);
        assert_eq!(wheel.next_deadline(), at(5_000_000_000));
        assert_eq!(take(&mut wheel, 5_000_000_000), [(5_000_000_000, 1)]);
        assert!(wheel.next_deadline().is_infinite());
    }

    #[test]
    fn equal_deadlines_fire_in_the_order_of_arming_also_when_armed_far_apart() {
        let mut wheel = TimerWheel::new(at(0));
        for value in 0..20 {
            wheel.arm(at(1 << 40), value);
            assert_eq!(take(&mut wheel, (1 << 40) - (1 << (39 - value))), []);
        }
        wheel.arm(at(1 << 40), 20);
        assert_eq!(
            take(&mut wheel, 1 << 50).into_iter().map(|(_, v)| v).collect::<Vec<_>>(),
            (0..=20).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_deadline_in_the_past_is_due_at_once() {
        let mut wheel = TimerWheel::new(at(500));
        wheel.arm(at(3), 1);
        wheel.arm(at(500), 2);
        assert_eq!(wheel.next_deadline(), at(3));
        assert_eq!(take(&mut wheel, 500), [(3, 1), (500, 2)]);
    }

    #[test]
    fn a_stale_key_cancels_nothing_even_when_its_slot_is_used_again() {
        let mut wheel = TimerWheel::new(at(0));
        let old = wheel.arm(at(10), 1);
        assert_eq!(wheel.cancel(old), Some(1));
        let new = wheel.arm(at(10), 2);
        assert_eq!(wheel.cancel(old), None);
        assert_eq!((wheel.len(), wheel.cancel(new), wheel.len()), (1, Some(2), 0));
    }

    #[test]
    fn the_memory_of_a_burst_is_given_back_and_its_keys_stay_stale() {
        for by_canceling in [true, false] {
            let mut wheel = TimerWheel::new(at(0));
            let keys: Vec<_> = (0..100_000).map(|nth| wheel.arm(at(1 + u64::from(nth)), nth)).collect();
            let before = wheel.timers.capacity();
            match by_canceling {
                true => keys.iter().for_each(|key| assert!(wheel.cancel(*key).is_some())),
                false => assert_eq!(take(&mut wheel, 1_000_000).len(), keys.len()),
            }
            assert!(before >= keys.len() && wheel.timers.capacity() == KEPT_SLOTS);
            let again: Vec<_> = (0..2_000).map(|nth| wheel.arm(at(2_000_000 + u64::from(nth)), nth)).collect();
            assert!(keys.iter().all(|stale| wheel.cancel(*stale).is_none()));
            assert!(again.iter().all(|key| wheel.cancel(*key).is_some()));
        }
    }

    #[test]
    fn the_last_nanosecond_of_the_clock_is_a_deadline_like_any_other() {
        let mut wheel = TimerWheel::new(at(7));
        wheel.arm(at(u64::MAX), 1);
        assert_eq!(take(&mut wheel, u64::MAX - 1), []);
        assert_eq!(take(&mut wheel, u64::MAX), [(u64::MAX, 1)]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Arm(u64),
        Cancel(usize),
        Advance(u64),
    }

    fn distance() -> impl Strategy<Value = u64> {
        (0u32..45, 0u64..64).prop_map(|(shift, small)| small << shift)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => distance().prop_map(Step::Arm),
            1 => (0usize..64).prop_map(Step::Cancel),
            2 => distance().prop_map(Step::Advance),
        ]
    }

    proptest! {
        /// The wheel against an ordered map: same timers fire, in the same order, and the next deadline is never late.
        #[test]
        fn the_wheel_agrees_with_an_ordered_map(
            start in 0u64..1 << 50,
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut wheel = TimerWheel::new(at(start));
            let mut model = BTreeMap::new();
            let mut keys = Vec::new();
            let (mut now, mut canceled) = (start, false);
            for (serial, step) in steps.into_iter().enumerate() {
                let serial = serial as u32;
                match step {
                    Step::Arm(distance) => {
                        let deadline = (now + distance).saturating_sub(3);
                        keys.push((wheel.arm(at(deadline), serial), (deadline, serial)));
                        model.insert((deadline, serial), serial);
                    }
                    Step::Cancel(nth) if !keys.is_empty() => {
                        let (key, entry) = keys[nth % keys.len()];
                        prop_assert_eq!(wheel.cancel(key), model.remove(&entry));
                        canceled = true;
                    }
                    Step::Cancel(_) => {}
                    Step::Advance(distance) => {
                        now += distance;
                        let expected: Vec<_> = model.range(..=(now, u32::MAX)).map(|(key, _)| *key).collect();
                        model.retain(|key, _| key.0 > now);
                        prop_assert_eq!(take(&mut wheel, now), expected);
                    }
                }
                let next = model.keys().next().map_or(u64::MAX, |key| key.0);
                prop_assert!(wheel.next_deadline() <= at(next));
                prop_assert!(canceled || wheel.next_deadline() == at(next));
                prop_assert_eq!(wheel.len(), model.len());
            }
        }
    }
}
