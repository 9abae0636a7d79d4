//! An idle runtime uses no CPU. Alone in its file, because CPU time is counted for the whole process.

mod common;

use std::time::Duration;

use common::{HANG, pool_of};
use fuchsine_dispatcher::DispatcherBuilder;

const DISPATCHERS: usize = 100_000;

fn cpu_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// Two seconds of nothing cost less than 20 ms, also after work has been done and while timers and waits are armed.
#[test]
fn an_idle_runtime_uses_no_cpu() {
    let runtime = pool_of(8);
    let driver = runtime.new_driver("idle");
    let dispatchers: Vec<_> =
        (0..DISPATCHERS).map(|_| driver.new_dispatcher(DispatcherBuilder::new()).expect("created")).collect();
    let (near, far) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let (sender, receiver) = std::sync::mpsc::channel();
    for dispatcher in &dispatchers {
        let sender = sender.clone();
        dispatcher.post_task(move |_| sender.send(()).expect("counted")).expect("accepted");
        let _far_timer = dispatcher.post_after(Duration::from_secs(3600), |_| ()).expect("accepted");
    }
    dispatchers[0]
        .begin_wait(&near, fuchsine_dispatcher::Interest::READABLE, |_| ())
        .expect("a socket can be waited for");
    for _ in &dispatchers {
        receiver.recv_timeout(HANG).expect("each ran");
    }
    // What was just woken may still be on its way to sleep.
    std::thread::sleep(Duration::from_millis(300));
    let before = cpu_time();
    std::thread::sleep(Duration::from_secs(2));
    let spent = cpu_time() - before;
    assert!(spent < Duration::from_millis(20), "an idle runtime spent {spent:?} in two seconds");
    drop(far);
    runtime.shutdown(HANG).expect("the runtime shuts down");
}
