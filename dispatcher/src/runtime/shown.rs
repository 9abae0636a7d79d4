//! Names as they are shown to people: in one line, and not longer than that. Names themselves are kept whole.

use std::fmt::{self, Display, Formatter, Write};

/// More of a name is not shown.
const MOST_SHOWN: usize = 80;

/// A name that may be anything, in one line.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut left = self.0.chars();
        for shown in left.by_ref().take(MOST_SHOWN) {
            match shown {
                '"' | '\\' => write!(f, "\\{shown}")?,
                _ if shown.is_control() => write!(f, "{}", shown.escape_default())?,
                _ => f.write_char(shown)?,
            }
        }
        if left.as_str().is_empty() { Ok(()) } else { f.write_char('…') }
    }
}

/// A name in quotes.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Shown(self.0))
    }
}
