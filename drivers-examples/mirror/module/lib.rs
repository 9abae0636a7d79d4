//! The driver `mirror` as a loadable module.

fuchsine_driver::export!(fuchsine_mirror::DRIVER);
