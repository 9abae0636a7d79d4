//! Tests across the packages of Fuchsine: promises, real clients, faults, tidy.
