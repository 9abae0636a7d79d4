//! One connection from the handshake to its end.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use fuchsine_driver::net::Stream;
use fuchsine_driver::{Instant, Logger, Status, timeout};

use crate::device::Device;
use crate::end::End;
use crate::negotiate::negotiate;
use crate::patience::{Exhausted, Patience};
use crate::seats::Seat;
use crate::server::Server;
use crate::session::Session;
use crate::transmit::Transmission;

/// Serves a client until the connection is over, and says in the log why it is.
pub(crate) async fn serve(server: Arc<Server>, stream: Stream, mut seat: Seat, log: Logger) {
    log.debug("connected");
    let end = match run(&server, &stream, &mut seat).await {
        Ok(end) | Err(end) => end,
    };
    log.log(end.level(), format_args!("closed: {end}"), &[]);
    // The socket is closed before the seat is given back, so that who waits for the last seat finds no socket open.
    drop(stream);
    drop(seat);
}

async fn run(server: &Server, stream: &Stream, seat: &mut Seat) -> Result<End, End> {
    let handshake = negotiate(stream, &server.export);
    let first = match server.timeouts.handshake {
        Some(limit) => until_stop(seat, timeout(limit, handshake)).await?.map_err(|status| match status {
            Status::TimedOut => End::Exhausted(Exhausted::Handshake(limit)),
            other => End::Socket(other),
        })??,
        None => until_stop(seat, handshake).await??,
    };
    // A connection costs the device nothing until its client has chosen the export.
    let channel = until_stop(seat, server.node.connect("block")).await?.map_err(End::DeviceGone)?;
    let session = Session::new(server.export.clone(), server.limits, &server.budget);
    let patience = Patience::new(server.timeouts, Instant::now());
    // Boxed: a connection that never gets here, of which there may be thousands, shall not carry the room for it.
    let transmission = Transmission::new(stream, seat, Device::new(channel), session, patience, first);
    Ok(Box::pin(transmission.run()).await)
}

/// The future's output, unless the server stops first.
async fn until_stop<F: Future>(seat: &mut Seat, future: F) -> Result<F::Output, End> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if seat.poll_stop(cx).is_ready() {
            return Poll::Ready(Err(End::Stopped { unfinished: 0 }));
        }
        future.as_mut().poll(cx).map(Ok)
    })
    .await
}
