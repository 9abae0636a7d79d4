//! `lib/fdf/token.h`.

use crate::exports::functions;
use crate::types::{fdf_dispatcher_t, fdf_handle_t, fdf_token_t, zx_handle_t, zx_status_t};

functions! {
    /// The functions of `lib/fdf/token.h`.
    TokenFunctions in token, token {
        /// Waits for the handle that is transferred to this token's peer.
        fn fdf_token_register(
            token: zx_handle_t,
            dispatcher: *mut fdf_dispatcher_t,
            handler: *mut fdf_token_t,
        ) -> zx_status_t;
        /// Takes a handle that has been transferred.
        fn fdf_token_receive(token: zx_handle_t, handle: *mut fdf_handle_t) -> zx_status_t;
        /// Gives a handle to whoever has the peer of a token.
        fn fdf_token_transfer(token: zx_handle_t, handle: fdf_handle_t) -> zx_status_t;
    }
}
