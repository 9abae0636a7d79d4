//! The driver `ramdisk` as a loadable module.

fuchsine_driver::export!(fuchsine_ramdisk::DRIVER);
