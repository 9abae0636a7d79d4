//! For tests of the kit: a dispatcher with callbacks of all kinds, some that have had their turn and some that wait.

use std::time::Duration;

use super::ForegroundRuntime;
use crate::channel::{Channel, Message, Token};
use crate::event_loop::Lane;
use crate::runtime::{DispatcherHandle, Driver};
use crate::sys::Interest;
use crate::sys::sim::Event;

/// Makes a dispatcher busy, whatever of it is refused. What comes back is held until the end.
pub(super) fn busy(runtime: &ForegroundRuntime, dispatcher: &DispatcherHandle) -> Vec<Channel> {
    let (near, far) = Channel::pair();
    drop(far.begin_read(dispatcher, |_| ()));
    drop(near.write(Message::from_bytes(b"one")));
    drop(dispatcher.offload(Lane::Fast, |_| 1, |_| ()));
    drop(dispatcher.spawn(async { crate::sleep(Duration::from_secs(1)).await }));
    let irq = dispatcher.new_irq().ok();
    if let Some((irq, trigger)) = &irq {
        drop(dispatcher.bind_irq(irq, |outcome| outcome.into_iter().for_each(|event| event.ack())));
        trigger.trigger();
    }
    drop(dispatcher.post_after(Duration::from_millis(1), |_| ()));
    runtime.advance(Duration::from_secs(2));

    drop(dispatcher.post_after(Duration::from_secs(20), |_| ()));
    drop(dispatcher.post_after(Duration::from_secs(10), |_| ()));
    drop(dispatcher.offload(Lane::Slow, |_| 1, |_| ()));
    drop(dispatcher.begin_wait(&Event::new(), Interest::READABLE, |_| ()));
    let (token, _other) = Token::pair();
    drop(token.register(dispatcher, |_| ()));
    drop(dispatcher.spawn(std::future::pending::<()>()));
    drop(dispatcher.post_task(|_| ()));
    if let Ok(taken_back) = dispatcher.post_cancelable(|_| ()) {
        drop(taken_back.cancel());
    }
    if let Some((_, trigger)) = &irq {
        trigger.trigger();
    }
    let (one, other) = Channel::pair();
    drop(one.begin_read(dispatcher, |_| ()));
    let (closing, closed) = Channel::pair();
    drop(closed.begin_read(dispatcher, |_| ()));
    drop(closing);
    vec![near, far, one, other, closed]
}

/// The same before, while and after its driver is suspended.
pub(super) fn busy_and_suspended(runtime: &ForegroundRuntime, driver: &Driver, dispatcher: &DispatcherHandle) {
    let held = busy(runtime, dispatcher);
    drop(driver.suspend(|_| ()));
    drop(dispatcher.post_task(|_| ()));
    runtime.run_until_idle();
    driver.resume();
    runtime.run_until_idle();
    let more = busy(runtime, dispatcher);
    drop(driver.suspend(|_| ()));
    drop(dispatcher.post_task(|_| ()));
    let _ = runtime.shutdown();
    drop((held, more));
}
