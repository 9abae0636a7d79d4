//! The driver `serial-echo`: sends back what comes over the port that it is bound to.
//!
//! It is a client of [`protocol`](crate::protocol) as small as one can be, and keeps to its window: what it has sent and was
//! not answered is counted, and while that is all there may be, nothing that comes is taken.

use std::collections::VecDeque;

use fuchsine_driver::{BindProperty, Channel, Driver, DriverContext, StartError, Status};

use crate::protocol::{Frame, WINDOW};

/// Sends back what comes.
#[derive(Debug)]
pub struct SerialEcho;

impl Driver for SerialEcho {
    const NAME: &'static str = "serial-echo";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "sends back what comes over a serial port";
    const BIND: &'static [BindProperty] = &[BindProperty::new("protocol", "serial")];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let channel = cx.node().connect("serial").await?;
        let told = cx.clone();
        cx.dispatcher().spawn(async move {
            match echo(&channel).await {
                Ok(()) | Err(Status::PeerClosed | Status::Canceled) => {}
                Err(status) => told.fail(status, format_args!("the port does not keep to its protocol: {status}")),
            }
        })?;
        Ok(Self)
    }
}

async fn echo(channel: &Channel) -> Result<(), Status> {
    let (mut under_way, mut waiting) = (0, VecDeque::new());
    loop {
        let message = channel.read().await?;
        match Frame::decode(message.bytes()).map_err(|_| Status::IoInvalid)? {
            (Frame::Data(bytes), id) => waiting.push_back((bytes.to_vec(), id)),
            (Frame::Interrupt, id) => waiting.push_back((b"interrupted\n".to_vec(), id)),
            (Frame::End, id) => waiting.push_back((b"end\n".to_vec(), id)),
            (Frame::Taken, _) => under_way = usize::checked_sub(under_way, 1).ok_or(Status::IoInvalid)?,
        }
        // There is never more here than the port's window, as it is answered only when it goes on.
        while under_way < WINDOW {
            let Some((bytes, id)) = waiting.pop_front() else { break };
            under_way += 1;
            channel.write(Frame::Data(&bytes).message(id)?)?;
            channel.write(Frame::Taken.message(id)?)?;
        }
    }
}
