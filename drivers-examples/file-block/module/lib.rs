//! The driver `file-block` as a loadable module.

fuchsine_driver::export!(fuchsine_file_block::DRIVER);
