//! Model of the one-shot completion.
//!
//! Run as the models of the inbox. Explored with a preemption bound of 3: 474 schedules.
//!
//! Not covered: deadlines, which never pass in a model.

use crate::sync::{Arc, Completion, thread};

#[test]
fn loom_the_value_reaches_the_waiter_and_the_second_giver_gets_its_own_back() {
    loom::model(|| {
        let completion = Arc::new(Completion::new());
        let givers: Vec<_> = (0..2)
            .map(|n| {
                let completion = completion.clone();
                thread::spawn("giver", move || completion.complete(n).is_ok()).unwrap()
            })
            .collect();
        let value = completion.wait();
        let won: Vec<_> = givers.into_iter().map(|giver| giver.join().unwrap()).collect();
        assert_eq!(won.iter().filter(|w| **w).count(), 1);
        assert!(won[value]);
    });
}
