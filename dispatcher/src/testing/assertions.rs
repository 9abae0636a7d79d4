//! Assertions about what a [`Recording`](super::Recording) has of callbacks.

use super::recording::{Ending, RecordedCallback};

/// Asserts that each of these callbacks was canceled: called with `Canceled`, or dropped if it is a future.
///
/// # Panics
/// When one ran, was taken back or is pending, which the message names; and when there is no callback at all.
///
/// # Examples
/// See [`Recording`](super::Recording).
#[track_caller]
pub fn assert_canceled(callbacks: &[RecordedCallback]) {
    assert_some(callbacks);
    let other = callbacks.iter().find(|callback| callback.ending != Ending::Canceled);
    if let Some(other) = other {
        let how = match other.ending {
            Ending::Ran => "ran",
            Ending::TakenBack => "was taken back",
            Ending::Pending | Ending::Canceled => "is pending",
        };
        panic!("{other} was not canceled: it {how}");
    }
}

/// Asserts that no two of these callbacks ran at the same time on two threads. A call inside of another one, on its thread,
/// is no such case.
///
/// # Panics
/// When two overlap, with their names; and when there is no callback at all.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::DispatcherBuilder;
/// use fuchsine_dispatcher::testing::{Recording, assert_never_parallel, explore};
///
/// explore(20, |runtime| {
///     let recording = Recording::of(runtime);
///     let driver = runtime.new_driver("printer");
///     let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("spool")).expect("it runs");
///     for _ in 0..3 {
///         dispatcher.post_task(|_| ()).expect("it runs");
///     }
///     runtime.run_until_idle();
///     assert_never_parallel(&recording.callbacks_of("spool"));
/// });
/// ```
#[track_caller]
pub fn assert_never_parallel(callbacks: &[RecordedCallback]) {
    assert_some(callbacks);
    let mut ran: Vec<_> = callbacks.iter().filter_map(|callback| Some((callback.ran?, callback))).collect();
    ran.sort_by_key(|((begun, ..), _)| *begun);
    for (nth, ((_, ended, thread), one)) in ran.iter().enumerate() {
        let until = ended.unwrap_or(u64::MAX);
        let beside = ran[nth + 1..].iter().take_while(|((begun, ..), _)| *begun < until);
        if let Some((_, other)) = beside.into_iter().find(|((_, _, other), _)| other != thread) {
            panic!("{other} began while {one} ran");
        }
    }
}

/// Asserts that these callbacks began in the order in which they were accepted. Those that never began do not count.
///
/// # Panics
/// When one overtook another, with their names; and when there is no callback at all.
///
/// # Examples
/// See [`Recording`](super::Recording).
#[track_caller]
pub fn assert_fifo(callbacks: &[RecordedCallback]) {
    assert_some(callbacks);
    let ran: Vec<_> = callbacks.iter().filter_map(|callback| Some((callback.ran?.0, callback))).collect();
    let overtaken = ran.iter().zip(ran.iter().skip(1)).find(|((first, _), (then, _))| first > then);
    if let Some(((_, first), (_, then))) = overtaken {
        panic!("{then} began before {first}, which was accepted first");
    }
}

#[track_caller]
fn assert_some(callbacks: &[RecordedCallback]) {
    assert!(!callbacks.is_empty(), "no callback was recorded, so nothing is shown");
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::time::Duration;

    use super::*;
    use crate::runtime::{DispatcherBuilder, Kind};
    use crate::testing::{Explorer, ForegroundRuntime, Recording};

    fn message_of(assertion: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let payload = catch_unwind(assertion).expect_err("the assertion fails");
        crate::sync::message_of(payload)
    }

    #[test]
    fn an_assertion_that_fails_names_the_callbacks() {
        let runtime = ForegroundRuntime::new();
        let recording = Recording::of(&runtime);
        let driver = runtime.new_driver("lamp");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("switch")).expect("it runs");
        let _later = dispatcher.post_after(Duration::from_secs(1), |_| ()).expect("it runs");
        dispatcher.post_task(|_| ()).expect("it runs");
        runtime.advance(Duration::from_secs(1));

        let all = recording.callbacks_of("switch");
        assert_fifo(&recording.callbacks_of_kind("switch", Kind::Task));
        let text = message_of(|| assert_fifo(&all));
        assert!(
            text.starts_with("task of ") && text.contains("on lamp/switch began before delayed task of "),
            "{text}"
        );
        let text = message_of(|| assert_canceled(&all));
        assert!(text.ends_with("on lamp/switch was not canceled: it ran"), "{text}");
        assert!(message_of(|| assert_canceled(&[])).contains("nothing is shown"));

        dispatcher.spawn(std::future::pending::<()>()).map(drop).expect("it runs");
        dispatcher.post_task(|_| ()).expect("it is canceled");
        let taken_back = dispatcher.post_cancelable(|_| ()).expect("it runs").cancel();
        assert!(taken_back.is_ok());
        runtime.shutdown_driver(&driver);
        let late = &recording.callbacks_of("switch")[2..];
        assert_canceled(&late[..2]);
        assert_eq!(late[2].ending, Ending::TakenBack);
    }

    #[test]
    fn callbacks_that_run_side_by_side_are_noticed_in_some_schedule() {
        let found = Explorer::new().try_explore(|runtime| {
            let recording = Recording::of(runtime);
            let driver = runtime.new_driver("lamp");
            let builder = DispatcherBuilder::new().name("switch").unsynchronized();
            let dispatcher = driver.new_dispatcher(builder).expect("it runs");
            for _ in 0..2 {
                let again = dispatcher.handle();
                dispatcher.post_task(move |_| drop(again.post_task(|_| ()))).expect("it runs");
            }
            runtime.run_until_idle();
            assert_never_parallel(&recording.callbacks_of("switch"));
        });
        let failure = found.expect_err("some schedule overlaps them");
        assert!(failure.message.contains(" began while "), "{failure}");
    }
}
