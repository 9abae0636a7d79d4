//! What a Fuchsine driver is written against: handles over a table of C functions.
