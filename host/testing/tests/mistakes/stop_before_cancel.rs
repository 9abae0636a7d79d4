//! A diver says why it comes up. The mistake: it relies on its stop hook, which runs after pending reads are canceled.

use std::sync::{Arc, OnceLock};

use fuchsine_driver::{Channel, Driver, DriverContext, StartError, Status, StopError};

use super::support::say;
use super::*;

pub(crate) struct Diver<const FIXED: bool> {
    reason: Arc<OnceLock<&'static str>>,
}

impl<const FIXED: bool> Driver for Diver<FIXED> {
    const NAME: &'static str = "diver";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let rope = Arc::new(cx.node().connect("rope").await?);
        let reason = Arc::new(OnceLock::new());
        hear::<FIXED>(&cx, rope, Arc::clone(&reason))?;
        Ok(Diver { reason })
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        if FIXED {
            self.reason.get_or_init(|| "the dive is over");
        }
        Ok(())
    }

    async fn stop(self) -> Result<(), StopError> {
        self.reason.get_or_init(|| "the dive is over");
        Ok(())
    }
}

fn hear<const FIXED: bool>(
    cx: &DriverContext,
    rope: Arc<Channel>,
    reason: Arc<OnceLock<&'static str>>,
) -> Result<(), Status> {
    let (end, inside) = (Arc::clone(&rope), cx.clone());
    let registered = end.begin_read(&cx.dispatcher(), move |told| match told {
        Ok(()) => {
            drop(rope.try_read());
            say(&rope, "fine");
            let _ = hear::<FIXED>(&inside, rope, reason);
        }
        Err(Status::Canceled) => {
            // Whoever shuts the dispatcher down alone gives no reason.
            let given = reason.get().or(FIXED.then_some(&"called up"));
            say(&rope, given.expect("diver: its stop says why before a read is canceled"));
        }
        Err(_) => {}
    });
    registered.map_err(|refused| refused.status())
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("rope"));
    let Some(rope) = line(rt, &harness, "rope") else { return end(harness) };
    rope.send(b"pull");
    rope.send(b"pull");
    harness.settle();
    end(harness);
}
