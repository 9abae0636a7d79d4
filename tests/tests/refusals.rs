//! What the system refuses is told as a status, leaves nothing behind, and harms nothing that is there.
//!
//! Limits hold for a whole process, so each of these tests runs again in a process of its own.

mod common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

use common::{HANG, add_up, in_a_process_of_its_own, pool_of, within};
use fuchsine_dispatcher::{DispatcherBuilder, Interest, Readiness, RuntimeBuilder, Status};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn open_descriptors() -> u64 {
    // One of them is that of the folder that is being read.
    std::fs::read_dir("/proc/self/fd").expect("the folder of descriptors").count() as u64 - 1
}

fn limit_descriptors(current: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).expect("it is below the maximum");
}

/// A runtime is started with room for no, one, two ... descriptors: until there are enough it is refused, and whatever it
/// had got by then is given back.
#[test]
fn a_runtime_that_gets_too_few_descriptors_is_refused_and_gives_back_what_it_got() {
    let name = "a_runtime_that_gets_too_few_descriptors_is_refused_and_gives_back_what_it_got";
    let output = in_a_process_of_its_own(name, || {
        let before = open_descriptors();
        let mut refused = 0;
        for room in 0.. {
            limit_descriptors(before + room);
            let built = RuntimeBuilder::new().threads(2).build();
            limit_descriptors(before + 100);
            match built {
                Err(error) => {
                    assert_eq!(error.status(), Status::NoResources, "{error}");
                    assert_eq!(open_descriptors(), before, "with room for {room}");
                    refused += 1;
                }
                Ok(runtime) => {
                    runtime.shutdown(HANG).expect("it shuts down");
                    drop(runtime);
                    break;
                }
            }
        }
        assert!(refused > 0, "a runtime needs at least one descriptor");
        assert_eq!(open_descriptors(), before);
    });
    if let Some(output) = output {
        assert!(output.succeeded, "{}", output.text);
    }
}

/// The same for the pool of a role, which starts with its first dispatcher: whatever step is refused, nothing is left of the
/// creation, and the next one finds the role as if nobody had asked.
///
/// Shows W4.
#[test]
fn a_pool_that_gets_too_few_descriptors_leaves_nothing_of_its_creation() {
    let name = "a_pool_that_gets_too_few_descriptors_leaves_nothing_of_its_creation";
    let output = in_a_process_of_its_own(name, || {
        let runtime = pool_of(2);
        let driver = runtime.new_driver("driver");
        let role = runtime.role("fresh");
        let blocking = || DispatcherBuilder::new().scheduler_role("fresh").allow_sync_calls();
        let before = open_descriptors();
        let mut refused = 0;
        let made = loop {
            limit_descriptors(before + refused);
            let made = driver.new_dispatcher(blocking());
            limit_descriptors(before + 100);
            match made {
                Ok(made) => break made,
                Err(error) => assert_eq!(error.status(), Status::NoResources, "{error}"),
            }
            assert_eq!(open_descriptors(), before, "with room for {refused}");
            assert_eq!((role.thread_count(), role.sync_call_dispatchers(), role.added()), (0, 0, 0));
            assert!(driver.dispatchers().is_empty() && runtime.dump().pools.len() == 1);
            refused += 1;
        };
        assert!(refused > 0, "a pool needs at least one descriptor");
        assert_eq!((role.thread_count(), role.sync_call_dispatchers(), role.added()), (3, 1, 1));
        drop(made);
        runtime.shutdown(HANG).expect("it shuts down");
        drop((driver, role, runtime));
    });
    if let Some(output) = output {
        assert!(output.succeeded, "{}", output.text);
    }
}

/// With no descriptor left, what needs one says so, and what is there goes on: tasks, timers, waits.
#[test]
fn a_runtime_works_on_when_no_descriptor_is_left() {
    let output = in_a_process_of_its_own("a_runtime_works_on_when_no_descriptor_is_left", || {
        let runtime = pool_of(2);
        let driver = runtime.new_driver("driver");
        let target = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
        let (near, mut far) = UnixStream::pair().expect("a socket pair");
        limit_descriptors(open_descriptors() + 10);
        let _others: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        assert_eq!(target.stop_token().as_fd().expect_err("none is left"), Status::NoResources);
        let role = DispatcherBuilder::new().scheduler_role("role");
        assert_eq!(driver.new_dispatcher(role).expect_err("none is left").status(), Status::NoResources);
        let (sender, receiver) = channel();
        let told = sender.clone();
        target.post_task(move |_| told.send("task").expect("awaited")).expect("accepted");
        assert_eq!(within(&receiver, "a task"), "task");
        let told = sender.clone();
        let delay = std::time::Duration::from_millis(1);
        let _timer = target.post_after(delay, move |_| told.send("timer").expect("awaited")).expect("accepted");
        assert_eq!(within(&receiver, "a timer"), "timer");
        target
            .begin_wait(&near, Interest::READABLE, move |outcome| {
                assert!(outcome.expect("it is ready").contains(Readiness::READABLE));
                sender.send("wait").expect("awaited");
            })
            .expect("a wait needs no descriptor of its own");
        far.write_all(b"!").expect("there is room");
        assert_eq!(within(&receiver, "a wait"), "wait");
        let builder = DispatcherBuilder::new().allow_sync_calls();
        let _blocking = driver.new_dispatcher(builder).expect("a thread needs no descriptor");
        add_up(&runtime);
        runtime.shutdown(HANG).expect("it shuts down");
    });
    if let Some(output) = output {
        assert!(output.succeeded, "{}", output.text);
    }
}
