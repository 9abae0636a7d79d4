//! A receptionist says goodbye when it is stopped. The mistake: what it was still looking up is answered after that.

use std::sync::Arc;
use std::time::Duration;

use fuchsine_driver::{Channel, Driver, DriverContext, StartError, StopError};
use parking_lot::Mutex;

use super::support::{listen, say};
use super::*;

pub(crate) struct Receptionist<const FIXED: bool> {
    desk: Arc<Mutex<Option<Arc<Channel>>>>,
}

impl<const FIXED: bool> Driver for Receptionist<FIXED> {
    const NAME: &'static str = "receptionist";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (home, desk) = (cx.dispatcher(), Arc::new(Mutex::new(None)));
        let open = Arc::clone(&desk);
        let line = listen(&cx, "desk", move |line, question| {
            let (line, open, question) = (Arc::clone(line), Arc::clone(&open), question.to_owned());
            let looked_up = home.post_after(Duration::from_millis(5), move |_| {
                let is_open = open.lock().is_some();
                if is_open || !FIXED {
                    say(&line, format!("answer to {question}"));
                }
            });
            drop(looked_up);
        });
        *desk.lock() = Some(line.await?);
        Ok(Receptionist { desk })
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        let desk = self.desk.lock().take();
        if let Some(desk) = desk {
            say(&desk, "goodbye");
        }
        Ok(())
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("desk"));
    let Some(desk) = line(rt, &harness, "desk") else { return end(harness) };
    desk.send(b"the time");
    harness.advance(Duration::from_millis(3));
    desk.send(b"the way");
    harness.advance(Duration::from_millis(10));
    end(harness);
    let said = desk.receive_texts();
    let after = said.iter().skip_while(|line| *line != "goodbye").nth(1);
    assert_eq!(after, None, "receptionist: something was said after the goodbye; it said {said:?}");
}
