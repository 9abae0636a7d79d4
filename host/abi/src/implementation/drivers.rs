//! Drivers as C knows them: by a pointer that is never followed.
//!
//! A driver begins with its first dispatcher, and is over when all its dispatchers were shut down by
//! `fdf_env_shutdown_dispatchers_async` and destroyed. Then the pointer may name another one.

use std::collections::HashMap;
use std::ffi::c_void;

use fuchsine_dispatcher::{Driver, DriverId, Runtime};

/// The pointer that C names a driver by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DriverKey(usize);

impl DriverKey {
    /// `None` for the null pointer.
    pub(crate) fn new(driver: *const c_void) -> Option<DriverKey> {
        (!driver.is_null()).then(|| DriverKey(driver.addr()))
    }

    pub(crate) fn as_pointer(self) -> *const c_void {
        std::ptr::with_exposed_provenance(self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    ShuttingDown,
    Over,
}

#[derive(Debug)]
struct Entry {
    driver: Driver,
    /// The same driver in the runtime of unmanaged dispatchers, once it has one.
    unmanaged: Option<Driver>,
    /// How many of its dispatchers C has made and not destroyed.
    dispatchers: usize,
    phase: Phase,
}

/// Why a driver is not to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Unknown,
    ShuttingDown,
}

/// All drivers that C knows.
#[derive(Debug, Default)]
pub(crate) struct Drivers {
    entries: HashMap<DriverKey, Entry>,
    keys: HashMap<DriverId, DriverKey>,
}

impl Drivers {
    fn entry(&mut self, key: DriverKey, runtime: &Runtime) -> &mut Entry {
        let keys = &mut self.keys;
        self.entries.entry(key).or_insert_with(|| {
            let driver = runtime.new_driver(format!("{:p}", key.as_pointer()));
            keys.insert(driver.id(), key);
            Entry { driver, unmanaged: None, dispatchers: 0, phase: Phase::Open }
        })
    }

    /// The driver of this name, which begins now if there is none.
    pub(crate) fn get_or_new(&mut self, key: DriverKey, runtime: &Runtime) -> Driver {
        self.entry(key, runtime).driver.clone()
    }

    /// The driver of this name.
    pub(crate) fn get(&self, key: DriverKey) -> Option<Driver> {
        self.entries.get(&key).map(|entry| entry.driver.clone())
    }

    /// Counts a dispatcher that is about to be made.
    pub(crate) fn begin_dispatcher(&mut self, key: DriverKey, runtime: &Runtime) -> Result<Driver, Refused> {
        let entry = self.entry(key, runtime);
        if entry.phase != Phase::Open {
            return Err(Refused::ShuttingDown);
        }
        entry.dispatchers += 1;
        Ok(entry.driver.clone())
    }

    #[cfg(feature = "testing")]
    /// Like [`begin_dispatcher`](Drivers::begin_dispatcher), for an unmanaged one in a runtime of its own.
    pub(crate) fn begin_unmanaged(
        &mut self,
        key: DriverKey,
        runtime: &Runtime,
        unmanaged: &Runtime,
    ) -> Result<Driver, Refused> {
        self.begin_dispatcher(key, runtime)?;
        let entry = self.entry(key, runtime);
        let driver = entry.unmanaged.get_or_insert_with(|| unmanaged.new_driver(format!("{:p}", key.as_pointer())));
        let driver = driver.clone();
        self.keys.insert(driver.id(), key);
        Ok(driver)
    }

    /// A dispatcher was destroyed, or was not made after all.
    pub(crate) fn end_dispatcher(&mut self, key: DriverKey) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.dispatchers -= 1;
        }
        self.forget_if_over(key);
    }

    /// What there is to shut down, once.
    pub(crate) fn begin_shutdown(&mut self, key: DriverKey) -> Result<Vec<Driver>, Refused> {
        let entry = self.entries.get_mut(&key).ok_or(Refused::Unknown)?;
        if entry.phase != Phase::Open {
            return Err(Refused::ShuttingDown);
        }
        entry.phase = Phase::ShuttingDown;
        Ok(entry.unmanaged.iter().chain([&entry.driver]).cloned().collect())
    }

    pub(crate) fn end_shutdown(&mut self, key: DriverKey) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.phase = Phase::Over;
        }
        self.forget_if_over(key);
    }

    fn forget_if_over(&mut self, key: DriverKey) {
        let is_over = |entry: &Entry| entry.phase == Phase::Over && entry.dispatchers == 0;
        if self.entries.get(&key).is_some_and(is_over)
            && let Some(entry) = self.entries.remove(&key)
        {
            self.keys.remove(&entry.driver.id());
            if let Some(unmanaged) = entry.unmanaged {
                self.keys.remove(&unmanaged.id());
            }
        }
    }

    /// What C calls a driver.
    pub(crate) fn key_of(&self, driver: &Driver) -> Option<DriverKey> {
        self.keys.get(&driver.id()).copied()
    }
}
