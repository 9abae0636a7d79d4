//! [`Site`]: where in the sources something comes from that was posted, registered or made.
//!
//! One word, so that it costs a callback no more than the address that the compiler gives for its caller. For code that
//! the compiler gives no address for, behind a C interface or in another language, that code names a [`CallSite`].
//!
//! # Invariants
//! - The word is the address of a `Location<'static>`, or that of a `CallSite` that lives for ever with its lowest bit set.
//!   Both types are aligned to more than one byte, so that bit is never part of an address.

#![allow(unsafe_code, reason = "reads what a word with a tag points to; the head of the module says what that is")]

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::ptr::NonNull;

/// A place in the sources that is told rather than found out: by a host for its drivers, by a binding for its language.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{CallSite, Site};
///
/// static READS_SENSOR: CallSite = CallSite::new("thermometer.c", 41, 0, "on_sample");
/// assert_eq!(Site::of(&READS_SENSOR).to_string(), "thermometer.c:41");
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CallSite {
    file: &'static str,
    type_name: &'static str,
    line: u32,
    column: u32,
}

impl CallSite {
    /// A line of a file; `column` is 0 where there is none. `type_name` is what the callback is called that is posted
    /// there: a type, a function.
    pub const fn new(file: &'static str, line: u32, column: u32, type_name: &'static str) -> Self {
        CallSite { file, type_name, line, column }
    }
}

/// Where something was posted, registered or made: a line of a file, as [`posted_from`](crate::PendingDump::posted_from)
/// of a dump.
///
/// The functions of this crate find out who calls them. The ones that end in `_from` are told by a `Site` instead:
/// they are for hosts and bindings, which post for code of others, so that dumps, traces and reports name that code.
/// Two are equal if they are the same place.
#[derive(Clone, Copy)]
pub struct Site(NonNull<()>);

// SAFETY: by the invariant it is a shared reference to one of two types that are `Sync` and live for ever.
unsafe impl Send for Site {}
// SAFETY: as above.
unsafe impl Sync for Site {}

const TAG: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > TAG && align_of::<CallSite>() > TAG);

enum Told {
    Caller(&'static Location<'static>),
    Site(&'static CallSite),
}

impl Site {
    /// Where the function that calls this is called, if it says `#[track_caller]`; else where it calls this.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::Site;
    /// assert_eq!(Site::caller().line(), line!());
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn caller() -> Self {
        Site::from(Location::caller())
    }

    /// A place that is told.
    #[inline]
    pub fn of(site: &'static CallSite) -> Self {
        Site(NonNull::from(site).cast::<()>().map_addr(|address| address | TAG))
    }

    #[inline]
    fn told(self) -> Told {
        if self.0.addr().get() & TAG == 0 {
            // SAFETY: by the invariant a word without the tag is the address of a location that lives for ever.
            return Told::Caller(unsafe { self.0.cast().as_ref() });
        }
        let site = self.0.as_ptr().map_addr(|address| address & !TAG).cast::<CallSite>();
        // SAFETY: by the invariant a word with the tag is, without it, the address of a call site that lives for ever.
        Told::Site(unsafe { &*site })
    }

    /// The file, as the compiler was given it.
    pub fn file(&self) -> &'static str {
        match self.told() {
            Told::Caller(location) => location.file(),
            Told::Site(site) => site.file,
        }
    }

    /// The line; 0 where there is none.
    pub fn line(&self) -> u32 {
        match self.told() {
            Told::Caller(location) => location.line(),
            Told::Site(site) => site.line,
        }
    }

    /// The column; 0 where there is none.
    pub fn column(&self) -> u32 {
        match self.told() {
            Told::Caller(location) => location.column(),
            Told::Site(site) => site.column,
        }
    }

    /// What the callback is called that comes from here, if that was told: a name that says more than the type of the
    /// closure that stands for it.
    pub fn type_name(&self) -> Option<&'static str> {
        match self.told() {
            Told::Caller(_) => None,
            Told::Site(site) => Some(site.type_name),
        }
    }
}

impl From<&'static Location<'static>> for Site {
    #[inline(always)]
    fn from(location: &'static Location<'static>) -> Self {
        Site(NonNull::from(location).cast())
    }
}

impl Site {
    fn place(&self) -> (&'static str, u32, u32) {
        (self.file(), self.line(), self.column())
    }
}

impl PartialEq for Site {
    fn eq(&self, other: &Site) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Site {}

impl PartialOrd for Site {
    fn partial_cmp(&self, other: &Site) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Site {
    fn cmp(&self, other: &Site) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl Hash for Site {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place().hash(state);
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())?;
        match (self.line(), self.column()) {
            (0, _) => Ok(()),
            (line, 0) => write!(f, ":{line}"),
            (line, column) => write!(f, ":{line}:{column}"),
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Site({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SITE: CallSite = CallSite::new("lamp.c", 7, 3, "on_switch");
    static NO_COLUMN: CallSite = CallSite::new("lamp.c", 7, 0, "");
    static NO_LINE: CallSite = CallSite::new("lamp.c", 0, 0, "");

    #[test]
    fn a_caller_is_found_out_and_a_call_site_is_told() {
        let (here, line) = (Site::caller(), line!());
        assert_eq!((here.file(), here.line(), here.type_name()), (file!(), line, None));
        assert_eq!(here.to_string(), format!("{}:{line}:{}", file!(), here.column()));
        let told = Site::of(&SITE);
        assert_eq!((told.file(), told.line(), told.column(), told.type_name()), ("lamp.c", 7, 3, Some("on_switch")));
        assert_eq!((told.to_string(), format!("{told:?}")), ("lamp.c:7:3".to_owned(), "Site(lamp.c:7:3)".to_owned()));
        assert_eq!([&NO_COLUMN, &NO_LINE].map(|site| Site::of(site).to_string()), ["lamp.c:7", "lamp.c"]);
    }

    #[test]
    fn two_sites_are_equal_if_they_are_the_same_place() {
        static AGAIN: CallSite = CallSite::new("lamp.c", 7, 3, "another name");
        assert_eq!(Site::of(&SITE), Site::of(&AGAIN));
        assert_ne!(Site::of(&SITE), Site::of(&NO_COLUMN));
        assert!(Site::of(&NO_LINE) < Site::of(&NO_COLUMN));
        let hash = |site: Site| {
            let mut hasher = std::collections::hash_map::DefaultHasher::new();
            site.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(Site::of(&SITE)), hash(Site::of(&AGAIN)));
        assert_ne!(Site::caller(), Site::of(&SITE));
    }
}
