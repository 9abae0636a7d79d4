//! What a harness shares with the fake drivers around the driver under test.
//!
//! A driver is made by the host from its entry alone, so the fakes find their harness by a number in their configuration.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use fuchsine_driver::{Channel, Status};
use parking_lot::Mutex;

/// Called with the server end of each connection to a service of the fake parent, on the parent's dispatcher.
pub(crate) type Accept = Arc<dyn Fn(Channel) + Send + Sync>;

/// See the head of the file.
pub(crate) struct Hub {
    pub(crate) number: u64,
    pub(crate) node: String,
    pub(crate) properties: Vec<(String, String)>,
    /// The services of the fake parent; those without a handler wait in `arrived`.
    pub(crate) services: Vec<(String, Option<Accept>)>,
    pub(crate) state: Mutex<HubState>,
}

#[derive(Default)]
pub(crate) struct HubState {
    /// Connections that nobody has taken yet, by the name of the service.
    pub(crate) arrived: BTreeMap<String, VecDeque<Channel>>,
    /// Fake children that are bound, by the name of their node.
    pub(crate) children: BTreeMap<String, fuchsine_driver::DriverContext>,
    /// How the attempts of fake children to connect ended, by their numbers.
    pub(crate) connected: BTreeMap<u64, Result<Channel, Status>>,
    pub(crate) attempts: u64,
    /// Log lines of the driver under test.
    pub(crate) lines: Vec<String>,
}

type Hubs = Mutex<BTreeMap<u64, Weak<Hub>>>;

fn hubs() -> &'static Hubs {
    static HUBS: OnceLock<Hubs> = OnceLock::new();
    HUBS.get_or_init(Hubs::default)
}

impl Hub {
    /// A hub with a number, by which it is found until it is dropped.
    pub(crate) fn list(
        node: String,
        properties: Vec<(String, String)>,
        services: Vec<(String, Option<Accept>)>,
    ) -> Arc<Hub> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let hub = Arc::new(Hub { number, node, properties, services, state: Mutex::default() });
        hubs().lock().insert(hub.number, Arc::downgrade(&hub));
        hub
    }

    /// The hub with this number.
    pub(crate) fn find(number: u64) -> Option<Arc<Hub>> {
        hubs().lock().get(&number)?.upgrade()
    }

    /// What belongs to one run of the driver goes with it.
    pub(crate) fn forget(&self) {
        let mut state = self.state.lock();
        let gone = (std::mem::take(&mut state.arrived), std::mem::take(&mut state.children));
        let connected = std::mem::take(&mut state.connected);
        drop(state);
        drop((gone, connected));
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        hubs().lock().remove(&self.number);
    }
}
