//! [`Device`]: what the block protocol asks, done on the store.
//!
//! Requests come on an unsynchronized dispatcher, so any number run at once; the store's page locks keep them apart.
//! Each is done and answered within its call, and where the runtime calls inline that is on the thread of the client:
//! the data is copied once, between the client's message and the page.

use fuchsine_driver::Status;
use fuchsine_driver::block::{BlockInfo, BlockRequest, Op};
use parking_lot::RwLock;

use crate::config::Geometry;
use crate::store::{OutOfMemory, Store};

/// The device behind all its clients.
#[derive(Debug)]
pub(crate) struct Device {
    store: Store,
    block_size: u32,
    /// True until the contents are to be saved: a change after that would be lost. Requests hold it for reading while
    /// they run, so that closing waits for those that were let in.
    is_open: RwLock<bool>,
}

impl Device {
    pub(crate) fn new(store: Store, geometry: Geometry) -> Self {
        Self { store, block_size: geometry.block_size, is_open: RwLock::new(true) }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// How the device describes itself: memory that can be trimmed, and that keeps nothing without power.
    pub(crate) fn info(&self) -> BlockInfo {
        BlockInfo::new(self.store.size(), self.block_size)
    }

    /// Refuses all requests from now on, and waits for those that are being done: a few copies at most.
    ///
    /// # Thread requirements
    /// A thread that may block for so long, such as one of a work lane.
    pub(crate) fn close(&self) {
        *self.is_open.write() = false;
    }

    /// Does what is asked and answers.
    pub(crate) fn handle(&self, mut request: BlockRequest) {
        let outcome = self.perform(&mut request);
        request.reply(outcome);
    }

    fn perform(&self, request: &mut BlockRequest) -> Result<(), Status> {
        let is_open = self.is_open.read();
        if !*is_open {
            return Err(Status::Unavailable);
        }
        let (offset, length) = (request.offset(), u64::from(request.length()));
        let written = match request.op() {
            Op::Read => {
                self.store.read(offset, request.data_mut());
                Ok(())
            }
            Op::Write => self.store.write(offset, request.data()),
            Op::WriteZeroes if request.keeps_space() => self.store.zero_in_place(offset, length),
            Op::Trim | Op::WriteZeroes => {
                self.store.discard(offset, length);
                Ok(())
            }
            // Memory has nothing behind it to which it could be flushed.
            Op::Flush => Ok(()),
            _ => return Err(Status::NotSupported),
        };
        written.map_err(|OutOfMemory| Status::NoMemory)
    }
}
