//! Models of the closable inbox.
//!
//! Run with `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test --release -p fuchsine-dispatcher --lib loom_`.
//! Explored with that bound: 46 schedules (two senders against a receiver), 404 (two senders against the close) and 6934
//! (memory that goes round).
//!
//! Not covered: more than two senders, and the allocator.

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

/// Memory goes round: what one thread has emptied, another fills again. Loom sees every access to a link and to a value,
/// so a node in two hands at a time would be reported.
#[test]
fn loom_memory_that_goes_round_is_in_one_hand_at_a_time() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::new());
        assert!(inbox.push(Box::new(0)).is_ok());
        let senders: Vec<_> = (1..3)
            .map(|n| {
                let inbox = inbox.clone();
                thread::spawn("sender", move || assert!(inbox.push(Box::new(n)).is_ok())).unwrap()
            })
            .collect();
        let mut got = Vec::new();
        for _ in 0..2 {
            let mut chain = inbox.take_all();
            got.extend(chain.by_ref().map(|value| *value));
            inbox.reuse(&mut chain);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        got.extend(inbox.take_all().map(|value| *value));
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
    });
}
