//! Model of the tray: an owner that works and puts more on, beside somebody who looks and asks, with one lock for the view.
//!
//! Run as the models of the inbox.
//!
//! Not covered: more than one who asks; they take turns by the lock.

use super::tray::Tray;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, thread};

const CLOSED: u32 = 1;

/// Somebody closes while the owner works, and tells so by another way. What the owner puts on the tray after it has heard
/// of that is refused; what it has put there before is seen by who looks, and ends once.
#[test]
fn loom_what_is_asked_is_seen_by_whoever_heard_of_it() {
    loom::model(|| {
        let view = Arc::new(Mutex::new(None));
        let told = Arc::new(AtomicBool::new(false));
        let (lent, heard) = (Arc::clone(&view), Arc::clone(&told));
        let owner = thread::spawn("owner", move || {
            let tray = Tray::new();
            tray.put(0, || Box::new(0));
            *lent.lock() = Some(tray.lend());
            let mut worked = Vec::new();
            while tray.asked() & CLOSED == 0
                && let Some(piece) = tray.begin(0)
            {
                piece.work(|body| {
                    let knows = heard.load(Ordering::Acquire);
                    if tray.asked() & CLOSED == 0 && tray.has_room() {
                        assert!(!knows, "accepted after the close");
                        let next = **body + 1;
                        tray.put(next, || Box::new(next));
                    }
                    worked.push(**body);
                });
            }
            let mut lent = lent.lock();
            let put = tray.count().put();
            let taken = lent.take().expect("nobody keeps it");
            tray.take_back(taken, |_, label, body| {
                assert_eq!(label, *body);
                worked.push(*body);
            });
            worked.sort_unstable();
            assert_eq!(worked, (0..put).collect::<Vec<_>>(), "each ends once");
        })
        .expect("a thread");
        if let Some(view) = &*view.lock() {
            let before = view.count();
            assert!(before.begun() <= before.put() && before.put() > 0);
            assert!((0..before.put()).all(|at| view.label(at) == at));
            assert!(view.ask(CLOSED));
            told.store(true, Ordering::Release);
        }
        owner.join().expect("it ends");
    });
}
