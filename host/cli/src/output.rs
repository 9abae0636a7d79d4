//! Standard output. Whoever reads it may be gone, which is no reason to fail: a host goes on serving, and a listing has
//! said what anybody wanted to hear.

use std::io::{self, Write};

/// Writes text on standard output, at once.
pub(crate) fn write(text: &str) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        tracing::debug!(%error, "nobody reads the standard output");
    }
}
