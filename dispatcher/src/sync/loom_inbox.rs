//! Models of the closable inbox.
//!
//! Run with `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test --release -p fuchsine-dispatcher --lib loom_`.
//! Explored with that bound: 46 schedules (two senders against a receiver), 404 (two senders against the close), and 62
//! (values that own memory). `node.rs` has a model of its own for the memory of nodes.
//!
//! Not covered: more than two senders, and the allocator. In a model each node has a slab for itself.

use crate::sync::{Arc, Inbox, Pushed, thread};

/// Shows A5, A7, A8, E28.
#[test]
fn loom_all_accepted_values_arrive_and_one_sender_per_burst_wakes() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        let other = inbox.clone();
        let sender = thread::spawn("sender", move || {
            [other.push(1).unwrap(), other.push(2).unwrap()].iter().filter(|p| **p == Pushed::ToEmpty).count()
        })
        .unwrap();
        let mut wakes = usize::from(inbox.push(10).unwrap() == Pushed::ToEmpty);
        let mut got: Vec<_> = inbox.take_all().collect();
        let takes = usize::from(!got.is_empty());
        wakes += sender.join().unwrap();
        let rest: Vec<_> = inbox.take_all().collect();
        let takes = takes + usize::from(!rest.is_empty());
        got.extend(rest);
        assert_eq!(wakes, takes, "each burst that was taken had exactly one sender that must wake the receiver");
        assert_eq!(got.iter().filter(|v| **v < 10).copied().collect::<Vec<_>>(), [1, 2], "in its sender's order");
        assert_eq!(got.len(), 3);
    });
}

/// Shows A9, E5.
#[test]
fn loom_a_push_against_close_is_either_returned_or_refused_never_lost() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        let senders: Vec<_> = (0..2)
            .map(|n| {
                let inbox = inbox.clone();
                thread::spawn("sender", move || inbox.push(Box::new(n)).is_ok()).unwrap()
            })
            .collect();
        let left = inbox.close().count();
        let accepted = senders.into_iter().map(|s| usize::from(s.join().unwrap())).sum::<usize>();
        assert_eq!(left, accepted);
        assert!(inbox.push(Box::new(3)).is_err());
    });
}

/// What one thread has filled another empties, and the last of those who needed the memory frees it: the sender, which
/// gives back its share of it, or the receiver, which was faster.
#[test]
fn loom_memory_is_freed_once_by_whoever_needs_it_last() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        let senders: Vec<_> = (1..3)
            .map(|n| {
                let inbox = inbox.clone();
                thread::spawn("sender", move || assert!(inbox.push(Box::new(n)).is_ok())).unwrap()
            })
            .collect();
        let mut got: Vec<_> = inbox.take_all().map(|value| *value).collect();
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        got.extend(inbox.take_all().map(|value| *value));
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}
