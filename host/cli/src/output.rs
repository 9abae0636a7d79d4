//! Standard output. Whoever reads it may be gone, which is no reason to fail: a host goes on serving, and a listing has
//! said what anybody wanted to hear. A full disk is one: somebody counts on what was to be written.
//!
//! What is written comes from manifests, modules, drivers and other hosts as well, none of which has a say over the terminal
//! of whoever reads it.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::exit::Exit;

/// The text without what moves the cursor, changes colours or titles, or rings a bell: such characters are spelled out.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(commands) {
        return Cow::Borrowed(text);
    }
    let spelled = |c: char| if commands(c) { c.escape_unicode().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(spelled).collect())
}

/// Writes text on standard output, at once.
///
/// # Errors
/// Why it is not all there, although somebody may still want it.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(plain(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// As [`write()`], for output that goes on: here a reader that has gone ends it.
///
/// # Errors
/// As `write`, and `BrokenPipe`.
pub(crate) fn write_or_end(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(plain(text).as_bytes()).and_then(|()| stdout.flush())
}

/// Writes the whole output of a command.
pub(crate) fn finish(text: &str) -> Exit {
    match write(text) {
        Ok(()) => Exit::Done,
        Err(error) => {
            // A closed standard error leaves nobody to tell.
            let _ = writeln!(io::stderr(), "error: cannot write on the standard output: {error}");
            Exit::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_commands_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\r\0\u{9b}c"), "a\\u{1b}[31mb\\u{d}\\u{0}\\u{9b}c");
        assert!(matches!(plain("two\nlines, a\ttab, ü"), Cow::Borrowed(_)));
    }
}
