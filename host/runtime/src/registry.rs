//! The drivers that a host knows, and where it finds others.

use fuchsine_driver::abi::DriverEntry;

use crate::load::ModulePath;
use crate::manifest::{default_value, is_name};

/// The drivers that are linked into the program, by name, and where modules with others are looked for.
///
/// # Examples
/// ```
/// use fuchsine_host::{ModulePath, Registry};
///
/// let registry = Registry::new([])?.with_modules(ModulePath::new(["/srv/drivers"]));
/// assert!(registry.get("ramdisk").is_none());
/// # Ok::<(), fuchsine_host::RegistryError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Registry {
    linked: Vec<&'static DriverEntry>,
    modules: Option<ModulePath>,
}

/// Why a driver cannot be registered. A mistake of whoever builds the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("driver `{driver}`: {reason}")]
pub struct RegistryError {
    driver: String,
    reason: String,
}

impl Registry {
    /// Registers drivers. Modules are not looked for, unless a manifest names their files.
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
            check_entry(entry).map_err(refuse)?;
            if registry.get(entry.name()).is_some() {
                return Err(refuse("there are two drivers of this name".into()));
            }
            registry.linked.push(entry);
        }
        Ok(registry)
    }

    /// Has drivers that are not linked in looked for in modules of this path.
    #[must_use]
    pub fn with_modules(self, path: ModulePath) -> Registry {
        Registry { modules: Some(path), ..self }
    }

    /// Where modules are looked for; empty if they are not.
    pub fn modules(&self) -> ModulePath {
        self.modules.clone().unwrap_or_default()
    }

    pub(crate) fn takes_modules(&self) -> bool {
        self.modules.is_some()
    }

    /// The linked driver of this name.
    pub fn get(&self, name: &str) -> Option<&'static DriverEntry> {
        self.linked.iter().copied().find(|entry| entry.name() == name)
    }

    /// All linked drivers, in the order in which they were registered.
    pub fn iter(&self) -> impl Iterator<Item = &'static DriverEntry> {
        self.linked.iter().copied()
    }

    /// All their names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.iter().map(DriverEntry::name)
    }
}

/// Whether what a driver declares makes sense.
///
/// # Errors
/// What does not.
pub(crate) fn check_entry(entry: &'static DriverEntry) -> Result<(), String> {
    if !is_name(entry.name()) {
        return Err("the name may have letters, digits, `-` and `_` only".into());
    }
    for key in entry.config() {
        default_value(key).map_err(|why| format!("the default of `{}` is wrong: {why}", key.name()))?;
    }
    Ok(())
}
