//! [`bring_up`]: gives a leg that was away, or is new, what it has missed.
//!
//! From its first piece on, every change goes to that leg too. A piece is copied while nobody writes to it, so what was
//! copied stays right; what is ahead is copied later. Last, its label says that it is like the others.

use std::sync::Arc;

use fuchsine_driver::Status;
use fuchsine_driver::block::{BlockBuffer, Flags};

use crate::array::{Array, Attached};
use crate::label::Condition;

/// How much is copied at once. A write to the same place waits for so much.
const PIECE: u64 = 256 << 10;

/// Why a leg has not got everything.
enum Failed {
    /// The leg failed.
    Leg(Status),
    /// Nobody is left who has everything, or the mirror is being closed.
    Source(Status),
}

/// Copies everything to a leg that was attached, and has it be one of the good ones.
pub(crate) async fn bring_up(array: Arc<Array>, leg: Attached) {
    let name = array.state.lock().legs[leg.at].name.clone();
    let log = array.cx.logger();
    log.info(format_args!("the leg `{name}` is copied to"));
    match copy(&array, &leg).await {
        Ok(()) => log.info(format_args!("the leg `{name}` has everything")),
        Err(Failed::Leg(status)) => array.lose(&leg, status),
        Err(Failed::Source(Status::Unavailable | Status::Canceled)) => {}
        Err(Failed::Source(status)) => {
            log.error(format_args!(
                "the leg `{name}` could not be copied to, as there is nothing to copy from: {status}"
            ));
            array.lose(&leg, status);
        }
    }
}

async fn copy(array: &Array, leg: &Attached) -> Result<(), Failed> {
    let label = async |condition| {
        let block = array.block_of(&array.label(condition)).map_err(Failed::Source)?;
        leg.client.write(leg.label_at, block, Flags::FUA).await.map_err(Failed::Leg)
    };
    // Until the end it is no leg to start from.
    label(Condition::Copying).await?;
    let size = array.info.size;
    let piece = PIECE.min(u64::from(array.info.max_transfer));
    let mut at = 0;
    while at < size {
        let length = piece.min(size - at);
        let taken = array.take(at..at + length).await.map_err(Failed::Source)?;
        let data = array.read(at, length as u32).await.map_err(Failed::Source)?;
        let write = |data: BlockBuffer| leg.client.write(at, data, Flags::NONE);
        write(data).await.map_err(Failed::Leg)?;
        drop(taken);
        at += length;
    }
    leg.client.flush().await.map_err(Failed::Leg)?;
    loop {
        if array.state.lock().is_closed {
            return Err(Failed::Source(Status::Unavailable));
        }
        let generation = array.state.lock().generation;
        label(Condition::Open).await?;
        if array.promote(leg, generation) {
            return Ok(());
        }
        if !array.is_attached(leg) {
            return Err(Failed::Leg(Status::PeerClosed));
        }
    }
}
