//! Nodes of an [`Inbox`](crate::sync::Inbox), and where their memory comes from.
//!
//! A node is filled by a sender on one thread and emptied by the receiver on another. To ask the allocator for each here and
//! give it back there is most of what a post costs. So nodes are cut from *slabs*, of a page each:
//!
//! 1. A thread that sends cuts its nodes from a slab of its own, one behind the other, for whichever queue. With the
//!    last one cut it leaves the slab alone and takes another.
//! 2. A slab counts those who still need it: each of its nodes until that has been emptied, and the thread that cuts
//!    from it. The thread's share is counted as a great many at first, so that cutting a node counts nothing; when it
//!    leaves the slab it takes back all that it has not cut. Whoever brings the count to zero frees the slab, or keeps it
//!    for its own thread's next, if that has none.
//! 3. A receiver that empties a row of nodes from one slab counts them off together.
//!
//! Nodes lie one behind the other in the order in which they were filled, so whoever goes through them goes through memory.
//! A node that stays in its queue for long keeps a page.
//!
//! Invariant kept by the unsafe code here: a slab lies at an address that is a multiple of its size, so that a node leads to
//! its slab; it is freed only when its count has come to zero, after which nobody has a node of it.
#![expect(unsafe_code, reason = "nodes pass from thread to thread as raw pointers")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr::{self, NonNull};

use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU32, Ordering};

/// Size and alignment of a slab.
const SLAB: usize = 4096;
/// Where the first node lies: the count is on a cache line of its own. (In a model it may take more than one.)
const FIRST: usize = size_of::<Head>();
/// The share of the thread that cuts from a slab, to begin with: more than there are nodes.
const CUTTER: u32 = 1 << 20;

const LAYOUT: Layout = match Layout::from_size_align(SLAB, SLAB) {
    Ok(layout) => layout,
    Err(_) => panic!("a page is a valid layout"),
};

/// A link and room for a value. Whether there is one is known by who has the node.
#[repr(C)]
pub(super) struct Node<T> {
    /// The node that was pushed before this one; turned around by the receiver.
    pub(super) next: UnsafeCell<*mut Node<T>>,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Node<T> {
    const FITS: () = assert!(size_of::<Self>() <= SLAB / 16 && align_of::<Self>() <= align_of::<Head>());

    /// A node with a value, which belongs to the caller.
    pub(super) fn filled(value: T, next: *mut Node<T>) -> *mut Node<T> {
        const { Self::FITS };
        let node = cutter::cut(Layout::new::<Self>()).cast::<Self>().as_ptr();
        let empty = Node { next: UnsafeCell::new(next), value: UnsafeCell::new(MaybeUninit::new(value)) };
        // SAFETY: this piece of a slab is ours, big enough, and aligned.
        unsafe { node.write(empty) };
        node
    }

    /// Takes the value out, which leaves the node empty, and reads the link. The memory goes to `emptied`.
    ///
    /// # Safety
    /// The node is the caller's, and filled; it is nobody's afterwards.
    pub(super) unsafe fn empty(node: *mut Node<T>, emptied: &mut Emptied) -> (T, *mut Node<T>) {
        // SAFETY: the node is the caller's, and was written by `filled`. (Read as a whole, it ends for loom as well.)
        let Node { next, value } = unsafe { node.read() };
        emptied.add(node.cast());
        // SAFETY: the caller says that there is a value.
        (unsafe { value.into_inner().assume_init() }, next.into_inner())
    }
}

/// The beginning of a slab.
#[repr(C, align(64))]
struct Head {
    needed: AtomicU32,
}

/// A slab, needed by nobody but the caller.
fn new_slab(needed: u32) -> NonNull<Head> {
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc(LAYOUT) };
    let Some(head) = NonNull::new(memory.cast::<Head>()) else { handle_alloc_error(LAYOUT) };
    // SAFETY: fresh memory, big enough and aligned.
    unsafe { head.write(Head { needed: AtomicU32::new(needed) }) };
    head
}

/// So many of those who needed the slab do not need it any more. Answers whether they were the last.
///
/// # Safety
/// They were counted, and none of them touches it again.
unsafe fn need_less(slab: NonNull<Head>, by: u32) -> bool {
    // SAFETY: the caller's are still counted.
    let needed = unsafe { &slab.as_ref().needed };
    // ORDERING: AcqRel, pairs with itself on other threads: whoever comes to zero frees the slab after all that the others
    // have done with it.
    let is_last = needed.fetch_sub(by, Ordering::AcqRel) == by;
    if is_last {
        cutter::keep_or_free(slab);
    }
    is_last
}

/// # Safety
/// Nobody needs the slab.
unsafe fn free_slab(slab: NonNull<Head>) {
    // SAFETY: nobody touches it again; in a model this ends the count.
    unsafe { slab.drop_in_place() };
    // SAFETY: it was allocated with this layout.
    unsafe { dealloc(slab.as_ptr().cast(), LAYOUT) };
}

/// Counts emptied nodes off their slabs, those in a row together. Dropping it counts off the last.
pub(super) struct Emptied {
    slab: *mut Head,
    row: u32,
    marker: PhantomData<*mut ()>,
}

impl Emptied {
    pub(super) const fn new() -> Self {
        Emptied { slab: ptr::null_mut(), row: 0, marker: PhantomData }
    }

    fn add(&mut self, node: *mut ()) {
        let slab = node.map_addr(|address| address & !(SLAB - 1)).cast::<Head>();
        if slab != self.slab {
            self.settle();
            self.slab = slab;
        }
        self.row += 1;
    }

    /// Counts off what has not been yet.
    pub(super) fn settle(&mut self) {
        if let Some(slab) = NonNull::new(std::mem::replace(&mut self.slab, ptr::null_mut())) {
            // SAFETY: so many nodes of this slab have been emptied.
            unsafe { need_less(slab, std::mem::take(&mut self.row)) };
        }
    }
}

impl Drop for Emptied {
    fn drop(&mut self) {
        self.settle();
    }
}

/// The slab that a thread cuts from, and one that it keeps for later.
#[cfg(not(any(loom, shuttle)))]
mod cutter {
    use std::alloc::Layout;
    use std::cell::Cell;
    use std::ptr::NonNull;

    use super::{CUTTER, FIRST, Head, SLAB, free_slab, need_less, new_slab};

    struct Cutter {
        slab: Cell<Option<NonNull<Head>>>,
        /// Where the next node is cut.
        at: Cell<usize>,
        /// How many have been cut.
        cut: Cell<u32>,
        kept: Cell<Option<NonNull<Head>>>,
    }

    crate::sync::thread_local! {
        static CUTTER_OF_THREAD: Cutter = const {
            Cutter { slab: Cell::new(None), at: Cell::new(SLAB), cut: Cell::new(0), kept: Cell::new(None) }
        };
    }

    impl Cutter {
        fn cut(&self, layout: Layout) -> NonNull<u8> {
            let at = self.at.get().next_multiple_of(layout.align());
            let (slab, at) = match self.slab.get() {
                Some(slab) if at + layout.size() <= SLAB => (slab, at),
                _ => (self.next_slab(), FIRST),
            };
            self.at.set(at + layout.size());
            self.cut.set(self.cut.get() + 1);
            // SAFETY: the piece lies within the slab.
            unsafe { slab.cast::<u8>().add(at) }
        }

        #[cold]
        fn next_slab(&self) -> NonNull<Head> {
            self.leave();
            let slab = self.kept.take().unwrap_or_else(|| new_slab(0));
            // SAFETY: nobody else knows of it.
            unsafe { slab.as_ref() }.needed.store(CUTTER, super::Ordering::Relaxed);
            self.slab.set(Some(slab));
            slab
        }

        /// Cuts no more from the slab.
        fn leave(&self) {
            let cut = self.cut.take();
            if let Some(slab) = self.slab.take() {
                // SAFETY: of the thread's share this is all that was not cut.
                unsafe { need_less(slab, CUTTER - cut) };
            }
        }
    }

    impl Drop for Cutter {
        fn drop(&mut self) {
            self.leave();
            if let Some(kept) = self.kept.take() {
                // SAFETY: nobody needs it; it was kept instead of being freed.
                unsafe { free_slab(kept) };
            }
        }
    }

    /// A piece of memory of this layout, as part of a slab that counts it.
    pub(super) fn cut(layout: Layout) -> NonNull<u8> {
        CUTTER_OF_THREAD.try_with(|cutter| cutter.cut(layout)).unwrap_or_else(|_| alone())
    }

    /// A thread that is going away has no slab any more: one for this piece alone.
    fn alone() -> NonNull<u8> {
        // SAFETY: the piece lies within the slab.
        unsafe { new_slab(1).cast::<u8>().add(FIRST) }
    }

    /// Nobody needs the slab any more.
    pub(super) fn keep_or_free(slab: NonNull<Head>) {
        let keep = |cutter: &Cutter| cutter.kept.replace(Some(slab));
        let unwanted = CUTTER_OF_THREAD.try_with(keep).unwrap_or(Some(slab));
        if let Some(unwanted) = unwanted {
            // SAFETY: nobody needs this one, whether it came just now or was kept before.
            unsafe { free_slab(unwanted) };
        }
    }
}

/// In a model each node has a slab for itself: what is modelled is who frees it.
#[cfg(any(loom, shuttle))]
mod cutter {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    use super::{CUTTER, FIRST, Head, free_slab, need_less, new_slab};

    pub(super) fn cut(_layout: Layout) -> NonNull<u8> {
        let slab = new_slab(CUTTER);
        // SAFETY: one node is cut, which is still counted; the rest of the share is given back.
        unsafe { need_less(slab, CUTTER - 1) };
        // SAFETY: the piece lies within the slab.
        unsafe { slab.cast::<u8>().add(FIRST) }
    }

    pub(super) fn keep_or_free(slab: NonNull<Head>) {
        // SAFETY: the caller says that nobody needs it.
        unsafe { free_slab(slab) }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn slab_of<T>(node: *mut Node<T>) -> usize {
        node.addr() / SLAB
    }

    /// How many still need the slab of this node.
    fn needed<T>(node: *mut Node<T>) -> u32 {
        let head = node.map_addr(|address| address & !(SLAB - 1)).cast::<Head>();
        // SAFETY: the node is in use, hence its slab.
        unsafe { &*head }.needed.load(Ordering::Relaxed)
    }

    /// On a thread of its own, whose slab nobody has cut from.
    fn on_new_thread(body: impl FnOnce() + Send + 'static) {
        crate::sync::thread::spawn("cutter", body).unwrap().join().unwrap();
    }

    #[test]
    fn nodes_of_any_type_are_cut_one_behind_the_other_and_counted_off_together() {
        on_new_thread(|| {
            let small: Vec<_> = (0..3u8).map(|n| Node::filled(n, ptr::null_mut())).collect();
            let big = Node::filled([7u64; 9], ptr::null_mut());
            assert!(small.iter().all(|node| slab_of(*node) == slab_of(big)) && small.is_sorted());
            let mut emptied = Emptied::new();
            for (n, node) in small.iter().enumerate() {
                // SAFETY: the node is ours, and filled.
                assert_eq!(usize::from(unsafe { Node::empty(*node, &mut emptied) }.0), n);
            }
            assert_eq!(needed(big), CUTTER, "nothing is counted while a row lasts");
            emptied.settle();
            assert_eq!(needed(big), CUTTER - 3);
            // SAFETY: the node is ours, and filled.
            assert_eq!(unsafe { Node::empty(big, &mut emptied) }.0, [7; 9]);
        });
    }

    #[test]
    fn a_slab_that_was_left_is_kept_for_the_next_by_whoever_empties_its_last_node() {
        on_new_thread(|| {
            let mut nodes = vec![Node::filled(0u64, ptr::null_mut())];
            while slab_of(nodes[0]) == slab_of(nodes[nodes.len() - 1]) {
                nodes.push(Node::filled(0u64, ptr::null_mut()));
            }
            let next = nodes.pop().unwrap();
            let first = slab_of(nodes[0]);
            assert_eq!(needed(nodes[0]) as usize, nodes.len(), "the thread has taken its share back");
            let mut emptied = Emptied::new();
            for node in nodes {
                // SAFETY: the node is ours, and filled.
                unsafe { Node::empty(node, &mut emptied) };
            }
            emptied.settle();
            let mut second = vec![next];
            while slab_of(second[second.len() - 1]) == slab_of(next) {
                second.push(Node::filled(0u64, ptr::null_mut()));
            }
            assert_eq!(slab_of(second[second.len() - 1]), first, "the memory is used again");
            for node in second {
                // SAFETY: the node is ours, and filled.
                unsafe { Node::empty(node, &mut emptied) };
            }
        });
    }

    #[test]
    fn a_node_outlives_the_thread_that_has_filled_it() {
        let (sender, receiver) = std::sync::mpsc::channel();
        on_new_thread(move || {
            let node = Node::filled(String::from("still here"), ptr::null_mut());
            sender.send(node.expose_provenance()).unwrap();
        });
        let node: *mut Node<String> = ptr::with_exposed_provenance_mut(receiver.recv().unwrap());
        assert_eq!(needed(node), 1);
        // SAFETY: the thread has left it to us, filled.
        assert_eq!(unsafe { Node::empty(node, &mut Emptied::new()) }.0, "still here");
    }
}

#[cfg(all(test, loom))]
mod loom_slab {
    use super::*;
    use crate::sync::thread;

    struct Shared(NonNull<Head>);

    // SAFETY: a slab is reached by everybody who is counted.
    unsafe impl Send for Shared {}

    /// The thread that cut three nodes leaves the slab while two others empty them: exactly one of the three is the last.
    /// Explored with a preemption bound of 3: 60 schedules.
    #[test]
    fn loom_a_slab_has_exactly_one_last_user() {
        loom::model(|| {
            let slab = new_slab(CUTTER);
            let others: Vec<_> = [1, 2]
                .into_iter()
                .map(|nodes| {
                    let shared = Shared(slab);
                    thread::spawn("receiver", move || {
                        let shared = shared;
                        // SAFETY: so many nodes have been cut, and are emptied here.
                        unsafe { need_less(shared.0, nodes) }
                    })
                    .unwrap()
                })
                .collect();
            // SAFETY: of the thread's share this is all that was not cut.
            let mut last = u32::from(unsafe { need_less(slab, CUTTER - 3) });
            last += others.into_iter().map(|other| u32::from(other.join().unwrap())).sum::<u32>();
            assert_eq!(last, 1);
        });
    }
}
