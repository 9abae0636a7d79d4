//! Goal: what cannot be is refused with what to do, before anything of the machine is touched.
//! Method: the harness. What needs an interface is tested in a network namespace, by `tests/tests/tun_net.rs`.

use fuchsine_driver::DriverEntry;
use fuchsine_testing::{ForegroundRuntime, Harness, Place, Problem};

static DRIVER: DriverEntry = fuchsine_tun_net::DRIVER;

#[test]
fn a_configuration_that_cannot_be_is_told_by_its_key() {
    for place in [Place::Foreground(&ForegroundRuntime::new()), Place::Threads] {
        for (config, told) in [
            ("interface = \"a name\"", "`interface` is \"a name\""),
            ("addresses = \"10.77.0.2\"", "`addresses` has \"10.77.0.2\""),
            ("addresses = []", "`addresses` has 0"),
            ("echo_port = 0", "`echo_port` is 0"),
            ("connections = -1", "`connections`"),
            ("mtu = 100", "`mtu` is 100: it must be 1280 to 9000"),
        ] {
            let error = Harness::builder(&DRIVER).config(config).start(place).map(|_| ()).expect_err(config);
            let Problem::NotStarted { reason, .. } = error else { panic!("{config}: {error}") };
            assert!(reason.contains(told), "{config}: {reason}");
        }
    }
}
