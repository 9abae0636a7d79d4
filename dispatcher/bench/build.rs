//! With the feature `libuv`: compiles the peer that is written in C, with the system's compiler and libuv.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=peers/libuv.c");
    println!("cargo::rerun-if-env-changed=CC");
    if env::var_os("CARGO_FEATURE_LIBUV").is_none() {
        return;
    }
    let folder = env::var_os("OUT_DIR").expect("Cargo says where to build to");
    let program = Path::new(&folder).join("libuv-peer");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built = Command::new(&compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "peers/libuv.c", "-luv", "-lpthread", "-o"])
        .arg(&program)
        .status();
    match built {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{compiler} failed ({status}): install libuv's headers (Debian: libuv1-dev)"),
        Err(error) => panic!("{compiler} cannot be started: {error}"),
    }
    println!("cargo::rustc-env=FUCHSINE_LIBUV_PEER={}", program.display());
}
