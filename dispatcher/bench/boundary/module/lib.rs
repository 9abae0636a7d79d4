//! The drivers of the boundary bench as a loadable module.

fuchsine_driver::export!(fuchsine_boundary_drivers::ECHO, fuchsine_boundary_drivers::LOAD);
