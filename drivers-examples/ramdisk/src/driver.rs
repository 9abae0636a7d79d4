//! The driver: what it declares, how it starts and how it stops.

use std::path::PathBuf;
use std::sync::Arc;

use fuchsine_driver::block::BlockServer;
use fuchsine_driver::{
    Child, ChildNode, ConfigKey, ConfigKind, DispatcherOptions, Driver, DriverContext, Lane, OffloadError, StartError,
    Status, StopError, StopToken,
};

use crate::config::Config;
use crate::device::Device;
use crate::image::{self, ImageError, Loaded};
use crate::store::Store;

/// A block device held in memory.
#[derive(Debug)]
pub struct Ramdisk {
    cx: DriverContext,
    device: Arc<Device>,
    image: Option<PathBuf>,
    _child: Child,
}

impl Driver for Ramdisk {
    const NAME: &'static str = "ramdisk";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "a block device held in memory";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::optional("size", ConfigKind::Size, "64MiB", "size of the device; a multiple of block_size"),
        ConfigKey::optional("block_size", ConfigKind::Size, "512", "a power of two from 512 bytes to 64 KiB"),
        ConfigKey::optional("image", ConfigKind::Path, "", "a file to load at start and to save to at stop"),
    ];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        let image = config.image();
        let geometry = config.geometry().map_err(|error| StartError::new(Status::InvalidArgs, error))?;
        let mut store = Store::new(geometry.size);
        if let Some(path) = image.clone() {
            store = load(&cx, path, store).await?;
        }
        let device = Arc::new(Device::new(store, geometry));
        // Unsynchronized: requests of different clients run side by side, as far as they touch different pages.
        let dispatcher = cx.new_dispatcher(DispatcherOptions::new("ramdisk i/o").unsynchronized())?;
        let (served, log, on) = (device.clone(), cx.logger(), dispatcher.clone());
        let accept = move |channel| {
            let device = served.clone();
            let serving = BlockServer::new(channel, device.info())
                .map_err(|_| Status::Internal)
                .and_then(|server| server.serve(&on, move |request| device.handle(request)));
            if let Err(status) = serving {
                log.warn(format_args!("a client cannot be served: {status}"));
            }
        };
        let node = ChildNode::new("ramdisk").property("protocol", "block").service("block", accept);
        let child = cx.add_child(node.dispatcher(&dispatcher))?;
        Ok(Self { cx, device, image, _child: child })
    }

    /// All drivers bound to the child have stopped by now, as children stop first; whoever else has a channel is refused
    /// from when the image is saved.
    async fn prepare_stop(&self) -> Result<(), StopError> {
        let Some(path) = self.image.clone() else { return Ok(()) };
        let log = self.cx.logger();
        let (device, target) = (self.device.clone(), path.clone());
        let work = move |stop: &StopToken| {
            device.close();
            image::save(&target, device.store(), &|| stop.is_stopping())
        };
        let saved = self.cx.dispatcher().offload_async(Lane::Slow, work).await;
        // The host logs why a stop failed; a line here would be the second one.
        settled(saved).map_err(|(status, message)| StopError::new(status, message))?;
        log.info(format_args!("saved the image {}", path.display()));
        Ok(())
    }
}

async fn load(cx: &DriverContext, path: PathBuf, store: Store) -> Result<Store, StartError> {
    let from = path.clone();
    let work = move |stop: &StopToken| {
        let loaded = image::load(&from, &store, &|| stop.is_stopping())?;
        // Better now than after a day of work that is lost then.
        image::check_that_it_can_be_saved(&from)?;
        Ok((store, loaded))
    };
    let loaded = cx.dispatcher().offload_async(Lane::Slow, work).await;
    let (store, loaded) = settled(loaded).map_err(|(status, message)| StartError::new(status, message))?;
    match loaded {
        Loaded::Bytes(bytes) => {
            cx.logger().info(format_args!("loaded {bytes} bytes from the image {}", path.display()))
        }
        Loaded::Absent => {
            cx.logger().info(format_args!("there is no image {} yet; the stop creates it", path.display()));
        }
    }
    Ok(store)
}

/// The result of image work, with one form for all that can be wrong.
fn settled<T>(outcome: Result<Result<T, ImageError>, OffloadError>) -> Result<T, (Status, String)> {
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err((error.status(), error.to_string())),
        Err(error) => Err((error.status(), format!("the image could not be worked on: {error}"))),
    }
}
