//! The drivers that a host knows.

use fuchsine_driver::abi::DriverEntry;

use crate::manifest::{default_value, is_name};

/// The drivers that are linked into the program, by name.
///
/// # Examples
/// ```
/// use fuchsine_host::Registry;
///
/// let registry = Registry::new([])?;
/// assert!(registry.get("ramdisk").is_none());
/// # Ok::<(), fuchsine_host::RegistryError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Registry(Vec<&'static DriverEntry>);

/// Why a driver cannot be registered. A mistake of whoever builds the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("driver `{driver}`: {reason}")]
pub struct RegistryError {
    driver: String,
    reason: String,
}

impl Registry {
    /// Registers drivers.
    ///
    /// # Errors
    /// The first driver that was built for another interface, has a name that cannot be used or is taken, or declares
    /// a default that its own key does not accept.
    pub fn new(drivers: impl IntoIterator<Item = &'static DriverEntry>) -> Result<Registry, RegistryError> {
        let mut registry = Registry::default();
        for entry in drivers {
            // Before the header is known to fit, nothing else of the entry may be read.
            entry.check().map_err(|reason| RegistryError { driver: String::from("?"), reason })?;
            let refuse = |reason: String| RegistryError { driver: entry.name().to_owned(), reason };
            if !is_name(entry.name()) {
                return Err(refuse("the name may have letters, digits, `-` and `_` only".into()));
            }
            if registry.get(entry.name()).is_some() {
                return Err(refuse("there are two drivers of this name".into()));
            }
            for key in entry.config() {
                default_value(key).map_err(|why| refuse(format!("the default of `{}` is wrong: {why}", key.name())))?;
            }
            registry.0.push(entry);
        }
        Ok(registry)
    }

    /// The driver of this name.
    pub fn get(&self, name: &str) -> Option<&'static DriverEntry> {
        self.0.iter().copied().find(|entry| entry.name() == name)
    }

    /// All drivers, in the order in which they were registered.
    pub fn iter(&self) -> impl Iterator<Item = &'static DriverEntry> {
        self.0.iter().copied()
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.iter().map(DriverEntry::name)
    }
}
