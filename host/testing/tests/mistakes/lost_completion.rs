//! A clerk accepts orders and ends each after a while. The mistake: it forgets those that are under way when it is shut
//! down, as it looks only at how a timer ends well.

use std::time::Duration;

use fuchsine_driver::{Driver, DriverContext, StartError};

use super::support::{listen, number, say};
use super::*;

pub(crate) struct Clerk<const FIXED: bool>;

impl<const FIXED: bool> Driver for Clerk<FIXED> {
    const NAME: &'static str = "clerk";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let home = cx.dispatcher();
        listen(&cx, "orders", move |line, order| {
            let (line, order) = (line.clone(), number(order));
            say(&line, format!("accepted {order}"));
            let ended = home.post_after(Duration::from_millis(10), move |outcome| match outcome {
                Ok(()) => say(&line, format!("done {order}")),
                Err(_) if FIXED => say(&line, format!("canceled {order}")),
                Err(_) => {}
            });
            drop(ended);
        })
        .await?;
        Ok(Clerk)
    }
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let harness = begin(rt, Harness::builder(driver).service("orders"));
    let Some(orders) = line(rt, &harness, "orders") else { return end(harness) };
    for order in 1..=3 {
        orders.send(format!("order {order}").as_bytes());
        harness.advance(Duration::from_millis(4));
    }
    harness.advance(Duration::from_millis(10));
    end(harness);
    let said = orders.receive_texts();
    for order in 1..=3 {
        let count = |word: &str| said.iter().filter(|line| **line == format!("{word} {order}")).count();
        let (accepted, ended) = (count("accepted"), count("done") + count("canceled"));
        assert_eq!(accepted, ended, "clerk: order {order} was accepted and has not ended; it said {said:?}");
    }
}
