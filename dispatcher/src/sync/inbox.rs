//! `Inbox<T>`: a queue with many senders and one receiver, that can be closed exactly.
//!
//! The whole queue is one word: the newest node, or nothing, or the mark *closed*.
//!
//! 1. To push, a sender writes the current head into its node and swings the head to it by compare-exchange. If the
//!    head is the closed mark, the value goes back to the caller: no sender is ever told "accepted" after the close.
//! 2. The receiver exchanges the head for nothing and turns the chain around: first in, first out, and all that it took
//!    is its own from then on. There is no moment at which the chain is broken, so a sender that is suspended
//!    half-way delays nobody.
//! 3. Closing exchanges the head for the mark and returns what was there.
//!
//! The sender that finds the queue empty is told so: it is the one that has to wake the receiver.
//!
//! The memory of nodes is cut from slabs of their senders: see `node.rs`.
//!
//! Invariant kept by the unsafe code here: a node belongs to its sender until the compare-exchange that publishes it,
//! then to the queue, then to whoever exchanged the head. Its link is written only by its owner.
#![expect(unsafe_code, reason = "nodes pass from thread to thread as raw pointers")]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::sync::SmallFn;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::node::{Emptied, Node};

/// A closable queue: many senders, one receiver, first in first out for each sender.
pub(crate) struct Inbox<T> {
    /// The newest node, null when empty, [`closed`] once closed. Senders push, the receiver takes all.
    head: AtomicPtr<Node<T>>,
    owns: PhantomData<Box<Node<T>>>,
}

// SAFETY: values move through the queue from one thread to another, and never are referenced by two at once.
unsafe impl<T: Send> Send for Inbox<T> {}
// SAFETY: as above; all shared access goes through `head`.
unsafe impl<T: Send> Sync for Inbox<T> {}

/// What a push met.
#[must_use = "the sender that finds the queue empty has to wake the receiver"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The queue was empty: the receiver may be asleep, and nobody else will wake it.
    ToEmpty,
    /// Something was there already, whose sender does the waking.
    BehindOthers,
}

/// The mark of a closed queue: an address that no node has.
fn closed<T>() -> *mut Node<T> {
    ptr::without_provenance_mut(1)
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Inbox { head: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// Puts `value` at the end.
    ///
    /// # Errors
    /// The value itself, once the queue is closed.
    pub(crate) fn push(&self, value: T) -> Result<Pushed, T> {
        let mut head = self.head.load(Ordering::Relaxed);
        if head == closed() {
            return Err(value);
        }
        let node = Node::filled(value, head);
        loop {
            // ORDERING: Release, pairs with the Acquire in `take_all` and `close`; publishes the node. What earlier
            // senders published stays published: each exchange continues the release sequence of the one before.
            match self.head.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) if head.is_null() => return Ok(Pushed::ToEmpty),
                Ok(_) => return Ok(Pushed::BehindOthers),
                Err(now) if now == closed() => {
                    // SAFETY: the node was never published, so it is still ours alone; it was filled above.
                    return Err(unsafe { Node::empty(node, &mut Emptied::new()) }.0);
                }
                Err(now) => {
                    head = now;
                    // SAFETY: the node is not published yet; nobody else can see its link.
                    unsafe { (*node).next.with_mut(|next| *next = now) };
                }
            }
        }
    }

    /// Takes everything that is there, oldest first. Nothing when empty or closed.
    pub(crate) fn take_all(&self) -> Chain<T> {
        let mut head = self.head.load(Ordering::Relaxed);
        while !head.is_null() && head != closed() {
            // ORDERING: Acquire, pairs with the Release in `push`; makes the nodes readable.
            match self.head.compare_exchange_weak(head, ptr::null_mut(), Ordering::Acquire, Ordering::Relaxed) {
                // SAFETY: the exchange made the chain ours.
                Ok(taken) => return unsafe { Chain::turned_around(taken) },
                Err(now) => head = now,
            }
        }
        Chain::empty()
    }

    /// Closes the queue and returns what was in it: every push that was accepted is there (or was taken before), every
    /// push from now on is refused. Closing again returns nothing.
    pub(crate) fn close(&self) -> Chain<T> {
        // ORDERING: Acquire, pairs with the Release in `push`; makes the nodes readable. Release, pairs with whoever
        // learns from `is_closed` that the receiver has gone.
        let head = self.head.swap(closed(), Ordering::AcqRel);
        if head == closed() {
            return Chain::empty();
        }
        // SAFETY: the exchange made the chain ours.
        unsafe { Chain::turned_around(head) }
    }

    /// Whether there was nothing to take at this moment (also when closed). A hint to everybody but the receiver.
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        head.is_null() || head == closed()
    }

    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `close`.
        self.head.load(Ordering::Acquire) == closed()
    }
}

impl<A: ?Sized + 'static> Inbox<SmallFn<A>> {
    /// Like [`Inbox::push`] for a closure, which comes back as what it was when the queue is closed.
    ///
    /// # Errors
    /// The closure, once the queue is closed.
    pub(crate) fn push_fn<F: FnOnce(&A) + Send + 'static>(&self, closure: F) -> Result<Pushed, F> {
        self.push(SmallFn::new(closure)).map_err(|refused| {
            // SAFETY: this is the value that was made from an `F` one line above.
            unsafe { refused.into_closure() }
        })
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.is_closed(), self.is_empty()) {
            (true, _) => "closed",
            (_, true) => "empty",
            _ => "filled",
        };
        write!(f, "Inbox({state})")
    }
}

/// What was taken out of an [`Inbox`]: an iterator, oldest first. Dropping it drops the rest.
pub(crate) struct Chain<T> {
    /// The oldest node, each linked to the next newer one; all are owned by this chain.
    first: *mut Node<T>,
    /// Those that have been emptied, and are not counted off yet.
    emptied: Emptied,
    owns: PhantomData<Box<Node<T>>>,
}

// SAFETY: a chain owns its nodes; nobody else has a pointer to them.
unsafe impl<T: Send> Send for Chain<T> {}

impl<T> Chain<T> {
    pub(crate) const fn empty() -> Self {
        Chain { first: ptr::null_mut(), emptied: Emptied::new(), owns: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Turns a newest-first chain into an oldest-first one.
    ///
    /// # Safety
    /// `newest` and all that hangs on it must be owned by the caller and published to it.
    unsafe fn turned_around(newest: *mut Node<T>) -> Self {
        let (mut current, mut first) = (newest, ptr::null_mut());
        while let Some(node) = NonNull::new(current) {
            // SAFETY: the node is ours (see above); the reference ends with this statement.
            current = unsafe { node.as_ref() }.next.with_mut(|next| {
                // SAFETY: nobody else reaches the link of a node that is ours.
                unsafe { ptr::replace(next, first) }
            });
            first = node.as_ptr();
        }
        Chain { first, emptied: Emptied::new(), owns: PhantomData }
    }
}

impl<T> Iterator for Chain<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let node = NonNull::new(self.first)?.as_ptr();
        // SAFETY: the chain owns its nodes, all of which are filled, and this one is unlinked here.
        let (value, next) = unsafe { Node::empty(node, &mut self.emptied) };
        self.first = next;
        if next.is_null() {
            self.emptied.settle();
        }
        Some(value)
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl<T> fmt::Debug for Chain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Chain(empty)" } else { "Chain(filled)" })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{Arc, thread};

    #[test]
    fn one_sender_keeps_its_order_and_only_the_first_push_meets_an_empty_queue() {
        let inbox = Inbox::new();
        assert_eq!(inbox.push(1), Ok(Pushed::ToEmpty));
        assert_eq!(inbox.push(2), Ok(Pushed::BehindOthers));
        assert_eq!(inbox.take_all().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(inbox.push(3), Ok(Pushed::ToEmpty));
    }

    #[test]
    fn a_closed_queue_gives_the_value_back_and_close_returns_the_rest() {
        let inbox = Inbox::new();
        let _ = inbox.push("early");
        assert_eq!(inbox.close().collect::<Vec<_>>(), ["early"]);
        assert_eq!(inbox.push("late"), Err("late"));
        assert!(inbox.is_closed() && inbox.close().is_empty() && inbox.take_all().is_empty());
    }

    #[test]
    fn a_refused_closure_comes_back_callable() {
        let inbox = Inbox::<SmallFn<str>>::new();
        drop(inbox.close());
        let captured = String::from("captured");
        let Err(closure) = inbox.push_fn(move |given: &str| assert_eq!((given, &*captured), ("given", "captured")))
        else {
            panic!("a closed queue accepted a closure");
        };
        closure("given");
    }

    #[test]
    fn what_is_never_taken_is_dropped_with_the_queue() {
        let value = Arc::new(());
        let inbox = Inbox::new();
        let _ = inbox.push(value.clone());
        let _ = inbox.push(value.clone());
        let mut chain = inbox.take_all();
        drop(chain.next());
        let _ = inbox.push(value.clone());
        drop((chain, inbox));
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn values_of_many_senders_all_arrive_each_in_its_senders_order() {
        const EACH: usize = 10_000;
        let inbox = Arc::new(Inbox::new());
        let senders: Vec<_> = (0..3)
            .map(|sender| {
                let inbox = inbox.clone();
                let send = move |n| assert!(inbox.push((sender, n)).is_ok());
                thread::spawn("sender", move || (0..EACH).for_each(send)).unwrap()
            })
            .collect();
        let mut seen = [0; 3];
        while seen.iter().sum::<usize>() < 3 * EACH {
            for (sender, n) in inbox.take_all() {
                assert_eq!(n, std::mem::replace(&mut seen[sender], n + 1));
            }
            thread::yield_now();
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }
}
