//! What a test says about the driver under test and the world around it.

use std::sync::Arc;

use fuchsine_driver::{Channel, DriverEntry};

use crate::harness::{Harness, Settings};
use crate::hub::{Accept, Hub};
use crate::place::Place;
use crate::problem::Problem;

/// Makes a [`Harness`].
///
/// # Examples
/// ```
/// # use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};
/// # struct Blinker;
/// # impl Driver for Blinker {
/// #     const NAME: &'static str = "blinker";
/// #     async fn start(cx: DriverContext) -> Result<Self, StartError> {
/// #         cx.logger().info(format_args!("blinks on pin {}", cx.node().property("pin").unwrap_or_default()));
/// #         Ok(Blinker)
/// #     }
/// # }
/// # static DRIVER: DriverEntry = DriverEntry::of::<Blinker>();
/// use fuchsine_testing::{ForegroundRuntime, Harness};
///
/// let runtime = ForegroundRuntime::new();
/// let harness = Harness::builder(&DRIVER).property("pin", "7").start(&runtime)?;
/// assert_eq!(harness.lines(), ["INFO blinker: blinks on pin 7"]);
/// harness.stop()?;
/// # Ok::<(), fuchsine_testing::Problem>(())
/// ```
#[must_use = "a builder does nothing until it starts the driver"]
pub struct HarnessBuilder {
    entry: &'static DriverEntry,
    config: String,
    node: String,
    properties: Vec<(String, String)>,
    services: Vec<(String, Option<Accept>)>,
    children: Option<Vec<(String, String)>>,
    threads: usize,
}

impl HarnessBuilder {
    pub(crate) fn new(entry: &'static DriverEntry) -> Self {
        HarnessBuilder {
            entry,
            config: String::new(),
            node: "test".to_owned(),
            properties: Vec::new(),
            services: Vec::new(),
            children: None,
            threads: 2,
        }
    }

    /// The driver's configuration, as a manifest has it: lines of TOML such as `size = "1MiB"`.
    pub fn config(mut self, toml: impl Into<String>) -> Self {
        self.config = toml.into();
        self
    }

    /// The name of the node that the fake parent offers; `test` if none is given.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = name.into();
        self
    }

    /// Adds a property of that node.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((key.into(), value.into()));
        self
    }

    /// Has the fake parent offer a service at that node. The test takes connections with [`Harness::accept`].
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.services.push((name.into(), None));
        self
    }

    /// Has the fake parent offer a service that a driver serves: `accept` gets each connection on the dispatcher of the
    /// fake parent, where it spawns a future or registers a read.
    pub fn serve(mut self, name: impl Into<String>, accept: impl Fn(Channel) + Send + Sync + 'static) -> Self {
        self.services.push((name.into(), Some(Arc::new(accept))));
        self
    }

    /// Binds a fake child to each node of the driver that has all of these properties; the test connects to services
    /// there with [`Harness::connect_child`].
    pub fn children<'a>(mut self, properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        self.children = Some(properties.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        self
    }

    /// How many threads there are in [`Place::Threads`]; 2 if it is not said.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Starts the driver and waits until it has started; time passes if it waits for that.
    ///
    /// # Errors
    /// [`Problem::Setup`] when configuration or names are wrong, [`Problem::NotStarted`] when the driver failed, was
    /// stopped meanwhile, or waits for what does not come. The driver is gone then.
    pub fn start<'rt>(self, place: impl Into<Place<'rt>>) -> Result<Harness<'rt>, Problem> {
        let settings = Settings {
            entry: self.entry,
            config: self.config,
            children: self.children,
            threads: self.threads,
            hub: Hub::list(self.node, self.properties, self.services),
        };
        Harness::start(Arc::new(settings), place.into())
    }
}

impl std::fmt::Debug for HarnessBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HarnessBuilder").field("driver", &self.entry.name()).finish_non_exhaustive()
    }
}
