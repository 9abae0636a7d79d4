//! A switchboard hands its line over on demand, at a desk of its own. The mistake: it rings on the line without a look
//! whether it still has it.

use std::sync::Arc;

use fuchsine_driver::{Channel, DispatcherOptions, Driver, DriverContext, Message, StartError, Status};
use parking_lot::Mutex;

use super::support::{listen, say};
use super::*;

pub(crate) struct Switchboard<const FIXED: bool>;

impl<const FIXED: bool> Driver for Switchboard<FIXED> {
    const NAME: &'static str = "switchboard";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (line, far) = Channel::pair()?;
        let ours = Arc::new(Mutex::new(Some(line)));
        let theirs = Arc::clone(&ours);
        let (desk, inside) = (cx.new_dispatcher(DispatcherOptions::new("desk"))?, cx.clone());
        let opened = desk.spawn(async move {
            listen(&inside, "operator", move |operator, _| {
                let line = theirs.lock().take();
                if let (Some(line), Ok(mut message)) = (line, Message::from_bytes(b"the line")) {
                    message.push(line);
                    let _ = operator.write(message);
                }
            })
            .await
        });
        opened.map_err(|refused| refused.status())?.await.map_err(|_| Status::Canceled)??;
        listen(&cx, "bell", move |bell, _| {
            let _far = &far;
            let is_ours = ours.lock().is_some();
            if !is_ours {
                assert!(FIXED, "switchboard: the line was handed over and is used");
                return say(bell, "handed over");
            }
            say(bell, "rung");
        })
        .await?;
        Ok(Switchboard)
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("operator").service("bell"));
    let [operator, bell] = ["operator", "bell"].map(|name| harness.accept(name).expect("it connects"));
    bell.send(b"ring");
    operator.send(b"hand over");
    harness.settle();
    end(harness);
}
