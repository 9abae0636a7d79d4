//! Two tellers of one bank, each on a dispatcher of its own, keep the balance together. The mistake: each reads it, says
//! so, and writes it back, as if it were alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fuchsine_driver::{DispatcherOptions, Driver, DriverContext, StartError, Status};

use super::support::{listen, say};
use super::*;

pub(crate) struct Bank<const FIXED: bool>;

impl<const FIXED: bool> Driver for Bank<FIXED> {
    const NAME: &'static str = "bank";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let balance = Arc::new(AtomicU32::new(0));
        for teller in ["left", "right"] {
            let counter = cx.new_dispatcher(DispatcherOptions::new(teller))?;
            let (balance, inside) = (Arc::clone(&balance), cx.clone());
            let opened = counter.spawn(async move {
                listen(&inside, teller, move |line, _| {
                    if FIXED {
                        balance.fetch_add(1, Ordering::Relaxed);
                        return say(line, "booked");
                    }
                    let before = balance.load(Ordering::Relaxed);
                    say(line, "booked");
                    balance.store(before + 1, Ordering::Relaxed);
                })
                .await
            });
            opened.map_err(|refused| refused.status())?.await.map_err(|_| Status::Canceled)??;
        }
        listen(&cx, "auditor", move |line, _| say(line, balance.load(Ordering::Relaxed).to_string())).await?;
        Ok(Bank)
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("left").service("right").service("auditor"));
    let [left, right, auditor] = ["left", "right", "auditor"].map(|name| harness.accept(name).expect("it connects"));
    left.send(b"deposit");
    right.send(b"deposit");
    harness.settle();
    auditor.send(b"balance");
    let balance = auditor.receive_bytes();
    assert_eq!(balance.as_deref(), Some(&b"2"[..]), "bank: the balance after two deposits");
    end(harness);
}
