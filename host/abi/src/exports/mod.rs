//! The functions that C calls, one file a header.
//!
//! `functions!` declares a group of them once. From that come the exported symbols, the group's part of the
//! [`Table`](crate::table::Table), and the library's own entry of it, which calls the function of the same name in
//! `crate::implementation` and keeps panics on this side.
//!
//! # Invariants
//! - An exported function does nothing by itself but call through the table: what is promised of a pointer that it takes
//!   is used by the implementation, and said there and in the header.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::types::zx_status_t;

pub mod arena;
pub mod asynchronous;
pub mod channel;
pub mod dispatcher;
pub mod env;
pub mod testing;
pub mod token;
pub mod zx;

/// What a function returns that panicked.
pub(crate) trait Fallback {
    /// The value, if there is one that says so.
    fn after_panic() -> Option<Self>
    where
        Self: Sized;
}

impl Fallback for zx_status_t {
    fn after_panic() -> Option<Self> {
        Some(crate::status::ZX_ERR_INTERNAL)
    }
}

/// Functions that return no status have nothing to say it with.
macro_rules! no_fallback {
    ($($ty:ty),*) => {
        $(impl Fallback for $ty {
            fn after_panic() -> Option<Self> {
                None
            }
        })*
    };
}
no_fallback!((), bool, u32, i64, usize);

impl<T> Fallback for *const T {
    fn after_panic() -> Option<Self> {
        None
    }
}

impl<T> Fallback for *mut T {
    fn after_panic() -> Option<Self> {
        None
    }
}

/// Runs an implementation and keeps its panic here.
pub(crate) fn guard<R: Fallback>(name: &str, function: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(value) => value,
        Err(_) => match R::after_panic() {
            Some(value) => {
                tracing::error!(function = name, "panicked; its caller is told ZX_ERR_INTERNAL");
                value
            }
            None => crate::implementation::die(name, "panicked, and has no status to say so with"),
        },
    }
}

/// Declares a group of functions: `functions! { GroupName in field_of_table, module_of_implementation { fn ...; } }`.
macro_rules! functions {
    (
        $(#[$group_doc:meta])*
        $group:ident in $field:ident, $module:ident {
            $( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?; )*
        }
    ) => {
        $(#[$group_doc])*
        #[repr(C)]
        #[derive(Debug)]
        pub struct $group {
            $( $(#[$doc])* pub $name: unsafe extern "C" fn($($arg: $ty),*) $(-> $ret)?, )*
        }

        impl $group {
            /// The library's own functions.
            pub(crate) const OWN: $group = $group { $($name: own::$name,)* };
        }

        /// The library's own entries of the table.
        mod own {
            use super::*;
            $(
                pub(super) unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
                    $crate::exports::guard(stringify!($name), || {
                        // SAFETY: the caller keeps the promises of the header, which are those of the implementation.
                        unsafe { $crate::implementation::$module::$name($($arg),*) }
                    })
                }
            )*
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the header says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller keeps the promises of the header; every table is complete.
                unsafe { ($crate::table::table().$field.$name)($($arg),*) }
            }
        )*
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_the_status_internal() {
        let status: zx_status_t = guard("a_function", || panic!("on purpose"));
        assert_eq!(status, crate::status::ZX_ERR_INTERNAL);
    }
}
