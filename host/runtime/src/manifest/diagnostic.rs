//! What is wrong with a configuration, where, and what to do: [`Diagnostic`] and the list of them that a check returns.

use std::fmt;

use super::source::{Line, Place};

/// So many mistakes of one text are told. Whoever has more made the first of them again and again.
const MAX_TOLD: usize = 100;

/// So many characters of a line are shown.
const MAX_SHOWN: usize = 160;

/// One thing that is wrong with a configuration.
///
/// Displays as one line, `file:line:column: message`; [`render`](Diagnostic::render) adds the line itself with the
/// place marked, and the help.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    message: String,
    place: Option<Place>,
    help: Vec<String>,
    is_warning: bool,
}

impl Diagnostic {
    pub(crate) fn at(place: Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), place: Some(place), help: Vec::new(), is_warning: false }
    }

    pub(crate) fn general(message: impl Into<String>) -> Diagnostic {
        Diagnostic { message: message.into(), place: None, help: Vec::new(), is_warning: false }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help.push(help.into());
        self
    }

    pub(crate) fn warning(mut self) -> Diagnostic {
        self.is_warning = true;
        self
    }

    /// Whether it keeps nothing from running.
    pub fn is_warning(&self) -> bool {
        self.is_warning
    }

    /// What is wrong, in one sentence, with the suggestion if there is one.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where, unless the whole configuration is meant (a file that cannot be read, say).
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// What to do, one sentence each.
    pub fn helps(&self) -> &[String] {
        &self.help
    }

    /// The message with the line that it is about, as a compiler shows it. Ends without a line break.
    pub fn render(&self) -> String {
        let mut out = format!("{}: {}", if self.is_warning { "warning" } else { "error" }, self.message);
        let Some(place) = &self.place else {
            for help in &self.help {
                out.push_str(&format!("\n  = help: {help}"));
            }
            return out;
        };
        let line = place.excerpt();
        let (number, shown) = (line.number.to_string(), Shown::of(&line));
        let margin = " ".repeat(number.len());
        // Tabs stay tabs in front of the marks, so that those stand below what they mark whatever a tab's width is.
        let indent: String =
            shown.text.chars().take(shown.before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        out.push_str(&format!("\n{margin}--> {place}\n{margin} |\n{number} | {}", shown.text));
        out.push_str(&format!("\n{margin} | {indent}{}", "^".repeat(shown.marked)));
        for help in &self.help {
            out.push_str(&format!("\n{margin} = help: {help}"));
        }
        out
    }
}

/// What is shown of a line: all of it, or the part around the place if it is long.
struct Shown {
    text: String,
    before: usize,
    marked: usize,
}

impl Shown {
    fn of(line: &Line<'_>) -> Shown {
        let length = line.text.chars().count();
        if length <= MAX_SHOWN {
            return Shown { text: line.text.to_owned(), before: line.before, marked: line.marked };
        }
        let first = line.before.saturating_sub(MAX_SHOWN / 2);
        let (left, right) = (if first > 0 { "…" } else { "" }, if first + MAX_SHOWN < length { "…" } else { "" });
        let part: String = line.text.chars().skip(first).take(MAX_SHOWN).collect();
        let before = line.before - first;
        Shown {
            text: format!("{left}{part}{right}"),
            before: before + left.chars().count(),
            marked: line.marked.min(MAX_SHOWN - before),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// What is wrong with a configuration, in the order of its text; never empty. Of a text with very many mistakes, the first
/// hundred and how many more there are.
#[derive(Debug, Clone)]
pub struct ManifestError(Vec<Diagnostic>);

impl ManifestError {
    /// `Ok(value)` if nothing was found, else the error.
    pub(crate) fn unless_empty<T>(mut diagnostics: Vec<Diagnostic>, value: T) -> Result<T, ManifestError> {
        if diagnostics.is_empty() {
            return Ok(value);
        }
        let more = diagnostics.len().saturating_sub(MAX_TOLD);
        if more > 0 {
            diagnostics.truncate(MAX_TOLD);
            diagnostics.push(Diagnostic::general(format!("there are {more} more mistakes")));
        }
        Err(ManifestError(diagnostics))
    }

    /// What was found before, if anything was, and this.
    pub(crate) fn joined(before: Option<ManifestError>, error: ManifestError) -> ManifestError {
        match before {
            Some(before) => before.and(error),
            None => error,
        }
    }

    /// The diagnostics.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.0
    }

    /// Both errors as one.
    pub fn and(mut self, other: ManifestError) -> ManifestError {
        self.0.extend(other.0);
        self
    }

    /// All diagnostics as a compiler shows them, with an empty line between them.
    pub fn render(&self) -> String {
        self.0.iter().map(Diagnostic::render).collect::<Vec<_>>().join("\n\n")
    }
}

impl From<Diagnostic> for ManifestError {
    fn from(diagnostic: Diagnostic) -> Self {
        ManifestError(vec![diagnostic])
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, diagnostic) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ManifestError {}
