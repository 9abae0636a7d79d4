//! [`Device`]: what the block protocol asks, done on the store.
//!
//! 1. A short read or write is done where it arrives, as far as that needs no waiting: what is in the page cache is read
//!    there, and a write of whole pages goes there while [`Pace`] allows. Where the runtime calls inline that is on the
//!    thread of the client.
//! 2. Everything else, and what is left of those, goes to the slow lane and is answered from there, by whoever did it, so an
//!    answer takes no second way through the driver's dispatcher. As many requests run at once as the lane has threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuchsine_driver::block::{BlockInfo, BlockRequest, Op};
use fuchsine_driver::{Dispatcher, DriverContext, Instant, Lane, OffloadError, Status, StopToken};

use crate::pace::{Busy, Pace};
use crate::store::Store;

/// Reads and writes up to this length are done in place: a copy of a few microseconds.
const SHORT: u32 = 64 << 10;

/// A write of parts of a page has to read the rest of it first. No page that Linux caches files in is smaller, and a bigger
/// one only makes such a read possible, not wrong.
const PAGE: u64 = 4096;

/// The device behind all its clients.
#[derive(Debug)]
pub(crate) struct Device {
    cx: DriverContext,
    store: Store,
    pace: Arc<Pace>,
    block_size: u32,
    read_only: bool,
    /// How many requests the system has failed; read by anyone, as a figure.
    failures: AtomicU64,
}

impl Device {
    pub(crate) fn new(cx: DriverContext, store: Store, block_size: u32, read_only: bool) -> Self {
        Self { cx, store, pace: Arc::new(Pace::new()), block_size, read_only, failures: AtomicU64::new(0) }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// How the device describes itself: it keeps what was flushed.
    pub(crate) fn info(&self) -> BlockInfo {
        let mut info = BlockInfo::new(self.store.size(), self.block_size);
        info.read_only = self.read_only;
        info.durable = true;
        info
    }

    /// Does what is asked and answers, or has a worker thread do so.
    pub(crate) fn handle(self: &Arc<Self>, on: &Dispatcher, mut request: BlockRequest) {
        match self.do_in_place(&mut request) {
            Ok(done) if done == request.length() as usize && done > 0 => request.reply(Ok(())),
            Ok(done) => self.hand_on(on, request, done),
            Err(error) => self.answer(request, Err(error)),
        }
    }

    /// How many bytes of a read or write could be dealt with here and now.
    fn do_in_place(&self, request: &mut BlockRequest) -> io::Result<usize> {
        let offset = request.offset();
        match request.op() {
            Op::Read if request.length() <= SHORT && !request.is_fua() => {
                Ok(self.store.read_at_once(offset, request.data_mut()))
            }
            Op::Write if is_short_write(request) => {
                let data = request.data();
                let done = self.store.write_at_once(offset, data)?;
                let (rest, end) = (&data[done..], offset + u64::from(request.length()));
                if rest.is_empty() || !offset.is_multiple_of(PAGE) || !end.is_multiple_of(PAGE) {
                    return Ok(done);
                }
                let Some(in_place) = self.pace.begin(Instant::now()) else { return Ok(done) };
                let written = self.store.write(offset + done as u64, rest);
                self.pace.end(in_place, Instant::now());
                written.map(|()| data.len())
            }
            _ => Ok(0),
        }
    }

    fn hand_on(self: &Arc<Self>, on: &Dispatcher, request: BlockRequest, done: usize) {
        let device = Arc::clone(self);
        // Short writes do not count as long: else, under steady load, those that wait for a worker would send all that
        // come after them the same way, for ever.
        let is_long = request.op() != Op::Read && !is_short_write(&request);
        let busy: Option<Busy> = is_long.then(|| self.pace.busy());
        let work = move |stop: &StopToken| {
            device.serve(request, done, stop);
            drop(busy);
        };
        let cx = self.cx.clone();
        let ended = move |outcome: Result<(), OffloadError>| {
            if let Err(OffloadError::Panicked(what)) = outcome {
                cx.fail(Status::Internal, format_args!("a request panicked: {what}"));
            }
        };
        // Refused or canceled: the driver is being stopped. The request is dropped then, which answers it.
        let _ = on.offload(Lane::Slow, work, ended);
    }

    /// What a worker does: all but the first `done` bytes.
    fn serve(&self, mut request: BlockRequest, done: usize, stop: &StopToken) {
        let outcome = self.perform(&mut request, done, stop);
        self.answer(request, outcome);
    }

    fn answer(&self, request: BlockRequest, outcome: io::Result<()>) {
        if let Err(error) = &outcome {
            self.tell(&request, error);
        }
        request.reply(outcome.map_err(|error| status_of(&error)));
    }

    fn perform(&self, request: &mut BlockRequest, done: usize, stop: &StopToken) -> io::Result<()> {
        let (offset, length) = (request.offset(), u64::from(request.length()));
        match request.op() {
            Op::Read => self.store.read(offset + done as u64, &mut request.data_mut()[done..])?,
            Op::Write => self.store.write(offset + done as u64, &request.data()[done..])?,
            Op::Trim => self.store.discard(offset, length)?,
            Op::WriteZeroes => self.store.zero(offset, length, request.keeps_space(), &|| stop.is_stopping())?,
            // With nothing to change there is nothing to flush, and a file may be open for reading alone.
            Op::Flush if self.read_only => {}
            Op::Flush => self.store.flush()?,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
        if request.is_fua() { self.store.flush() } else { Ok(()) }
    }

    /// A line for the first failure, and ever fewer for those after it: a full disk fails each write.
    fn tell(&self, request: &BlockRequest, error: &io::Error) {
        if error.kind() == io::ErrorKind::Interrupted {
            return;
        }
        let count = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            let what = match error.kind() {
                io::ErrorKind::UnexpectedEof => "somebody has cut the file off".to_owned(),
                _ => error.to_string(),
            };
            let log = self.cx.logger().with("op", format_args!("{:?}", request.op())).with("offset", request.offset());
            log.with("length", request.length())
                .with("failures", count)
                .error(format_args!("a request failed: {what}"));
        }
    }
}

/// One that ends in the page cache, and is copied there quickly.
fn is_short_write(request: &BlockRequest) -> bool {
    request.op() == Op::Write && request.length() <= SHORT && !request.is_fua()
}

/// What a client is told. What says nothing about its request is a failure of the device.
fn status_of(error: &io::Error) -> Status {
    match Status::from(error) {
        Status::FileBig => Status::NoSpace,
        status @ (Status::NoSpace | Status::NoMemory | Status::NotSupported) => status,
        _ if error.kind() == io::ErrorKind::Interrupted => Status::Canceled,
        _ => Status::Io,
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_client_is_told_what_concerns_its_request_and_else_that_the_device_failed() {
        for (error, status) in [
            (Errno::NOSPC.into(), Status::NoSpace),
            (Errno::DQUOT.into(), Status::NoSpace),
            (Errno::FBIG.into(), Status::NoSpace),
            (Errno::IO.into(), Status::Io),
            (io::ErrorKind::UnexpectedEof.into(), Status::Io),
            (io::ErrorKind::Interrupted.into(), Status::Canceled),
            (io::ErrorKind::Unsupported.into(), Status::NotSupported),
        ] {
            assert_eq!(status_of(&error), status, "{error}");
        }
    }
}
