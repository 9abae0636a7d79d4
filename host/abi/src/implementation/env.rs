//! The environment: the runtime of this process.

use std::time::Duration;

use fuchsine_dispatcher::{Runtime, RuntimeBuilder};
use parking_lot::Mutex;

use super::die;
use crate::status::{ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, ZX_OK};
use crate::types::{FDF_ENV_DYNAMIC_THREAD_SPAWNING, FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES, zx_status_t};

/// How long a reset waits for threads that do not come to their end, before it says so and ends the process.
const PATIENCE: Duration = Duration::from_secs(60);

static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

struct Environment {
    runtime: Runtime,
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_start(options: u32) -> zx_status_t {
    let mut environment = ENVIRONMENT.lock();
    if environment.is_some() {
        return ZX_ERR_BAD_STATE;
    }
    if options & !(FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES | FDF_ENV_DYNAMIC_THREAD_SPAWNING) != 0 {
        return ZX_ERR_INVALID_ARGS;
    }
    let mut builder = RuntimeBuilder::new().name("fdf");
    if options & FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES != 0 {
        builder = builder.enforce_allowed_roles();
    }
    if options & FDF_ENV_DYNAMIC_THREAD_SPAWNING != 0 {
        builder = builder.dynamic_threads();
    }
    match builder.build() {
        Ok(runtime) => {
            *environment = Some(Environment { runtime });
            ZX_OK
        }
        Err(error) => {
            tracing::error!(%error, "the environment was not started");
            error.status().as_raw()
        }
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_reset() {
    let Some(environment) = ENVIRONMENT.lock().take() else { return };
    if let Err(error) = environment.runtime.shutdown(PATIENCE) {
        die("fdf_env_reset", &error.to_string());
    }
}
