//! Goal: threads of a role are scheduled as was set for it, where the system permits it, and everything works where it
//! does not.
//! Method: a callback asks the kernel for the nice value and the policy of its own thread. What everybody may ask for (a
//! greater nice value, the policy for batches) is permitted everywhere; a priority that does not exist is refused
//! everywhere.
#![cfg(target_os = "linux")]

mod conformance_support;

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use conformance_support::{make, task};
use fuchsine_dispatcher::{Dispatcher, DispatcherBuilder, Runtime, RuntimeBuilder, Scheduling};
use fuchsine_tests::pools::{HANG_LIMIT, World, on_pools};

/// There is no such priority.
const IMPOSSIBLE: Scheduling = Scheduling::Fifo { priority: 1_000 };

/// Policy and nice value of a thread.
type Own = (u32, i32);

const NORMAL: u32 = 0;
const BATCH: u32 = 3;

/// How the kernel schedules the calling thread.
fn own() -> Own {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("this is Linux");
    // Behind the name, which may contain anything, in parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    // Fields 19 and 41 of all, of which this begins with the third.
    (fields[38].parse().expect("a policy"), fields[16].parse().expect("a nice value"))
}

/// How the thread is scheduled that a task of this dispatcher runs on.
#[track_caller]
fn own_of(dispatcher: &Dispatcher) -> Own {
    let (sender, receiver) = channel();
    task(dispatcher, move || sender.send(own()).expect("it is awaited"));
    receiver.recv_timeout(HANG_LIMIT).expect("the task runs")
}

/// A nice value that everybody may ask for: that of the calling thread, and so much more.
fn more(by: i32) -> i32 {
    (own().1 + by).min(19)
}

fn of_role(role: &str) -> DispatcherBuilder {
    DispatcherBuilder::new().scheduler_role(role)
}

/// Shows SR-1.
#[test]
fn nothing_is_attempted_for_a_role_for_which_nothing_is_set() {
    on_pools(|world| {
        let usual = own();
        for name in ["", "role"] {
            let dispatcher = make(world, "one", of_role(name));
            assert_eq!(own_of(&dispatcher), usual);
            let role = world.runtime().role(name);
            assert_eq!(role.scheduling(), None);
            let report = role.scheduling_report();
            assert_eq!((report.applied, report.refused, report.refusal), (0, 0, None));
        }
    });
}

/// Shows R33, R35, SR-2.
#[test]
fn every_thread_of_a_role_carries_it_out_before_it_runs_anything() {
    on_pools(|world: &World| {
        let usual = own();
        let role = world.runtime().role("role");
        role.set_scheduling(Scheduling::Normal { nice: more(5) });
        assert_eq!(role.scheduling(), Some(Scheduling::Normal { nice: more(5) }));
        assert_eq!(role.scheduling_report().applied, 0, "there is no thread yet");
        let parallel = make(world, "parallel", of_role("role").unsynchronized());
        // All threads are held at once, so each of them answers.
        let meeting = Arc::new(Barrier::new(world.threads()));
        let (sender, receiver) = channel();
        for _ in 0..world.threads() {
            let (meeting, sender) = (Arc::clone(&meeting), sender.clone());
            task(&parallel, move || {
                sender.send(own()).expect("it is awaited");
                meeting.wait();
            });
        }
        for _ in 0..world.threads() {
            assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok((NORMAL, more(5))));
        }
        let report = role.scheduling_report();
        assert_eq!((report.applied, report.refused), (world.threads(), 0));
        let default = make(world, "default", of_role(""));
        assert_eq!(own_of(&default), usual, "threads of other roles are as they were");
        assert_eq!(world.runtime().role("").scheduling_report().applied, 0, "and nothing was set for them");
    });
}

/// Shows R34, SR-3.
#[test]
fn what_the_system_refuses_is_remembered_and_work_goes_on() {
    on_pools(|world| {
        let usual = own();
        let role = world.runtime().role("role");
        role.set_scheduling(IMPOSSIBLE);
        let dispatcher = make(world, "one", of_role("role"));
        assert_eq!(own_of(&dispatcher), usual);
        world.wait_until("all threads to have tried", || role.scheduling_report().refused == world.threads());
        let report = role.scheduling_report();
        assert_eq!(report.applied, 0);
        assert!(report.refusal.is_some_and(|text| text.contains("nvalid")), "the system says why");
        role.set_scheduling(Scheduling::Normal { nice: more(5) });
        // Another one, so that no thread is in between.
        world.settle();
        assert_eq!(own_of(&dispatcher), (NORMAL, more(5)), "something else can be set afterwards");
        assert_eq!(role.scheduling_report().refused, 0);
    });
}

/// What is set while threads run is carried out by each before its next turn; the default role has its threads from
/// the start.
#[test]
fn a_change_reaches_threads_that_are_there() {
    on_pools(|world| {
        let role = world.runtime().role("");
        let dispatcher = make(world, "one", of_role(""));
        own_of(&dispatcher);
        for (wanted, policy, nice) in [
            (Scheduling::Normal { nice: more(3) }, NORMAL, more(3)),
            (Scheduling::Batch { nice: more(6) }, BATCH, more(6)),
        ] {
            world.settle();
            role.set_scheduling(wanted);
            assert_eq!(own_of(&dispatcher), (policy, nice));
            assert!(role.scheduling_report().applied >= 1);
        }
        // By a timer, too, whose callback runs on the thread that was asleep in the poll.
        world.settle();
        role.set_scheduling(Scheduling::Batch { nice: more(7) });
        let (sender, receiver) = channel();
        let _timer = dispatcher
            .post_after(Duration::from_millis(1), move |_| sender.send(own()).expect("it is awaited"))
            .expect("accepted");
        assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok((BATCH, more(7))));
    });
}

/// Extra threads carry it out too, and one that has retired counts no more.
#[test]
fn an_extra_thread_is_scheduled_like_the_others() {
    let runtime =
        RuntimeBuilder::new().threads(1).retire_threads_after(Duration::from_millis(20)).build().expect("started");
    let role = runtime.role("");
    role.set_scheduling(Scheduling::Normal { nice: more(5) });
    let driver = runtime.new_driver("owner");
    let blocking = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("made");
    let until = |what: &str, condition: &dyn Fn() -> bool| wait(&runtime, what, condition);
    let plain = driver.new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("made");
    let meeting = Arc::new(Barrier::new(2));
    let (sender, receiver) = channel();
    for _ in 0..2 {
        let (meeting, sender) = (Arc::clone(&meeting), sender.clone());
        task(&plain, move || {
            meeting.wait();
            sender.send(own()).expect("it is awaited");
        });
    }
    (0..2).for_each(|_| assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok((NORMAL, more(5)))));
    assert_eq!(role.scheduling_report().applied, 2);
    drop(blocking);
    until("the extra thread to end", &|| role.retired() == 1 && role.scheduling_report().applied == 1);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

#[track_caller]
fn wait(runtime: &Runtime, what: &str, condition: &dyn Fn() -> bool) {
    let since = std::time::Instant::now();
    while !condition() {
        assert!(since.elapsed() < HANG_LIMIT, "waiting for {what}:\n{}", runtime.dump());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread begins with the scheduling of the one that starts it, which may be one of another role.
#[test]
fn a_role_that_a_callback_of_another_one_starts_inherits_nothing() {
    if !may_go_back() {
        eprintln!("SKIPPED: this system permits no thread to lower its nice value");
        return;
    }
    on_pools(|world| {
        let usual = own();
        world.runtime().role("nice").set_scheduling(Scheduling::Normal { nice: more(5) });
        let parent = make(world, "parent", of_role("nice"));
        let (sender, receiver) = channel();
        let child = world.driver("child");
        task(&parent, move || {
            let made = child.new_dispatcher(of_role("child")).expect("made");
            sender.send((own(), made)).expect("it is awaited");
        });
        let (parents, made) = receiver.recv_timeout(HANG_LIMIT).expect("the task runs");
        assert_eq!(parents, (NORMAL, more(5)));
        assert_eq!(own_of(&made), usual);
    });
}

/// Whether a thread may lower its nice value again, which takes a privilege.
fn may_go_back() -> bool {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
    let role = runtime.role("");
    // Two, so that the second look is a turn of its own.
    let driver = runtime.new_driver("owner");
    let (one, other) = (driver.new_dispatcher(of_role("")), driver.new_dispatcher(of_role("")));
    let (_, usual) = own();
    role.set_scheduling(Scheduling::Normal { nice: usual + 1 });
    own_of(&one.expect("made"));
    role.set_scheduling(Scheduling::Normal { nice: usual });
    let may = own_of(&other.expect("made")).1 == usual;
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
    may
}
