//! A DFv1 driver as a driver of this host.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use fuchsine_driver::{BindProperty, ConfigKey, Driver, DriverContext, StartError, Status, StopError};

use crate::device::ParentDevice;
use crate::tree::Tree;

/// A driver of the older kind.
pub trait Dfv1: Send + Sync + 'static {
    /// The name of the driver, as manifests write it.
    const NAME: &'static str;
    /// The version of the driver.
    const VERSION: &'static str = "";
    /// What the driver does, in a sentence.
    const DOC: &'static str = "";
    /// The keys of its configuration.
    const CONFIG: &'static [ConfigKey] = &[];
    /// The properties that a device must all have for the driver to be bound to it.
    const BIND: &'static [BindProperty] = &[];

    /// Binds the driver to a device: adds at least one device on it.
    ///
    /// # Errors
    /// Why it cannot work there. Devices that were added are unbound and released.
    fn bind(parent: ParentDevice) -> impl Future<Output = Result<(), StartError>> + Send;
}

/// Runs a [`Dfv1`] driver: `DriverEntry::of::<Adapter<MyDriver>>()` is its entry.
pub struct Adapter<D> {
    tree: Arc<Tree>,
    driver: PhantomData<fn() -> D>,
}

impl<D> fmt::Debug for Adapter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("tree", &self.tree).finish()
    }
}

impl<D: Dfv1> Driver for Adapter<D> {
    const NAME: &'static str = D::NAME;
    const VERSION: &'static str = D::VERSION;
    const DOC: &'static str = D::DOC;
    const CONFIG: &'static [ConfigKey] = D::CONFIG;
    const BIND: &'static [BindProperty] = D::BIND;

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let tree = Tree::new(cx.clone());
        let bound = D::bind(ParentDevice { cx, tree: Arc::clone(&tree) }).await;
        let bound = bound.and_then(|()| match tree.has_added() {
            true => Ok(()),
            false => Err(StartError::new(Status::BadState, "its bind has added no device")),
        });
        if let Err(error) = bound {
            tree.remove_all().await;
            tree.release_kept();
            return Err(error);
        }
        tree.bound();
        Ok(Adapter { tree, driver: PhantomData })
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        self.tree.remove_all().await;
        Ok(())
    }

    async fn stop(self) -> Result<(), StopError> {
        self.tree.release_kept();
        Ok(())
    }
}
