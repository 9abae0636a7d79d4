//! `lib/fdf/env.h`: what a driver host calls.

use crate::exports::functions;
use crate::types::zx_status_t;

functions! {
    /// The functions of `lib/fdf/env.h`.
    EnvFunctions in env, env {
        /// Starts the runtime and its default pool.
        fn fdf_env_start(options: u32) -> zx_status_t;
        /// Ends the runtime and joins all its threads.
        fn fdf_env_reset();
    }
}
