//! The drivers that are linked into the command.

use fuchsine_host::{DriverEntry, Registry};

static RAMDISK: DriverEntry = fuchsine_ramdisk::DRIVER;
static NBD: DriverEntry = fuchsine_nbd::DRIVER;

/// All of them.
///
/// # Panics
/// Never in a build whose tests passed: they call it.
pub(crate) fn registry() -> Registry {
    Registry::new([&RAMDISK, &NBD]).unwrap_or_else(|error| panic!("the built-in drivers do not fit: {error}"))
}

#[cfg(test)]
mod tests {
    use fuchsine_host::Manifest;

    use super::*;

    #[test]
    fn the_built_in_manifest_fits_the_built_in_drivers() {
        let plan = Manifest::built_in().plan(&registry()).map_err(|error| error.render()).unwrap();
        let names: Vec<_> = plan.drivers().iter().map(|driver| driver.name()).collect();
        assert_eq!(names, ["ramdisk", "nbd"]);
    }
}
