//! Nodes of an [`Inbox`](crate::sync::Inbox), and how their memory goes round.
//!
//! A node is filled by a sender on one thread and emptied by the receiver on another. To give each back to the allocator
//! there, and to ask it for another here, is most of what a post costs. So memory goes round in batches instead:
//!
//! 1. The receiver links the nodes that it has emptied into a [`Batch`], up to a limit; the rest is freed.
//! 2. From time to time it puts the batch into the one place for it, [`Spares`], by compare-exchange from nothing. If
//!    there is one already, nobody needs so many, and the batch is freed.
//! 3. A sender takes the whole batch by one exchange and keeps it for the nodes that its thread needs next. Since
//!    batches are only ever taken whole, a node that comes back under its old address confuses nobody.
//!
//! So a queue keeps at most one batch, and a thread at most one batch for all queues.
//!
//! Invariant kept by the unsafe code here: an empty node belongs to its batch, a batch to the thread that made or took it,
//! and to nobody while it lies in its place. The list that a thread keeps holds memory of one layout only.
#![expect(unsafe_code, reason = "nodes pass from thread to thread as raw pointers")]

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicPtr, Ordering};

/// How many nodes a batch holds at most.
const LIMIT: usize = 256;

/// A link and room for a value. Whether there is one is known by who has the node.
#[repr(C)]
pub(super) struct Node<T> {
    /// In a queue: the node that was pushed before this one, turned around by the receiver. In a batch: the next.
    pub(super) next: UnsafeCell<*mut Node<T>>,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Node<T> {
    fn new_empty() -> *mut Node<T> {
        let node = Node { next: UnsafeCell::new(ptr::null_mut()), value: UnsafeCell::new(MaybeUninit::uninit()) };
        Box::into_raw(Box::new(node))
    }

    /// Puts a value into an empty node, and a link.
    ///
    /// # Safety
    /// The node is the caller's, and empty.
    pub(super) unsafe fn fill(node: *mut Node<T>, value: T, next: *mut Node<T>) {
        // SAFETY: the node is the caller's.
        let node = unsafe { &*node };
        node.value.with_mut(|at| {
            // SAFETY: nobody else reaches it; what was there is no value.
            unsafe { at.write(MaybeUninit::new(value)) }
        });
        // SAFETY: as above.
        node.next.with_mut(|at| unsafe { at.write(next) });
    }

    /// Takes the value out, which leaves the node empty, and reads the link.
    ///
    /// # Safety
    /// The node is the caller's, and filled.
    pub(super) unsafe fn empty(node: *mut Node<T>) -> (T, *mut Node<T>) {
        // SAFETY: the node is the caller's.
        let node = unsafe { &*node };
        let value = node.value.with(|at| {
            // SAFETY: the caller says that there is a value, which is not touched again.
            unsafe { at.read().assume_init() }
        });
        // SAFETY: nobody else reaches it.
        (value, node.next.with(|at| unsafe { at.read() }))
    }
}

/// Frees a list of empty nodes.
///
/// # Safety
/// They are the caller's, each made by [`Node::new_empty`].
unsafe fn free<T>(mut node: *mut Node<T>) {
    while !node.is_null() {
        // SAFETY: the caller's, and never looked at again; its value, which is none, is not dropped.
        let boxed = unsafe { Box::from_raw(node) };
        node = boxed.next.with(|at| {
            // SAFETY: it is ours.
            unsafe { at.read() }
        });
    }
}

/// Nodes that have been emptied. Dropping it frees them.
pub(super) struct Batch<T> {
    first: *mut Node<T>,
    len: usize,
    owns: PhantomData<Box<Node<T>>>,
}

impl<T> Batch<T> {
    pub(super) const fn new() -> Self {
        Batch { first: ptr::null_mut(), len: 0, owns: PhantomData }
    }

    /// Takes a node in, or frees it.
    ///
    /// # Safety
    /// The node is the caller's, and empty; it is the batch's from here on.
    pub(super) unsafe fn add(&mut self, node: *mut Node<T>) {
        let goes_round = cache::fits::<T>() && self.len < LIMIT;
        let next = if goes_round { self.first } else { ptr::null_mut() };
        // SAFETY: the node is the caller's, so nobody else reaches its link.
        unsafe { (*node).next.with_mut(|at| at.write(next)) };
        if goes_round {
            (self.first, self.len) = (node, self.len + 1);
        } else {
            // SAFETY: the caller's, and alone in its list.
            unsafe { free(node) };
        }
    }

    fn into_first(mut self) -> *mut Node<T> {
        std::mem::replace(&mut self.first, ptr::null_mut())
    }
}

impl<T> Drop for Batch<T> {
    fn drop(&mut self) {
        // SAFETY: the nodes of a batch are its own.
        unsafe { free(self.first) }
    }
}

/// The place for one batch on its way from the receiver to a sender.
pub(super) struct Spares<T> {
    batch: AtomicPtr<Node<T>>,
}

impl<T> Spares<T> {
    pub(super) fn new() -> Self {
        Spares { batch: AtomicPtr::new(ptr::null_mut()) }
    }

    /// An empty node for the caller: from what its thread keeps, from the batch that lies here, or a new one.
    pub(super) fn node(&self) -> *mut Node<T> {
        let kept = cache::pop::<T>();
        if !kept.is_null() {
            return kept;
        }
        // Relaxed: a look, to leave the place alone while there is nothing.
        if !cache::fits::<T>() || self.batch.load(Ordering::Relaxed).is_null() {
            return Node::new_empty();
        }
        // ORDERING: Acquire, pairs with the Release in `give`; makes the links readable.
        let first = self.batch.swap(ptr::null_mut(), Ordering::Acquire);
        if first.is_null() {
            return Node::new_empty();
        }
        // SAFETY: the exchange made the batch ours.
        let rest = unsafe { (*first).next.with(|at| at.read()) };
        // SAFETY: as above.
        unsafe { cache::fill(rest) };
        first
    }

    /// Puts a batch here, unless there is one.
    pub(super) fn give(&self, batch: Batch<T>) {
        if batch.first.is_null() || !self.batch.load(Ordering::Relaxed).is_null() {
            return;
        }
        let first = batch.into_first();
        // ORDERING: Release, pairs with the Acquire in `node` and `drop`; publishes the links.
        let put = self.batch.compare_exchange(ptr::null_mut(), first, Ordering::Release, Ordering::Relaxed);
        if put.is_err() {
            // SAFETY: it was not put there, so it is still ours.
            unsafe { free(first) };
        }
    }
}

impl<T> Drop for Spares<T> {
    fn drop(&mut self) {
        // ORDERING: Acquire, pairs with the Release in `give`.
        let first = self.batch.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: the exchange made the batch ours.
        unsafe { free(first) };
    }
}

impl<T> fmt::Debug for Spares<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.batch.load(Ordering::Relaxed).is_null() { "Spares(none)" } else { "Spares(a batch)" })
    }
}

/// What a thread keeps, for all queues whose nodes have the layout of those that carry closures.
#[cfg(not(any(loom, shuttle)))]
mod cache {
    use std::alloc::Layout;
    use std::cell::Cell;
    use std::ptr;

    use super::Node;

    /// A node without the type of its value.
    #[repr(C)]
    struct Bare {
        next: *mut Bare,
        value: [usize; 4],
    }

    struct Kept(Cell<*mut Bare>);

    impl Drop for Kept {
        fn drop(&mut self) {
            let mut bare = self.0.get();
            while !bare.is_null() {
                // SAFETY: what is kept here is the thread's own, and came from boxes of this layout.
                bare = unsafe { Box::from_raw(bare) }.next;
            }
        }
    }

    crate::sync::thread_local! {
        static KEPT: Kept = const { Kept(Cell::new(ptr::null_mut())) };
    }

    /// Whether nodes of this type go round at all.
    pub(super) const fn fits<T>() -> bool {
        let (node, bare) = (Layout::new::<Node<T>>(), Layout::new::<Bare>());
        node.size() == bare.size() && node.align() == bare.align()
    }

    pub(super) fn pop<T>() -> *mut Node<T> {
        if !fits::<T>() {
            return ptr::null_mut();
        }
        let pop = |kept: &Kept| {
            let first = kept.0.get();
            if !first.is_null() {
                // SAFETY: what is kept here is the thread's own.
                kept.0.set(unsafe { (*first).next });
            }
            first
        };
        // A thread that is going away keeps nothing any more.
        KEPT.try_with(pop).unwrap_or(ptr::null_mut()).cast()
    }

    /// Keeps a list of empty nodes, of which the thread has none at this moment.
    ///
    /// # Safety
    /// They are the caller's, and of a type that fits.
    pub(super) unsafe fn fill<T>(first: *mut Node<T>) {
        let kept = KEPT.try_with(|kept| kept.0.replace(first.cast()));
        let unwanted = kept.map_or(first, <*mut Bare>::cast);
        // SAFETY: either the thread had some after all, which are out of its list now; or it keeps nothing.
        unsafe { super::free(unwanted) };
    }
}

/// In a model no thread keeps anything, so that each node goes through the place for batches.
#[cfg(any(loom, shuttle))]
mod cache {
    use std::ptr;

    use super::Node;

    pub(super) const fn fits<T>() -> bool {
        true
    }

    pub(super) fn pop<T>() -> *mut Node<T> {
        ptr::null_mut()
    }

    /// # Safety
    /// The nodes are the caller's.
    pub(super) unsafe fn fill<T>(first: *mut Node<T>) {
        // SAFETY: passed on from the caller.
        unsafe { super::free(first) };
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::SmallFn;

    type Closure = SmallFn<()>;

    /// Nodes as a receiver leaves them.
    fn batch(count: usize) -> (Batch<Closure>, Vec<*mut Node<Closure>>) {
        let (mut batch, nodes) = (Batch::new(), (0..count).map(|_| Node::new_empty()).collect::<Vec<_>>());
        for &node in &nodes {
            // SAFETY: just made, and filled in between.
            unsafe {
                Node::fill(node, SmallFn::new(|_| {}), ptr::null_mut());
                drop(Node::empty(node));
                batch.add(node);
            }
        }
        (batch, nodes)
    }

    #[test]
    fn closures_go_round_and_what_a_receiver_has_emptied_serves_the_next_sender() {
        assert!(cache::fits::<Closure>(), "the layout of the cache is that of a node with a closure");
        let spares = Spares::new();
        let (batch, mut nodes) = batch(3);
        spares.give(batch);
        let mut taken: Vec<_> = (0..3).map(|_| spares.node()).collect();
        nodes.sort();
        taken.sort();
        assert_eq!(taken, nodes);
        let mut rest = Batch::new();
        // SAFETY: they are ours, and empty.
        taken.into_iter().for_each(|node| unsafe { rest.add(node) });
    }

    #[test]
    fn no_more_than_one_batch_of_limited_size_is_kept() {
        let spares = Spares::new();
        let (first, _) = batch(LIMIT + 10);
        assert_eq!(first.len, LIMIT);
        spares.give(first);
        spares.give(batch(1).0);
        let mut taken = Batch::new();
        // SAFETY: the node is ours, and empty.
        unsafe { taken.add(spares.node()) };
        assert!(spares.batch.load(Ordering::Relaxed).is_null(), "a batch is taken whole");
    }

    #[test]
    fn a_type_of_another_size_does_not_go_round() {
        assert!(!cache::fits::<[u8; 3]>());
        let (spares, mut batch) = (Spares::<[u8; 3]>::new(), Batch::new());
        // SAFETY: the node is ours, and empty.
        unsafe { batch.add(spares.node()) };
        assert_eq!(batch.len, 0);
    }
}
