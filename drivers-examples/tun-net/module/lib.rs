//! The driver `tun-net` as a loadable module.

fuchsine_driver::export!(fuchsine_tun_net::DRIVER);
