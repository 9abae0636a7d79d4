//! Posts, timers, offloaded work: each callback ends exactly once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Grenade, Journal, Noted};
use crate::abi::ALLOW_SYNC_CALLS;
use crate::abi::fake::FakeHost;
use crate::{Canceled, Instant, Lane, OffloadError, Status, blocking, current, offload, sleep, timeout};

#[test]
fn tasks_run_in_the_order_of_their_posts_and_never_inside_the_post() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    for index in 0..3 {
        let noted = journal.clone();
        dispatcher.post_task(move |told| noted.note(format!("{index} {told:?}"))).expect("it runs");
    }
    assert_eq!(journal.take(), [""; 0]);
    host.run();
    assert_eq!(journal.take(), ["0 Ok(())", "1 Ok(())", "2 Ok(())"]);
}

#[test]
fn closures_of_every_size_arrive_whole_and_are_dropped_once() {
    // Goal: those that fit into a pointer, those that just do not, and aligned ones take different ways.
    #[repr(align(64))]
    struct Aligned([u8; 64]);
    let host = FakeHost::new();
    let dispatcher = host.dispatcher("d");
    let journal = Journal::default();
    dispatcher.post_task(|_| ()).expect("no capture");
    let noted = journal.clone();
    dispatcher.post_task(move |_| noted.note("one word")).expect("one word");
    let (noted, odd) = (journal.clone(), (7_u8, 70_000_u32, Noted(journal.clone(), "three words")));
    dispatcher
        .post_task(move |_| {
            let odd = odd;
            noted.note(format!("odd {} {}", odd.0, odd.1));
        })
        .expect("it runs");
    let (noted, aligned) = (journal.clone(), Aligned([9; 64]));
    dispatcher
        .post_task(move |_| {
            assert_eq!((&raw const aligned).addr() % 64, 0);
            noted.note(format!("aligned {}", aligned.0.iter().map(|byte| u32::from(*byte)).sum::<u32>()));
        })
        .expect("aligned");
    let small = 5_u16;
    let noted = journal.clone();
    dispatcher.post_task(move |_| noted.note(format!("small {small}"))).expect("small");
    host.run();
    assert_eq!(journal.take(), ["one word", "odd 7 70000", "three words dropped", "aligned 576", "small 5"]);
    let noted = Noted(journal.clone(), "taken back");
    dispatcher.post_cancelable(move |_| drop(noted)).expect("it runs").cancel().expect("it has not run");
    assert_eq!(journal.take(), ["taken back dropped"]);
}

#[test]
fn a_refused_closure_comes_back_unrun_and_can_be_used() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    dispatcher.shutdown();
    assert!(dispatcher.is_stopping());
    host.run();
    let (noted, held) = (journal.clone(), Noted(journal.clone(), "captured"));
    let error = dispatcher
        .post_task(move |told| {
            noted.note(format!("called by hand {told:?}"));
            drop(held);
        })
        .expect_err("shut down");
    assert_eq!((error.status(), error.to_string().as_str()), (Status::BadState, "refused: bad state"));
    assert_eq!(journal.take(), [""; 0]);
    error.into_inner()(Err(Canceled));
    assert_eq!(journal.take(), ["called by hand Err(Canceled)", "captured dropped"]);

    let held = Noted(journal.clone(), "captured");
    let status: Status = dispatcher.post_task(move |_| drop(held)).expect_err("shut down").into();
    assert_eq!((status, journal.take()), (Status::BadState, vec![String::from("captured dropped")]));
}

#[test]
fn what_is_pending_at_the_shutdown_is_told_canceled() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let noted = journal.clone();
    dispatcher.post_after(Duration::from_secs(9), move |told| noted.note(format!("timer {told:?}"))).expect("it runs");
    dispatcher.shutdown();
    dispatcher.shutdown();
    host.run();
    assert_eq!(journal.take(), ["timer Err(Canceled)"]);
}

#[test]
fn timers_fire_by_deadline_and_can_be_taken_back() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let post = |seconds: u64| {
        let noted = journal.clone();
        dispatcher
            .post_after(Duration::from_secs(seconds), move |_| {
                noted.note(format!("{seconds} s at {:?}", Instant::now()))
            })
            .expect("it runs")
    };
    post(3);
    post(1);
    let canceled = post(2);
    assert_eq!(canceled.cancel(), Ok(()));
    assert_eq!(canceled.cancel(), Err(Status::NotFound));
    host.advance(Duration::from_secs(10));
    assert_eq!(journal.take(), ["1 s at 1s", "3 s at 3s"]);
    let past = post(0);
    host.run();
    assert_eq!(journal.take(), ["0 s at 10s"]);
    assert_eq!(past.cancel(), Err(Status::NotFound));
    let endless = dispatcher.post_at(Instant::INFINITE, |_| ()).expect_err("no end");
    assert_eq!(endless.status(), Status::InvalidArgs);
    assert_eq!(Instant::INFINITE + Duration::from_secs(1), Instant::INFINITE);
}

#[test]
fn a_panic_in_a_callback_or_in_its_drop_is_reported_to_the_host_with_its_message() {
    let host = FakeHost::new();
    let dispatcher = host.dispatcher("d");
    dispatcher.post_task(|_| panic!("task {}", 1)).expect("it runs");
    let grenade = Grenade;
    dispatcher.post_task(move |_| drop(grenade)).expect("it runs");
    dispatcher.post_task(|_| std::panic::panic_any(17_u8)).expect("it runs");
    host.run();
    assert_eq!(host.panics(), ["task 1", "the destructor panicked", "a panic whose payload is no text"]);
    dispatcher.post_task(|_| ()).expect("the dispatcher lives on");
}

#[test]
fn work_runs_on_a_lane_and_its_result_or_panic_comes_back() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let noted = journal.clone();
    dispatcher
        .offload(
            Lane::Fast,
            |stop| {
                assert!(current().is_none(), "work runs on no dispatcher");
                assert!(!stop.is_stopping());
                6 * 7
            },
            move |result| noted.note(format!("{result:?} on {}", current().expect("current").name())),
        )
        .expect("it runs");
    let noted = journal.clone();
    dispatcher
        .offload(Lane::Slow, |_| -> u32 { panic!("no luck") }, move |result| noted.note(format!("{result:?}")))
        .expect("it runs");
    host.run();
    assert_eq!(journal.take(), ["Ok(42) on d", "Err(Panicked(\"no luck\"))"]);
    assert_eq!(host.panics(), [""; 0], "a panic in work is for `done`, not for the host");
}

#[test]
fn canceled_work_does_not_run_and_is_told_once() {
    let host = FakeHost::new();
    let journal = Journal::default();
    let dispatcher = host.dispatcher("d");
    let (noted, work) = (journal.clone(), Noted(journal.clone(), "work"));
    let handle = dispatcher
        .offload(Lane::Fast, move |_| drop(work), move |result| noted.note(format!("{result:?}")))
        .expect("it runs");
    assert_eq!(handle.cancel(), Ok(()));
    assert_eq!(handle.cancel(), Err(Status::NotFound));
    host.run();
    assert_eq!(journal.take(), ["work dropped", "Err(Canceled)"]);

    let noted = journal.clone();
    dispatcher.offload(Lane::Fast, |_| 1, move |result| noted.note(format!("{result:?}"))).expect("it runs");
    dispatcher.shutdown();
    host.run();
    assert_eq!(journal.take(), ["Err(Canceled)"]);
    let refused = dispatcher.offload(Lane::Fast, |_| 1, |_| ()).expect_err("shut down");
    let (work, _done) = refused.into_inner();
    let offloaded = host.block_on(offload(Lane::Fast, work));
    assert_eq!(offloaded, Ok(1), "the work came back whole");
}

#[test]
fn awaited_work_gives_its_value_and_dropping_the_future_cancels_it() {
    let host = FakeHost::new();
    assert_eq!(host.block_on(offload(Lane::Slow, |_| String::from("done"))), Ok(String::from("done")));
    let panicked = host.block_on(offload(Lane::Slow, |_| -> () { panic!("oh") }));
    assert_eq!(panicked, Err(OffloadError::Panicked(String::from("oh"))));
    assert_eq!(Status::from(panicked.expect_err("panicked")), Status::Internal);

    let journal = Journal::default();
    let noted = journal.clone();
    let dispatcher = host.dispatcher("d");
    let task = dispatcher
        .spawn(async move {
            let work = Noted(noted, "work");
            offload(Lane::Fast, move |_| work.0.note("work runs")).await
        })
        .expect("it runs");
    assert!(host.step(), "the future has asked for its work");
    task.cancel();
    host.run();
    assert_eq!(journal.take(), ["work dropped"]);
    assert!(task.is_finished());
}

#[test]
fn outside_of_any_dispatcher_what_needs_one_says_so() {
    let host = FakeHost::new();
    assert!(current().is_none());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut sleeping = std::pin::pin!(sleep(Duration::ZERO));
    assert_eq!(sleeping.as_mut().poll(&mut cx), std::task::Poll::Ready(Err(Status::BadState)));
    let mut work = std::pin::pin!(offload(Lane::Fast, |_| ()));
    let refused = std::task::Poll::Ready(Err(OffloadError::Refused(Status::BadState)));
    assert_eq!(work.as_mut().poll(&mut cx), refused);
    assert_eq!(crate::spawn(async {}).expect_err("nowhere").status(), Status::BadState);
    drop(host);
}

#[test]
fn blocking_runs_where_it_may_and_comes_back_unrun_elsewhere() {
    let host = FakeHost::new();
    assert_eq!(blocking(|| 1).map_err(|error| error.status()), Ok(1));
    let journal = Journal::default();
    for (name, flags) in [("strict", 0), ("blocking", ALLOW_SYNC_CALLS)] {
        let noted = journal.clone();
        let task = move |_: Result<(), Canceled>| {
            let held = Noted(noted.clone(), "closure");
            let outcome = blocking(move || {
                let held = held;
                held.1.len()
            })
            .map_err(|error| error.status());
            noted.note(format!("{name} {outcome:?}"));
        };
        host.dispatcher_with(name, flags).post_task(task).expect("it runs");
    }
    host.run();
    assert_eq!(journal.take(), ["closure dropped", "strict Err(BadState)", "closure dropped", "blocking Ok(7)"]);
    let panicked = std::panic::catch_unwind(|| blocking(|| panic!("inside")).map_err(|error| error.status()));
    assert!(panicked.is_err(), "a panic goes on where it came from");
}

#[test]
fn timeout_gives_the_output_or_timed_out() {
    let host = FakeHost::new();
    let quick = host.block_on(timeout(Duration::from_secs(2), async {
        sleep(Duration::from_secs(1)).await?;
        Ok::<_, Status>(5)
    }));
    assert_eq!(quick, Ok(Ok(5)));
    let slow = host.block_on(timeout(Duration::from_secs(1), std::future::pending::<()>()));
    assert_eq!(slow, Err(Status::TimedOut));
}

#[test]
fn a_sleep_can_be_set_anew_before_and_after_its_end() {
    let host = FakeHost::new();
    let times = host.block_on(async {
        let mut nap = sleep(Duration::from_secs(100));
        let mut times = Vec::new();
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut nap).poll(cx))).await;
        assert!(first.is_pending(), "it is armed");
        nap.reset(Duration::from_secs(1));
        (&mut nap).await.expect("it fires");
        times.push(Instant::now());
        nap.reset_at(Instant::now() + Duration::from_secs(2));
        (&mut nap).await.expect("it fires again");
        times.push(Instant::now());
        times
    });
    assert_eq!(times.iter().map(|time| time.as_nanos() / 1_000_000_000).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn the_right_to_block_is_sealed_once_from_inside() {
    let host = FakeHost::new();
    let blocks = host.dispatcher_with("blocks", ALLOW_SYNC_CALLS);
    assert_eq!(blocks.seal_allow_sync_calls(), Err(Status::BadState));
    let (inside, answers) = (blocks.clone(), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&answers);
    let sealing = move |_| {
        for _ in 0..2 {
            told.lock().unwrap().push((inside.seal_allow_sync_calls(), inside.allows_sync_calls()));
        }
    };
    blocks.post_task(sealing).unwrap();
    host.run();
    assert_eq!(*answers.lock().unwrap(), [(Ok(()), false), (Err(Status::AlreadyExists), false)]);
    blocks.shutdown();
    host.run();
}
