//! A scribe copies pages on a dispatcher with several hands. The mistake: pages that are begun in order are not ended in
//! order there.

use std::sync::Arc;

use fuchsine_driver::{DispatcherOptions, Driver, DriverContext, StartError};

use super::support::{listen, number, say};
use super::*;

pub(crate) struct Scribe<const FIXED: bool>;

impl<const FIXED: bool> Driver for Scribe<FIXED> {
    const NAME: &'static str = "scribe";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let options = DispatcherOptions::new("hands");
        let hands = cx.new_dispatcher(if FIXED { options } else { options.unsynchronized() })?;
        listen(&cx, "pages", move |line, page| {
            let (line, page) = (Arc::clone(line), number(page));
            let copied = hands.post_task(move |outcome| {
                if outcome.is_ok() {
                    say(&line, format!("copy {page}"));
                }
            });
            drop(copied);
        })
        .await?;
        Ok(Scribe)
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("pages"));
    let pages = harness.accept("pages").expect("the scribe connects");
    for page in 1..=3 {
        pages.send(format!("page {page}").as_bytes());
    }
    harness.settle();
    let said = pages.receive_texts();
    assert!(said.is_sorted(), "scribe: copies are out of order: {said:?}");
    end(harness);
}
