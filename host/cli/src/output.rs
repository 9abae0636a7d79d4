//! Standard output. Whoever reads it may be gone, which is no reason to fail: a host goes on serving, and a listing has
//! said what anybody wanted to hear. A full disk is one: somebody counts on what was to be written.

use std::io::{self, Write};

use crate::exit::Exit;

/// Writes text on standard output, at once.
///
/// # Errors
/// Why it is not all there, although somebody may still want it.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
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
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
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
