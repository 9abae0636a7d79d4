//! An archivist writes to a slow disk when its cache is full. The mistake: it does so on its default dispatcher, which does
//! not allow callbacks that block.

use std::sync::Arc;

use fuchsine_driver::{DispatcherOptions, Driver, DriverContext, StartError, blocking};

use super::support::{listen, say};
use super::*;

pub(crate) struct Archivist<const FIXED: bool>;

impl<const FIXED: bool> Driver for Archivist<FIXED> {
    const NAME: &'static str = "archivist";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let slow = cx.new_dispatcher(DispatcherOptions::new("disk").allow_sync_calls())?;
        let (home, mut cached) = (cx.dispatcher(), 0);
        listen(&cx, "papers", move |line, _| {
            cached += 1;
            if cached < 3 {
                return say(line, "cached");
            }
            cached = 0;
            let line = Arc::clone(line);
            let write = move |outcome: Result<(), _>| {
                if outcome.is_ok() {
                    blocking(|| say(&line, "written")).expect("the disk may be waited for here");
                }
            };
            drop(if FIXED { slow.post_task(write) } else { home.post_task(write) });
        })
        .await?;
        Ok(Archivist)
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("papers"));
    let papers = harness.accept("papers").expect("the archivist connects");
    for _ in 0..4 {
        papers.send(b"paper");
    }
    harness.settle();
    end(harness);
}
