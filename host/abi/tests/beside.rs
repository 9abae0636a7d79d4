//! Goal: an environment that a program has started is not taken over by a host.
//! Method: the exported functions, as C calls them, in a process of their own.
//!
//! # Invariants
//! - Every pointer that is handed in is null or a number.

use fuchsine_abi::exports::env::{fdf_env_reset, fdf_env_start};
use fuchsine_abi::host;
use fuchsine_abi::status::ZX_OK;
use fuchsine_dispatcher::{RuntimeBuilder, Status};

#[test]
#[allow(unsafe_code, reason = "the exported functions are called as C calls them")]
fn a_host_is_refused_beside_an_environment_until_that_has_ended() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
    // SAFETY: plain numbers.
    assert_eq!(unsafe { fdf_env_start(0) }, ZX_OK);
    assert_eq!(host::bind(&runtime).map(|_| ()), Err(Status::BadState));
    // SAFETY: nothing is needed.
    unsafe { fdf_env_reset() };
    assert!(host::bind(&runtime).is_ok());
    runtime.shutdown(std::time::Duration::from_secs(60)).expect("it shuts down");
}
