//! Spawned futures: polled on their dispatcher, woken from anywhere, dropped exactly once.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::{Grenade, Journal, Noted};
use crate::abi::fake::FakeHost;
use crate::{JoinError, Status, current, sleep, spawn};

#[test]
fn a_spawned_future_gives_its_output_to_whoever_awaits_it() {
    let host = FakeHost::new();
    let output = host.block_on(async {
        let task = spawn(async {
            sleep(Duration::from_secs(1)).await?;
            Ok::<_, Status>(current().expect("current").name())
        });
        task.expect("it runs").await
    });
    assert_eq!(output, Ok(Ok(String::from("block_on"))));
}

#[test]
fn a_dropped_join_handle_lets_the_future_go_on() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let noted = journal.clone();
    drop(host.dispatcher("d").spawn(async move { noted.note("done") }).expect("it runs"));
    host.run();
    assert_eq!(journal.take(), ["done"]);
}

#[test]
fn a_waker_may_outlive_its_future_and_be_woken_from_another_thread() {
    let host = FakeHost::new();
    let left: Arc<Mutex<Option<Waker>>> = Arc::default();
    let (leaves, journal) = (Arc::clone(&left), Journal::default());
    let noted = journal.clone();
    let dispatcher = host.dispatcher("d");
    let task = dispatcher.spawn(poll_fn(move |cx| {
        noted.note("polled");
        let before = leaves.lock().expect("no panic").replace(cx.waker().clone());
        match before {
            None => Poll::Pending,
            Some(waker) => {
                assert!(waker.will_wake(cx.waker()), "the same task has the same waker");
                Poll::Ready(())
            }
        }
    }));
    let task = task.expect("it runs");
    host.run();
    assert_eq!(journal.take(), ["polled"]);
    let waker = left.lock().expect("no panic").clone().expect("it was left");
    let woken = waker.clone();
    std::thread::spawn(move || woken.wake()).join().expect("no panic");
    host.run();
    assert_eq!(journal.take(), ["polled"]);
    assert!(task.is_finished());
    waker.wake_by_ref();
    drop((task, dispatcher));
    host.run();
    waker.wake();
    assert_eq!(journal.take(), [""; 0], "a future that is complete is not polled again");
}

#[test]
fn cancel_drops_the_future_and_the_join_handle_says_so() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let held = Noted(journal.clone(), "future");
    let task = dispatcher
        .spawn(async move {
            let _held = held;
            pending::<()>().await;
        })
        .expect("it runs");
    host.run();
    task.cancel();
    host.run();
    assert_eq!(journal.take(), ["future dropped"]);
    let error = host.block_on(task).expect_err("canceled");
    assert!(error.is_canceled() && !error.is_panic());
    assert_eq!((error.status(), error.to_string().as_str()), (Status::Canceled, "the task was canceled"));
}

#[test]
fn the_shutdown_drops_futures_on_their_dispatcher_and_awaiting_tasks_learn_it() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    struct Where(Journal);
    impl Drop for Where {
        fn drop(&mut self) {
            self.0.note(format!("dropped on {}", current().expect("a dispatcher is current").name()));
        }
    }
    let held = Where(journal.clone());
    let task = dispatcher
        .spawn(async move {
            let _held = held;
            pending::<()>().await;
        })
        .expect("it runs");
    let (noted, other) = (journal.clone(), host.dispatcher("other"));
    other
        .spawn(async move { noted.note(format!("{:?}", task.await.map_err(|error| error.status()))) })
        .expect("it runs");
    host.run();
    dispatcher.shutdown();
    host.run();
    assert_eq!(journal.take(), ["dropped on d", "Err(Canceled)"]);
    let refused = dispatcher.spawn(async { 5 }).expect_err("shut down");
    assert_eq!(refused.status(), Status::BadState);
    assert_eq!(host.block_on(refused.into_inner()), 5, "the future comes back whole");
}

#[test]
fn a_panic_in_a_future_is_told_to_the_host_and_to_whoever_awaits_it() {
    let host = FakeHost::new();
    let dispatcher = host.dispatcher("d");
    let journal = Journal::default();
    let held = Noted(journal.clone(), "future");
    let task = dispatcher
        .spawn(async move {
            let _held = held;
            sleep(Duration::ZERO).await.expect("it fires");
            panic!("in the future");
        })
        .expect("it runs");
    host.run();
    assert_eq!(host.panics(), ["in the future"]);
    assert_eq!(journal.take(), ["future dropped"]);
    let error: JoinError = host.block_on(task).expect_err("panicked");
    assert_eq!(error.panic_message(), Some("in the future"));
    assert_eq!(
        (error.status(), error.to_string()),
        (Status::Internal, String::from("the task panicked: in the future"))
    );
}

#[test]
fn a_future_whose_drop_panics_still_ends_and_is_told() {
    let host = FakeHost::new();
    let dispatcher = host.dispatcher("d");
    let grenade = Grenade;
    let task = dispatcher
        .spawn(async move {
            let _grenade = grenade;
            pending::<()>().await;
        })
        .expect("it runs");
    host.run();
    dispatcher.shutdown();
    host.run();
    assert_eq!(host.panics(), ["the destructor panicked"]);
    assert!(host.block_on(task).expect_err("dropped").is_canceled());
}

#[test]
fn a_dropped_sleep_takes_its_timer_back() {
    let host = FakeHost::new();
    let dispatcher = host.dispatcher("d");
    let task = dispatcher.spawn(async { sleep(Duration::from_secs(50)).await }).expect("it runs");
    host.run();
    assert_eq!(host.timers_left(), 1);
    task.cancel();
    host.run();
    assert_eq!(host.timers_left(), 0);
    dispatcher.shutdown();
    host.run();
}

#[test]
fn armed_futures_and_handles_can_be_dropped_on_any_thread() {
    // Method: arm each kind on a dispatcher, move it to another thread, drop it there; nothing is left registered.
    let host = FakeHost::new();
    let journal = Journal::default();
    let (near, far) = crate::Channel::pair().expect("attached");
    let dispatcher = host.dispatcher("d");
    static FAR: std::sync::OnceLock<crate::Channel> = std::sync::OnceLock::new();
    let far = FAR.get_or_init(|| far);
    let armed = host.block_on(async move {
        let (mut nap, mut read) = (sleep(Duration::from_secs(60)), far.read());
        poll_fn(|cx| {
            assert!(std::pin::Pin::new(&mut nap).poll(cx).is_pending());
            assert!(std::pin::Pin::new(&mut read).poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        (nap, read)
    });
    let held = Noted(journal.clone(), "task");
    let task = dispatcher.post_after(Duration::from_secs(60), move |_| drop(held)).expect("it runs");
    let join = dispatcher.spawn(pending::<()>()).expect("it runs");
    let stays = dispatcher.clone();
    std::thread::spawn(move || {
        task.cancel().expect("it has not run");
        drop((armed, task, join, stays));
    })
    .join()
    .expect("no panic");
    assert_eq!(journal.take(), ["task dropped"]);
    near.write(crate::Message::new()).expect("the peer is there");
    assert_eq!(host.block_on(async move { far.read().await.map(drop) }), Ok(()), "the read can be registered again");
    assert_eq!(host.timers_left(), 0);
}
