//! Faults that were found and mended, one test each. Each of them failed before its mending.

mod common;

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{HANG, pool_of, within};
use fuchsine_dispatcher::{Dispatcher, DispatcherBuilder, Runtime};

fn dispatcher(runtime: &Runtime, name: &str, builder: DispatcherBuilder) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(builder.name(name)).expect("created")
}

#[test]
fn timers_run_by_deadline_whichever_threads_take_them() {
    const COUNT: usize = 3000;
    let (mut rounds, mut lead_time) = (0, Duration::from_millis(50));
    while rounds < 12 {
        let runtime = pool_of(4);
        let target = dispatcher(&runtime, "target", DispatcherBuilder::new());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (sender, receiver) = channel();
        let start = runtime.now() + lead_time;
        for nth in 0..COUNT {
            let (seen, sender) = (Arc::clone(&seen), sender.clone());
            let deadline = start + Duration::from_micros(2 * nth as u64);
            let _timer = target
                .post_at(deadline, move |_| {
                    seen.lock().expect("not poisoned").push(deadline);
                    sender.send(()).expect("counted");
                })
                .expect("accepted");
        }
        let all_were_armed_in_time = runtime.now() < start;
        for _ in 0..COUNT {
            within(&receiver, "a timer");
        }
        let seen = seen.lock().expect("not poisoned");
        if all_were_armed_in_time {
            rounds += 1;
            let late: Vec<_> = seen.windows(2).filter(|pair| pair[0] > pair[1]).collect();
            assert!(late.is_empty(), "{} of {COUNT} out of order, such as {:?}", late.len(), late[0]);
        } else {
            lead_time *= 2;
        }
        runtime.shutdown(HANG).expect("the runtime shuts down");
    }
}
