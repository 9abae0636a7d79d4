//! Models of reads that stand, and of those that take the message by which they begin: write against write, cancel and close.
//!
//! Each is explored in four ways: with handlers that begin under the lock of the pair and ones that begin by a lock of their
//! own, and with ones that read and ones that are handed what they read. The stand-in of the dispatcher and what is not covered
//! are those of `loom_pair`.

use super::ends::Wanted;
use super::loom_pair::{Fate, Model, Op, READER, Seen, WRITER, close, end, pair, write};
use super::slot::Term;
use super::wait_op::Completion;
use crate::sync::{Arc, Mutex, thread};

/// One way to explore a model.
#[derive(Clone, Copy)]
struct Way {
    inline: bool,
    takes: bool,
}

fn explore(model: fn(Way)) {
    for (inline, takes) in [(true, false), (false, false), (true, true), (false, true)] {
        loom::model(move || model(Way { inline, takes }));
    }
}

/// Registers a read that stays.
fn stand(pair: &Model, Way { inline, takes }: Way) -> Arc<Mutex<Seen>> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let term = if takes { Term::StaysAndTakes } else { Term::Stays };
    let mut ready = None;
    let registered = pair.register_as(READER, term, |is_ready, generation| {
        let fate = if is_ready { Fate::Ready(Completion::Ready) } else { Fate::Armed };
        let fate = Arc::new(Mutex::new(fate));
        let op = Op { fate, pair: pair.clone(), generation, inline, takes, stands: Some(seen.clone()) };
        ready = is_ready.then(|| op.clone());
        Some(op)
    });
    registered.expect("no other read is registered");
    if let Some(op) = ready {
        op.run_later();
    }
    seen
}

#[test]
fn loom_a_standing_read_is_told_of_each_message_and_at_last_of_the_close() {
    explore(|way| {
        let pair = pair();
        let seen = stand(&pair, way);
        let writers: Vec<_> = (0..2)
            .map(|message| {
                let pair = pair.clone();
                thread::spawn("writer", move || write(&pair, message).expect("the reader is open")).unwrap()
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert!(close(&pair, WRITER).is_empty());
        let mut seen = std::mem::take(&mut *seen.lock());
        seen.read.sort_unstable();
        assert_eq!(seen.read, [0, 1]);
        assert_eq!(seen.told, [Completion::Ready, Completion::Ready, Completion::PeerClosed]);
        end(pair);
    });
}

#[test]
fn loom_a_cancel_ends_a_standing_read_and_leaves_what_it_has_not_read() {
    explore(|way| {
        let pair = pair();
        let seen = stand(&pair, way);
        let other = pair.clone();
        let writer = thread::spawn("writer", move || {
            write(&other, 7).expect("the reader is open");
            write(&other, 8).expect("the reader is open");
        })
        .unwrap();
        let canceled = pair.cancel(READER, Wanted::Message).is_some();
        writer.join().unwrap();
        let Seen { told, mut read } = std::mem::take(&mut *seen.lock());
        assert_eq!(told.len(), read.len(), "it was told of messages alone");
        assert!(canceled || !read.is_empty(), "a cancel fails only while the handler runs, or after it");
        read.extend(std::iter::from_fn(|| super::loom_pair::read(&pair).ok()));
        assert_eq!(read, [7, 8]);
        assert!(pair.is_idle(READER), "its place is free");
        end(pair);
    });
}

#[test]
fn loom_a_standing_read_whose_end_closes_is_told_so_once() {
    explore(|way| {
        let pair = pair();
        let seen = stand(&pair, way);
        let other = pair.clone();
        let writer = thread::spawn("writer", move || write(&other, 7).is_ok()).unwrap();
        let unread = close(&pair, READER);
        let written = writer.join().unwrap();
        let Seen { told, read } = std::mem::take(&mut *seen.lock());
        assert_eq!(told.iter().filter(|&&how| how == Completion::Canceled).count(), 1, "{told:?}");
        assert_eq!(told.last(), Some(&Completion::Canceled));
        assert_eq!(read.len() + unread.len(), usize::from(written));
        end(pair);
    });
}
