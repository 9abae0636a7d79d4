//! The status codes of `zircon/errors.h`, by their names there.

use fuchsine_dispatcher::Status;

use crate::types::zx_status_t;

/// Declares the codes, and the table that `zx_status_get_string` and the tests of the headers read.
macro_rules! codes {
    ($($name:ident = $value:literal;)*) => {
        $(#[doc = concat!("The status `", stringify!($name), "`.")] pub const $name: zx_status_t = $value;)*
        /// Every code with its name.
        pub const ALL: &[(&str, zx_status_t)] = &[$((stringify!($name), $value)),*];
    };
}

codes! {
    ZX_OK = 0;
    ZX_ERR_INTERNAL = -1;
    ZX_ERR_NOT_SUPPORTED = -2;
    ZX_ERR_NO_RESOURCES = -3;
    ZX_ERR_NO_MEMORY = -4;
    ZX_ERR_INTERNAL_INTR_RETRY = -6;
    ZX_ERR_INVALID_ARGS = -10;
    ZX_ERR_BAD_HANDLE = -11;
    ZX_ERR_WRONG_TYPE = -12;
    ZX_ERR_BAD_SYSCALL = -13;
    ZX_ERR_OUT_OF_RANGE = -14;
    ZX_ERR_BUFFER_TOO_SMALL = -15;
    ZX_ERR_BAD_STATE = -20;
    ZX_ERR_TIMED_OUT = -21;
    ZX_ERR_SHOULD_WAIT = -22;
    ZX_ERR_CANCELED = -23;
    ZX_ERR_PEER_CLOSED = -24;
    ZX_ERR_NOT_FOUND = -25;
    ZX_ERR_ALREADY_EXISTS = -26;
    ZX_ERR_ALREADY_BOUND = -27;
    ZX_ERR_UNAVAILABLE = -28;
    ZX_ERR_ACCESS_DENIED = -30;
    ZX_ERR_IO = -40;
    ZX_ERR_IO_REFUSED = -41;
    ZX_ERR_IO_DATA_INTEGRITY = -42;
    ZX_ERR_IO_DATA_LOSS = -43;
    ZX_ERR_IO_NOT_PRESENT = -44;
    ZX_ERR_IO_OVERRUN = -45;
    ZX_ERR_IO_MISSED_DEADLINE = -46;
    ZX_ERR_IO_INVALID = -47;
    ZX_ERR_BAD_PATH = -50;
    ZX_ERR_NOT_DIR = -51;
    ZX_ERR_NOT_FILE = -52;
    ZX_ERR_FILE_BIG = -53;
    ZX_ERR_NO_SPACE = -54;
    ZX_ERR_NOT_EMPTY = -55;
    ZX_ERR_STOP = -60;
    ZX_ERR_NEXT = -61;
    ZX_ERR_ASYNC = -62;
    ZX_ERR_PROTOCOL_NOT_SUPPORTED = -70;
    ZX_ERR_ADDRESS_UNREACHABLE = -71;
    ZX_ERR_ADDRESS_IN_USE = -72;
    ZX_ERR_NOT_CONNECTED = -73;
    ZX_ERR_CONNECTION_REFUSED = -74;
    ZX_ERR_CONNECTION_RESET = -75;
    ZX_ERR_CONNECTION_ABORTED = -76;
}

/// The code of a result without a value.
pub(crate) fn code(result: Result<(), impl Into<Status>>) -> zx_status_t {
    match result {
        Ok(()) => ZX_OK,
        Err(status) => status.into().as_raw(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_of_the_dispatchers_is_a_code_here_with_the_same_name() {
        for &status in Status::ALL {
            let (name, _) = ALL.iter().find(|(_, code)| *code == status.as_raw()).expect("the code is listed");
            let plain = name.trim_start_matches("ZX_ERR_").replace('_', "").to_lowercase();
            assert_eq!(plain, format!("{status:?}").to_lowercase(), "{name}");
        }
    }
}
