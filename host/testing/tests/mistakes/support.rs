//! What the drivers and the scenarios share.

use std::sync::Arc;

use fuchsine_driver::{Channel, DriverContext, JoinHandle, Message, StartError, Status, spawn};

/// Sends a line of text. A peer that has gone is no concern of these drivers.
pub(crate) fn say(line: &Channel, text: impl AsRef<str>) {
    if let Ok(message) = Message::from_bytes(text.as_ref().as_bytes()) {
        let _ = line.write(message);
    }
}

/// The text of a message.
pub(crate) fn text(message: &Message) -> String {
    String::from_utf8_lossy(message.bytes()).into_owned()
}

/// Connects to a service of the parent and calls `hear` with each line that comes, on the current dispatcher.
pub(crate) async fn listen(
    cx: &DriverContext,
    service: &str,
    mut hear: impl FnMut(&Arc<Channel>, &str) + Send + 'static,
) -> Result<Arc<Channel>, StartError> {
    let line = Arc::new(cx.node().connect(service).await?);
    let heard = Arc::clone(&line);
    let listening: JoinHandle<Result<(), Status>> = spawn(async move {
        loop {
            let message = heard.read().await?;
            hear(&heard, &text(&message));
        }
    })?;
    drop(listening);
    Ok(line)
}

/// The number behind the word of a line such as `order 7`.
pub(crate) fn number(line: &str) -> u32 {
    line.rsplit(' ').next().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}
