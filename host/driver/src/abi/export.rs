//! [`export!`](crate::export), which makes a library of drivers a loadable module.
//!
//! # Invariants
//! - The symbol is [`MODULE_SYMBOL`](super::MODULE_SYMBOL), and its type is that which hosts take it for.
//! - The section holds one whole note and nothing else; both are made from the same drivers.

/// Makes this crate a loadable module with these drivers.
///
/// It belongs into a crate of its own, of type `cdylib`, that depends on the library with the driver and has this one
/// line: a program that links several drivers in can have such a symbol only once.
///
/// # Examples
/// ```
/// // In the library `lamp`:
/// # mod lamp {
/// use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};
///
/// pub struct Lamp;
/// impl Driver for Lamp {
///     const NAME: &'static str = "lamp";
///     async fn start(_cx: DriverContext) -> Result<Self, StartError> {
///         Ok(Lamp)
///     }
/// }
///
/// pub const DRIVER: DriverEntry = DriverEntry::of::<Lamp>();
/// # }
///
/// // All of the crate that makes it a module:
/// fuchsine_driver::export!(lamp::DRIVER);
/// ```
#[macro_export]
macro_rules! export {
    ($($driver:path),+ $(,)?) => {
        const _: () = {
            const DRIVERS: &[$crate::DriverEntry] = &[$($driver),+];

            #[used]
            #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".note.fuchsine"))]
            static NOTE: $crate::abi::Note<{ $crate::abi::Note::size(DRIVERS) }> = $crate::abi::Note::new(DRIVERS);

            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "the name of a symbol")]
            pub static fuchsine_module: $crate::abi::ModuleEntry = $crate::abi::ModuleEntry::new(DRIVERS);
        };
    };
}
