//! The driver of the tutorial as it is at first, with its mistake.

#[path = "steps.rs"]
pub(crate) mod steps;

use std::sync::Arc;
use std::time::Duration;

use fuchsine_driver::{Channel, Driver, DriverContext, DriverEntry, Message, StartError, Status, spawn};

pub(crate) static PRINTER: DriverEntry = DriverEntry::of::<Printer>();

/// Prints the pages that come through the service `queue` of its parent.
struct Printer;

impl Driver for Printer {
    const NAME: &'static str = "printer";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let queue = Arc::new(cx.node().connect("queue").await?);
        spawn(print(cx, queue))?;
        Ok(Printer)
    }
}

async fn print(cx: DriverContext, queue: Arc<Channel>) -> Result<(), Status> {
    loop {
        let page = queue.read().await?.bytes().to_vec();
        say(&queue, "printing", &page)?;
        let client = Arc::clone(&queue);
        cx.dispatcher().post_after(Duration::from_millis(10), move |outcome| {
            if outcome.is_ok() {
                let _ = say(&client, "printed", &page);
            }
        })?;
    }
}

fn say(queue: &Channel, what: &str, page: &[u8]) -> Result<(), Status> {
    let text = [what.as_bytes(), b" ", page].concat();
    queue.write(Message::from_bytes(&text)?).map_err(|refused| refused.into_status())
}
