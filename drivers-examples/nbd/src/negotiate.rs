//! The handshake over a real (or simulated) stream.

use fuchsine_driver::net::Stream;

use crate::end::End;
use crate::protocol::Export;
use crate::protocol::handshake::{Handshake, Progress, greeting};

/// Negotiates until the client has chosen the export; returns what it has sent of the next phase.
///
/// # Errors
/// The [`End`] of the connection.
pub(crate) async fn negotiate(stream: &Stream, export: &Export) -> Result<Vec<u8>, End> {
    stream.write_all(&greeting()).await.map_err(End::Socket)?;
    let mut handshake = Handshake::new();
    let mut replies = Vec::new();
    let mut buffer = [0; 256];
    loop {
        let count = stream.read(&mut buffer).await.map_err(End::Socket)?;
        if count == 0 {
            return Err(End::Left { within_request: false });
        }
        let mut input = &buffer[..count];
        while !input.is_empty() {
            replies.clear();
            let progress = handshake.feed(&mut input, export, &mut replies)?;
            // Sent before the next option is looked at: see `Handshake`.
            stream.write_all(&replies).await.map_err(End::Socket)?;
            match progress {
                Progress::NeedsInput | Progress::Answered => {}
                Progress::Transmission => return Ok(input.to_vec()),
                Progress::Aborted => return Err(End::Disconnected),
            }
        }
    }
}
