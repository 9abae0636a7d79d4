//! An asker puts a question to its parent. The mistake: it takes for granted that the parent answers inside of the write,
//! as it mostly does.

use std::sync::Arc;

use fuchsine_driver::{Channel, Driver, DriverContext, Message, StartError, current};

use super::support::{say, text};
use super::*;

pub(crate) struct Asker<const FIXED: bool>;

impl<const FIXED: bool> Driver for Asker<FIXED> {
    const NAME: &'static str = "asker";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let oracle = cx.node().connect("oracle").await?;
        // The connection has been accepted once the greeting is there.
        cx.logger().info(text(&oracle.read().await?));
        oracle.write(Message::from_bytes(b"what is it?")?)?;
        let answer = if FIXED {
            oracle.read().await?
        } else {
            oracle.try_read().expect("asker: the answer is there when the write returns")
        };
        cx.logger().info(text(&answer));
        Ok(Asker)
    }
}

/// The parent's side: greets, and answers each question.
fn answer(line: Arc<Channel>) {
    let Some(here) = current() else { return };
    let end = Arc::clone(&line);
    let registered = end.begin_read(&here, move |told| {
        if told.is_ok() && line.try_read().is_ok() {
            say(&line, "42");
            answer(line);
        }
    });
    drop(registered);
}

pub(crate) fn scenario(rt: &ForegroundRuntime, driver: &'static DriverEntry) {
    let oracle = |channel| {
        let line = Arc::new(channel);
        answer(Arc::clone(&line));
        say(&line, "ask");
    };
    let harness = begin(rt, Harness::builder(driver).serve("oracle", oracle));
    assert_eq!(harness.lines(), ["INFO asker: ask", "INFO asker: 42"]);
    end(harness);
}
