//! [`Device`]: what the block protocol asks, done on the store by worker threads.
//!
//! A request goes to the slow lane and is answered from there, by whoever did it, so an answer takes no second way through
//! the driver's dispatcher. As many requests run at once as the lane has threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuchsine_driver::block::{BlockInfo, BlockRequest, Op};
use fuchsine_driver::{Dispatcher, DriverContext, Lane, OffloadError, Status, StopToken};

use crate::store::Store;

/// The device behind all its clients.
#[derive(Debug)]
pub(crate) struct Device {
    cx: DriverContext,
    store: Store,
    block_size: u32,
    read_only: bool,
    /// How many requests the system has failed; read by anyone, as a figure.
    failures: AtomicU64,
}

impl Device {
    pub(crate) fn new(cx: DriverContext, store: Store, block_size: u32, read_only: bool) -> Self {
        Self { cx, store, block_size, read_only, failures: AtomicU64::new(0) }
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

    /// Has a worker thread do what is asked and answer.
    pub(crate) fn handle(self: &Arc<Self>, on: &Dispatcher, request: BlockRequest) {
        let device = Arc::clone(self);
        let work = move |stop: &StopToken| device.serve(request, stop);
        let cx = self.cx.clone();
        let done = move |outcome: Result<(), OffloadError>| {
            if let Err(OffloadError::Panicked(what)) = outcome {
                cx.fail(Status::Internal, format_args!("a request panicked: {what}"));
            }
        };
        // Refused or canceled: the driver is being stopped. The request is dropped then, which answers it.
        let _ = on.offload(Lane::Slow, work, done);
    }

    fn serve(&self, mut request: BlockRequest, stop: &StopToken) {
        let outcome = self.perform(&mut request, stop);
        if let Err(error) = &outcome {
            self.tell(&request, error);
        }
        request.reply(outcome.map_err(|error| status_of(&error)));
    }

    fn perform(&self, request: &mut BlockRequest, stop: &StopToken) -> io::Result<()> {
        let (offset, length) = (request.offset(), u64::from(request.length()));
        match request.op() {
            Op::Read => self.store.read(offset, request.data_mut())?,
            Op::Write => self.store.write(offset, request.data())?,
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
