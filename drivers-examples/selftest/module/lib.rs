//! The driver `selftest` as a loadable module.

fuchsine_driver::export!(fuchsine_selftest::DRIVER);
