//! The driver: what it declares, how it starts and how it stops.

use std::sync::Arc;

use fuchsine_driver::block::BlockServer;
use fuchsine_driver::{
    Child, ChildNode, ConfigKey, ConfigKind, DispatcherOptions, Driver, DriverContext, Lane, StartError, Status,
    StopError, StopToken,
};

use crate::backing::{self, Backing, Origin};
use crate::config::Config;
use crate::device::Device;
use crate::store::Store;

/// A block device on a file.
#[derive(Debug)]
pub struct FileBlock {
    cx: DriverContext,
    device: Arc<Device>,
    read_only: bool,
    _child: Child,
}

impl Driver for FileBlock {
    const NAME: &'static str = "file-block";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "a block device on a file";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::required("path", ConfigKind::Path, "the file"),
        ConfigKey::optional("size", ConfigKind::Size, "0", "size of the device; 0: that of the file, which must exist"),
        ConfigKey::optional("block_size", ConfigKind::Size, "512", "a power of two from 512 bytes to 64 KiB"),
        ConfigKey::optional("read_only", ConfigKind::Boolean, "false", "whether nothing of the file may be changed"),
    ];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        let wanted = config.wanted().map_err(|error| StartError::new(Status::InvalidArgs, error))?;
        let (block_size, read_only) = (wanted.block_size, wanted.read_only);
        let opened = cx.dispatcher().offload_async(Lane::Slow, move |_stop: &StopToken| backing::open(&wanted)).await?;
        let backing = opened.map_err(|error| StartError::new(error.status(), error))?;
        tell(&cx, &backing);
        let device = Arc::new(Device::new(cx.clone(), Store::new(backing.file, backing.size), block_size, read_only));
        // Unsynchronized: all that its callbacks do is to hand requests on.
        let dispatcher = cx.new_dispatcher(DispatcherOptions::new("file i/o").unsynchronized())?;
        let (served, log, on) = (device.clone(), cx.logger(), dispatcher.clone());
        let accept = move |channel| {
            let (device, handing) = (served.clone(), on.clone());
            let serving = BlockServer::new(channel, device.info())
                .map_err(|_| Status::Internal)
                .and_then(|server| server.serve(&on, move |request| device.handle(&handing, request)));
            if let Err(status) = serving {
                log.warn(format_args!("a client cannot be served: {status}"));
            }
        };
        let node = ChildNode::new("disk").property("protocol", "block").service("block", accept);
        let child = cx.add_child(node.dispatcher(&dispatcher))?;
        Ok(Self { cx, device, read_only, _child: child })
    }

    /// All drivers bound to the child have stopped by now, as children stop first. Not every client flushes before it
    /// leaves, so the device does.
    async fn prepare_stop(&self) -> Result<(), StopError> {
        if self.read_only {
            return Ok(());
        }
        let device = Arc::clone(&self.device);
        let flush = move |_stop: &StopToken| device.store().flush();
        let flushed = self.cx.dispatcher().offload_async(Lane::Slow, flush).await?;
        flushed.map_err(|error| StopError::from(error).context("the last flush of the file failed"))
    }

    /// Nothing of the driver runs any more, so the next one may have the file.
    async fn stop(self) -> Result<(), StopError> {
        self.device.store().release().map_err(|error| StopError::from(error).context("the lock of the file stays"))
    }
}

fn tell(cx: &DriverContext, backing: &Backing) {
    let (log, path, size) = (cx.logger(), backing.path.display(), backing.size);
    match backing.origin {
        Origin::Found => log.info(format_args!("serves the {size} bytes of {path}")),
        Origin::Made => log.info(format_args!("made {path}, with {size} bytes")),
        Origin::Grown(from) => log.info(format_args!("made {path} longer, from {from} to {size} bytes")),
    }
}
