//! A thread that sits in a callback holds up nobody else while another thread of the pool is free.
//!
//! Each test blocks one of two threads until everything else has been seen to happen: what waited behind the blocked
//! thread would never be seen, and the test would end at its hang limit.

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use common::{HANG, add_up, pool_of, within};
use fuchsine_dispatcher::{Dispatcher, DispatcherBuilder, Interest, Lane, Runtime, blocking};

fn dispatcher(runtime: &Runtime, name: &str, builder: DispatcherBuilder) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(builder.name(name)).expect("created")
}

/// A task, a timer, a descriptor and offloaded work of other dispatchers all get through, over and over.
fn others_get_through(runtime: &Runtime) {
    for _ in 0..20 {
        let other = dispatcher(runtime, "other", DispatcherBuilder::new());
        let (sender, receiver) = channel();
        let told = |what: &'static str| {
            let sender: Sender<&'static str> = sender.clone();
            move || sender.send(what).expect("it is awaited")
        };
        let tell = told("task");
        other.post_task(move |_| tell()).expect("accepted");
        let tell = told("timer");
        let _timer = other.post_after(Duration::from_millis(2), move |_| tell()).expect("accepted");
        let (near, mut far) = UnixStream::pair().expect("a socket pair");
        let tell = told("descriptor");
        other.begin_wait(&near, Interest::READABLE, move |_| tell()).expect("accepted");
        far.write_all(b"!").expect("there is room");
        let tell = told("work");
        other.offload(Lane::Fast, |_| (), move |_| tell()).expect("accepted");
        let mut seen: Vec<_> = (0..4).map(|_| within(&receiver, "one of the four")).collect();
        seen.sort_unstable();
        assert_eq!(seen, ["descriptor", "task", "timer", "work"]);
    }
}

fn blocked() -> (impl FnOnce() + Send + 'static, Receiver<()>, Sender<()>) {
    let (entered, is_inside) = channel();
    let (release, released) = channel();
    let block = move || {
        entered.send(()).expect("the test waits for it");
        within(&released, "the release");
    };
    (block, is_inside, release)
}

fn finish(runtime: &Runtime, release: &Sender<()>) {
    release.send(()).expect("it is still inside");
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(runtime);
}

#[test]
fn a_blocked_task_delays_no_task_timer_descriptor_or_work_of_others() {
    let runtime = pool_of(2);
    let blocker = dispatcher(&runtime, "blocker", DispatcherBuilder::new());
    let (block, is_inside, release) = blocked();
    blocker.post_task(move |_| block()).expect("accepted");
    within(&is_inside, "the blocked callback");
    others_get_through(&runtime);
    finish(&runtime, &release);
}

#[test]
fn a_sync_call_delays_nobody() {
    let runtime = pool_of(2);
    let blocker = dispatcher(&runtime, "blocker", DispatcherBuilder::new().allow_sync_calls());
    assert_eq!(runtime.thread_count(), 3, "the dispatcher brought a thread along");
    let (block, is_inside, release) = blocked();
    blocker.post_task(move |_| blocking(block).expect("it allows sync calls")).expect("accepted");
    within(&is_inside, "the blocked callback");
    others_get_through(&runtime);
    finish(&runtime, &release);
}

/// The thread that polls runs the last event's callback itself, and leaves the lead vacant: the watch sees to that.
#[test]
fn a_leader_blocked_in_a_timer_or_descriptor_callback_delays_nobody() {
    for by_descriptor in [false, true] {
        let runtime = pool_of(2);
        let blocker = dispatcher(&runtime, "blocker", DispatcherBuilder::new());
        let (block, is_inside, release) = blocked();
        let (near, mut far) = UnixStream::pair().expect("a socket pair");
        if by_descriptor {
            blocker.begin_wait(&near, Interest::READABLE, move |_| block()).expect("accepted");
            far.write_all(b"!").expect("there is room");
        } else {
            let _timer = blocker.post_after(Duration::from_millis(5), move |_| block()).expect("accepted");
        }
        within(&is_inside, "the blocked callback");
        others_get_through(&runtime);
        finish(&runtime, &release);
    }
}

/// What a callback made runnable is taken over by the free thread when the callback does not return.
#[test]
fn what_a_callback_posted_before_it_blocked_runs_on_the_free_thread() {
    let runtime = pool_of(2);
    let blocker = dispatcher(&runtime, "blocker", DispatcherBuilder::new());
    let targets: Vec<_> = (0..8).map(|_| dispatcher(&runtime, "target", DispatcherBuilder::new())).collect();
    let (block, is_inside, release) = blocked();
    let (sender, receiver) = channel();
    let handles: Vec<_> = targets.iter().map(|target| target.handle()).collect();
    blocker
        .post_task(move |_| {
            for (nth, target) in handles.into_iter().enumerate() {
                let sender = sender.clone();
                target.post_task(move |_| sender.send(nth).expect("it is awaited")).expect("accepted");
            }
            block();
        })
        .expect("accepted");
    within(&is_inside, "the blocked callback");
    let mut seen: Vec<_> = (0..8).map(|_| within(&receiver, "a target")).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..8).collect::<Vec<_>>());
    finish(&runtime, &release);
}

/// Nothing is posted any more once the leader is blocked, so nobody but the stall watch can fill the vacant lead.
#[test]
fn a_vacant_lead_is_filled_although_nothing_is_posted() {
    for _ in 0..20 {
        let runtime = pool_of(2);
        let blocker = dispatcher(&runtime, "blocker", DispatcherBuilder::new());
        let other = dispatcher(&runtime, "other", DispatcherBuilder::new());
        let (block, is_inside, release) = blocked();
        let (near, mut far) = UnixStream::pair().expect("a socket pair");
        let (other_near, mut other_far) = UnixStream::pair().expect("a socket pair");
        let (sender, receiver) = channel();
        let timer_sender = sender.clone();
        blocker.begin_wait(&near, Interest::READABLE, move |_| block()).expect("accepted");
        other
            .begin_wait(&other_near, Interest::READABLE, move |_| sender.send("descriptor").expect("awaited"))
            .expect("accepted");
        let _timer = other
            .post_after(Duration::from_millis(20), move |_| timer_sender.send("timer").expect("awaited"))
            .expect("accepted");
        far.write_all(b"!").expect("there is room");
        within(&is_inside, "the blocked callback");
        other_far.write_all(b"!").expect("there is room");
        let mut seen = [within(&receiver, "the descriptor"), within(&receiver, "the timer")];
        seen.sort_unstable();
        assert_eq!(seen, ["descriptor", "timer"]);
        finish(&runtime, &release);
    }
}

/// Nobody is woken for a callee, which its caller's thread runs next; when the caller does not return, the watch sees it.
#[test]
fn a_lone_callee_of_a_callback_that_does_not_return_runs_on_the_other_thread() {
    for _ in 0..20 {
        let runtime = pool_of(2);
        let caller = dispatcher(&runtime, "caller", DispatcherBuilder::new());
        let callee = dispatcher(&runtime, "callee", DispatcherBuilder::new());
        let (block, is_inside, release) = blocked();
        let (sender, receiver) = channel();
        let handle = callee.handle();
        caller
            .post_task(move |_| {
                handle.post_task(move |_| sender.send(()).expect("it is awaited")).expect("accepted");
                block();
            })
            .expect("accepted");
        within(&is_inside, "the blocked callback");
        within(&receiver, "the callee");
        finish(&runtime, &release);
    }
}

/// A thread that always has something of its own looks at what others post all the same.
#[test]
fn what_other_threads_post_gets_through_to_a_pool_that_is_busy_with_itself() {
    fn for_ever(dispatcher: &fuchsine_dispatcher::DispatcherHandle) {
        let again = dispatcher.clone();
        // Refused at shutdown, which is how it ends.
        let _ = dispatcher.post_task(move |outcome| {
            if outcome.is_ok() {
                for_ever(&again);
            }
        });
    }
    let runtime = pool_of(1);
    let busy: Vec<_> = (0..3).map(|_| dispatcher(&runtime, "busy", DispatcherBuilder::new())).collect();
    busy.iter().for_each(|busy| for_ever(busy));
    let other = dispatcher(&runtime, "other", DispatcherBuilder::new());
    let (sender, receiver) = channel();
    for _ in 0..20 {
        let sender = sender.clone();
        other.post_task(move |_| sender.send(()).expect("it is awaited")).expect("accepted");
        within(&receiver, "the other's task");
    }
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

/// Two items that wait for each other, when there is one worker and it is idle.
#[test]
fn items_of_a_lane_run_beside_each_other_although_one_worker_is_idle() {
    for nth in 0..100 {
        let lane = if nth % 2 == 0 { Lane::Fast } else { Lane::Slow };
        let runtime = pool_of(1);
        let owner = dispatcher(&runtime, "owner", DispatcherBuilder::new());
        let (sender, receiver) = channel();
        let told = sender.clone();
        owner.offload(lane, |_| (), move |_| told.send(()).expect("it is awaited")).expect("accepted");
        within(&receiver, "the first item");
        let meeting = std::sync::Arc::new(std::sync::Barrier::new(2));
        for _ in 0..2 {
            let (sender, meeting) = (sender.clone(), std::sync::Arc::clone(&meeting));
            let work = move |_: &fuchsine_dispatcher::StopToken| {
                meeting.wait();
            };
            owner.offload(lane, work, move |_| sender.send(()).expect("it is awaited")).expect("accepted");
        }
        for _ in 0..2 {
            within(&receiver, "an item");
        }
        runtime.shutdown(HANG).expect("the runtime shuts down");
        add_up(&runtime);
    }
}

/// The leader sleeps towards a deadline that is far away; nothing but the earlier one itself makes it get up.
#[test]
fn a_deadline_that_is_earlier_than_all_others_is_heard() {
    let runtime = pool_of(2);
    let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
    let (sender, receiver) = channel();
    let _far = target.post_after(Duration::from_secs(3600), |_| ()).expect("accepted");
    for _ in 0..50 {
        let sender = sender.clone();
        let _near = target
            .post_after(Duration::from_millis(2), move |_| sender.send(()).expect("it is awaited"))
            .expect("accepted");
        within(&receiver, "the near deadline");
    }
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}
