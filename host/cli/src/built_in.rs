//! The drivers that are linked into the command, and where it finds others.

use fuchsine_host::{DriverEntry, ModulePath, Registry};

static RAMDISK: DriverEntry = fuchsine_ramdisk::DRIVER;
static NBD: DriverEntry = fuchsine_nbd::DRIVER;
static FILE_BLOCK: DriverEntry = fuchsine_file_block::DRIVER;
static MIRROR: DriverEntry = fuchsine_mirror::DRIVER;
static TUN_NET: DriverEntry = fuchsine_tun_net::DRIVER;
static PTY_SERIAL: DriverEntry = fuchsine_pty_serial::DRIVER;
static SERIAL_ECHO: DriverEntry = fuchsine_pty_serial::ECHO;

/// All of them, and the modules of the search path.
///
/// # Panics
/// Never in a build whose tests passed: they call it.
pub(crate) fn registry() -> Registry {
    let linked = Registry::new([&RAMDISK, &NBD, &FILE_BLOCK, &MIRROR, &TUN_NET, &PTY_SERIAL, &SERIAL_ECHO]);
    let linked = linked.unwrap_or_else(|error| panic!("the built-in drivers do not fit: {error}"));
    linked.with_modules(ModulePath::from_environment())
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
