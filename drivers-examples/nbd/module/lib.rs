//! The driver `nbd` as a loadable module.

fuchsine_driver::export!(fuchsine_nbd::DRIVER);
