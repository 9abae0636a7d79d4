//! Example driver: a block device held in memory.
