//! The driver `misbehaver` as a loadable module.

fuchsine_driver::export!(fuchsine_misbehaver::DRIVER);
