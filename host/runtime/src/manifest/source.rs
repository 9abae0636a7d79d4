//! Where configuration comes from: a file, the built-in manifest or a `--set` argument, and places inside of it.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What kind of text a [`Source`] is; it decides how a place in it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A manifest file, at this path.
    File(PathBuf),
    /// A manifest that is no file, such as the built-in one; the text names it.
    Named(String),
    /// The value of one `--set` argument.
    Override,
}

/// One text that configuration was read from. Cheap to clone: places keep it alive for their messages.
#[derive(Debug, Clone)]
pub struct Source(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kind: SourceKind,
    text: String,
}

impl Source {
    /// The manifest file at `path`, whose content is `text`.
    pub fn file(path: impl Into<PathBuf>, text: impl Into<String>) -> Source {
        Source::new(SourceKind::File(path.into()), text.into())
    }

    /// A manifest that is no file; `name` is what messages call it.
    pub fn named(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source::new(SourceKind::Named(name.into()), text.into())
    }

    /// The text of one `--set` argument.
    pub fn override_argument(text: impl Into<String>) -> Source {
        Source::new(SourceKind::Override, text.into())
    }

    fn new(kind: SourceKind, text: String) -> Source {
        Source(Arc::new(Inner { kind, text }))
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The folder that relative paths in this source are relative to: that of a manifest file, and otherwise none
    /// (such paths are relative to the working directory of the process).
    pub fn folder(&self) -> Option<&Path> {
        match &self.0.kind {
            SourceKind::File(path) => path.parent().filter(|folder| !folder.as_os_str().is_empty()),
            SourceKind::Named(_) | SourceKind::Override => None,
        }
    }

    /// A path that is written in this source, from the folder that it counts from.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        self.folder().map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
    }

    /// What has this name beside the manifest file; `None` for what is no file.
    pub(crate) fn beside(&self, name: &str) -> Option<PathBuf> {
        match &self.0.kind {
            SourceKind::File(path) => Some(path.with_file_name(name)),
            SourceKind::Named(_) | SourceKind::Override => None,
        }
    }

    pub(crate) fn is_override(&self) -> bool {
        self.0.kind == SourceKind::Override
    }

    /// A place in this source. Spans that reach past the end (which a parser may give for "end of file") are clipped.
    pub(crate) fn place(&self, span: Range<usize>) -> Place {
        let end = span.end.min(self.text().len());
        Place { source: self.clone(), span: span.start.min(end)..end }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            SourceKind::File(path) => path.display().fmt(f),
            SourceKind::Named(name) => f.write_str(name),
            SourceKind::Override => f.write_str("--set"),
        }
    }
}

/// A stretch of a [`Source`]. Displays as `file:line:column`, counted from 1, columns in characters.
#[derive(Debug, Clone)]
pub struct Place {
    source: Source,
    span: Range<usize>,
}

/// The line that a [`Place`] begins on.
pub(crate) struct Line<'a> {
    pub(crate) number: usize,
    pub(crate) text: &'a str,
    /// Characters of the line in front of the place.
    pub(crate) before: usize,
    /// Characters of the place on this line, at least 1.
    pub(crate) marked: usize,
}

impl Place {
    /// The source that this is a place in.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.excerpt().number
    }

    /// The column, in characters, from 1.
    pub fn column(&self) -> usize {
        self.excerpt().before + 1
    }

    /// Where it begins, in bytes: what places of one source are sorted by.
    pub(crate) fn start(&self) -> usize {
        self.span.start
    }

    pub(crate) fn excerpt(&self) -> Line<'_> {
        let text = self.source.text();
        let start = floor_char_boundary(text, self.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor_char_boundary(text, self.span.end.clamp(start, line_end));
        let line = text[line_start..line_end].trim_end_matches('\r');
        Line {
            number: text[..start].matches('\n').count() + 1,
            text: line,
            before: text[line_start..start].chars().count(),
            marked: text[start..end].trim_end().chars().count().max(1),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.excerpt();
        write!(f, "{}:{}:{}", self.source, line.number, line.before + 1)
    }
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let source = Source::named("m", "a = 1\nß = \"ü\" # x\n");
        let at = source.text().find("\"ü\"").unwrap();
        let place = source.place(at..at + 4);
        assert_eq!(place.to_string(), "m:2:5");
        assert_eq!(place.excerpt().marked, 3);
    }

    #[test]
    fn a_place_at_or_past_the_end_is_on_the_last_line() {
        let source = Source::named("m", "a = 1\r\nb =");
        assert_eq!(source.place(10..10).to_string(), "m:2:4");
        assert_eq!(source.place(99..120).to_string(), "m:2:4");
        assert_eq!(source.place(0..1).excerpt().text, "a = 1");
        assert_eq!(Source::named("m", "").place(0..0).to_string(), "m:1:1");
    }

    #[test]
    fn a_place_over_several_lines_marks_its_first_one() {
        let source = Source::named("m", "a = [\n 1,\n]\n");
        let place = source.place(4..11);
        assert_eq!(place.excerpt().marked, 1);
        assert_eq!(place.line(), 1);
    }
}
