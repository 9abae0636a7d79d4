//! The drivers `pty-serial` and `serial-echo` as a loadable module.

fuchsine_driver::export!(fuchsine_pty_serial::DRIVER, fuchsine_pty_serial::ECHO);
