//! A lock keeper closes a lock that was left open for too long. The mistake: the timer of a lock that was closed in time
//! goes on, and closes the next one.

use std::time::Duration;

use fuchsine_driver::{Driver, DriverContext, StartError, TaskHandle};

use super::support::{listen, say};
use super::*;

pub(crate) struct LockKeeper<const FIXED: bool>;

impl<const FIXED: bool> Driver for LockKeeper<FIXED> {
    const NAME: &'static str = "lock-keeper";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (home, mut timer) = (cx.dispatcher(), None::<TaskHandle>);
        listen(&cx, "lock", move |line, order| match order {
            "open" => {
                let (line, opened) = (line.clone(), line.clone());
                let close = move |outcome: Result<(), _>| {
                    if outcome.is_ok() {
                        say(&line, "closed by itself");
                    }
                };
                timer = home.post_after(Duration::from_millis(10), close).ok();
                say(&opened, "opened");
            }
            _ => {
                let timer = timer.take();
                if FIXED && let Some(timer) = timer {
                    // Too late is as good: it has closed by itself.
                    let _ = timer.cancel();
                }
                say(line, "closed");
            }
        })
        .await?;
        Ok(LockKeeper)
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("lock"));
    let lock = harness.accept("lock").expect("the keeper connects");
    for order in ["open", "close", "open"] {
        lock.send(order.as_bytes());
        harness.advance(Duration::from_millis(3));
    }
    // The second one has been open for 5 ms.
    harness.advance(Duration::from_millis(2));
    let said = lock.receive_texts();
    assert!(!said.contains(&"closed by itself".to_owned()), "lock-keeper: closed a lock in its time; it said {said:?}");
    end(harness);
}
