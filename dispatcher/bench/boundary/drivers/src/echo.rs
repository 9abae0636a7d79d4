//! [`Echo`]: sends back what comes.

use std::sync::Arc;

use fuchsine_driver::{Channel, Child, ChildNode, Dispatcher, Driver, DriverContext, StartError, Status};

/// A node with the service `echo`.
#[derive(Debug)]
pub struct Echo {
    _child: Child,
}

impl Driver for Echo {
    const NAME: &'static str = "echo";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "sends back what comes, for the boundary bench";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let on = cx.dispatcher();
        let accept = move |channel: Channel| arm(Arc::new(channel), &on);
        let child = cx.add_child(ChildNode::new("echo").property("protocol", "echo").service("echo", accept))?;
        Ok(Self { _child: child })
    }
}

/// Waits for the next message; an idle dispatcher handles it within the call of who writes it.
fn arm(channel: Arc<Channel>, on: &Dispatcher) {
    let (next, there) = (Arc::clone(&channel), on.clone());
    let handle = move |told: Result<(), Status>| {
        if told.is_ok() {
            while let Ok(mut message) = next.try_read() {
                for byte in message.bytes_mut().iter_mut().take(1) {
                    *byte = byte.wrapping_add(1);
                }
                let _ = next.write(message);
            }
            arm(next, &there);
        }
    };
    // Refused: the client is gone, or the driver stops.
    let _ = channel.begin_read(on, handle);
}
