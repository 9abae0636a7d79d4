//! The sources of this workspace as data, for the checks in `tests/tidy.rs`.
//!
//! Purpose: rules about the code itself (which module may name which, where `unsafe` may stand) are checked on
//! tokens, so that a word in a comment or a string never counts and a path split over lines does.
//!
//! What a path begins with is resolved as the compiler does it: `crate::` is the root, `super::` climbs from the
//! module that the file and its inline `mod` blocks make, and groups in `use` are opened.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A text file of the workspace.
#[derive(Debug)]
pub struct SourceFile {
    /// The path from the root of the workspace, with `/` between its parts.
    pub path: String,
    /// The contents.
    pub text: String,
}

/// A name right under the root of a crate, as some path in a file mentions it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The name: a module, or something that the root re-exports.
    pub name: String,
    /// The line of the mention.
    pub line: usize,
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is a folder of the workspace").to_owned()
}

/// All text files of the workspace: everything but build products, version control and what is not UTF-8.
pub fn files() -> Vec<SourceFile> {
    let mut files = Vec::new();
    collect(&root(), "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The Rust files of the workspace.
pub fn rust_files() -> Vec<SourceFile> {
    files().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace can be read").flatten() {
        let name = entry.file_name().into_string().expect("file names are UTF-8");
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("the kind of an entry is known");
        let skipped = ["target", "book", ".git"].contains(&name.as_str());
        if skipped {
            // A build may have put anything there. In a linked worktree `.git` is a file, which names a path.
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.push(SourceFile { path, text });
        }
    }
}

impl SourceFile {
    /// The tokens of a Rust file.
    ///
    /// # Panics
    /// When it is none.
    pub fn tokens(&self) -> TokenStream {
        self.text.parse().unwrap_or_else(|error| panic!("{} is not Rust: {error}", self.path))
    }

    /// Lines on which the identifier `word` stands, if what follows it there is `wanted`.
    pub fn lines_with(&self, word: &str, wanted: impl Fn(Option<&TokenTree>) -> bool) -> Vec<usize> {
        let mut lines = Vec::new();
        find_word(self.tokens(), word, &wanted, &mut lines);
        lines
    }

    /// Lines on which the macro `name` is called.
    pub fn calls_of_macro(&self, name: &str) -> Vec<usize> {
        self.lines_with(name, |next| is_mark(next, '!'))
    }

    /// What the paths in this file mention right under the root of its crate; `module` is the module path of the
    /// file, empty for the root itself.
    pub fn root_mentions(&self, module: &[&str]) -> Vec<Mention> {
        let mut mentions = Vec::new();
        let module: Vec<String> = module.iter().map(|&name| name.to_owned()).collect();
        walk(self.tokens(), &module, &mut mentions);
        mentions
    }
}

fn find_word(tokens: TokenStream, word: &str, wanted: &impl Fn(Option<&TokenTree>) -> bool, lines: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if ident == word && wanted(tokens.get(index + 1)) => {
                lines.push(ident.span().start().line);
            }
            TokenTree::Group(group) => find_word(group.stream(), word, wanted, lines),
            _ => {}
        }
    }
}

/// Whether a token is that punctuation mark.
pub fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// Goes through one level of tokens inside the module `module`.
fn walk(tokens: TokenStream, module: &[String], mentions: &mut Vec<Mention>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut index = 0;
    while index < tokens.len() {
        match &tokens[index] {
            TokenTree::Ident(ident) if ident == "mod" => {
                // `mod name { … }` makes a module; `mod name;` is another file's business.
                if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
                    (tokens.get(index + 1), tokens.get(index + 2))
                {
                    let inner: Vec<String> = module.iter().cloned().chain([name.to_string()]).collect();
                    walk(body.stream(), &inner, mentions);
                    index += 2;
                }
            }
            TokenTree::Ident(ident) if (ident == "crate" || ident == "super") && is_path_sep(&tokens, index + 1) => {
                index = resolve(&tokens, index, module, mentions);
                continue;
            }
            TokenTree::Group(group) => walk(group.stream(), module, mentions),
            _ => {}
        }
        index += 1;
    }
}

/// Resolves the path that starts at `index` with `crate` or `super`, and returns where to go on reading.
fn resolve(tokens: &[TokenTree], mut index: usize, module: &[String], mentions: &mut Vec<Mention>) -> usize {
    let mut base = module.to_vec();
    loop {
        match &tokens.get(index) {
            Some(TokenTree::Ident(ident)) if *ident == "crate" => base.clear(),
            Some(TokenTree::Ident(ident)) if *ident == "super" => {
                base.pop();
            }
            Some(TokenTree::Ident(ident)) => {
                let name = base.first().cloned().unwrap_or_else(|| ident.to_string());
                mentions.push(Mention { name, line: ident.span().start().line });
                return index + 1;
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                open_group(group.stream(), &base, mentions);
                return index + 1;
            }
            // A glob names whatever is there: all of the root, or all of a module.
            Some(TokenTree::Punct(mark)) if mark.as_char() == '*' => {
                let name = base.first().cloned().unwrap_or_else(|| "*".to_owned());
                mentions.push(Mention { name, line: mark.span().start().line });
                return index + 1;
            }
            _ => return index + 1,
        }
        if !is_path_sep(tokens, index + 1) {
            return index + 1;
        }
        index += 3;
    }
}

/// The entries of a `{…}` in a `use`, each of which continues the path `base`.
fn open_group(tokens: TokenStream, base: &[String], mentions: &mut Vec<Mention>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for entry in tokens.split(|token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',')) {
        if !entry.is_empty() {
            resolve(entry, 0, base, mentions);
        }
    }
}

fn is_path_sep(tokens: &[TokenTree], index: usize) -> bool {
    let colon = |index: usize, spacing: Option<Spacing>| {
        matches!(tokens.get(index), Some(TokenTree::Punct(mark))
            if mark.as_char() == ':' && spacing.is_none_or(|spacing| mark.spacing() == spacing))
    };
    colon(index, Some(Spacing::Joint)) && colon(index + 1, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentioned(module: &[&str], text: &str) -> Vec<String> {
        let file = SourceFile { path: "test.rs".to_owned(), text: text.to_owned() };
        file.root_mentions(module).into_iter().map(|mention| mention.name).collect()
    }

    #[test]
    fn each_way_to_write_a_path_from_the_root_is_seen() {
        assert_eq!(mentioned(&["pool"], "use crate::sync::Arc;"), ["sync"]);
        assert_eq!(mentioned(&["pool"], "use crate::{sync::Arc, time::{Instant, Clock}};"), ["sync", "time"]);
        assert_eq!(
            mentioned(&["pool"], "fn f() { crate::runtime::g(); h!(crate::status::Status) }"),
            ["runtime", "status"]
        );
        assert_eq!(mentioned(&["pool"], "use super::runtime::X;"), ["runtime"]);
        assert_eq!(mentioned(&["pool", "role"], "use super::X; use super::super::runtime::Y;"), ["pool", "runtime"]);
        assert_eq!(
            mentioned(&["pool"], "mod tests { use super::*; use super::super::channel::C; }"),
            ["pool", "channel"]
        );
        assert_eq!(mentioned(&["pool"], "use crate::*;"), ["*"]);
        assert_eq!(mentioned(&["pool"], "use {crate::sync::A, super::time::B};"), ["sync", "time"]);
    }

    #[test]
    fn comments_strings_and_visibility_are_no_paths() {
        assert!(mentioned(&["pool"], "// crate::runtime\n/* super::runtime */ pub(crate) fn f() {}").is_empty());
        assert!(
            mentioned(&["pool"], "const S: &str = \"crate::runtime::x\"; pub(in crate::pool) struct X;") == ["pool"]
        );
    }

    #[test]
    fn a_word_is_found_as_a_token_only() {
        let file = SourceFile {
            path: "test.rs".to_owned(),
            text: "// unsafe\nconst S: &str = \"unsafe\";\nfn f() {\n    unsafe { g() }\n}\nfn h() { panic!() }"
                .to_owned(),
        };
        assert_eq!(file.lines_with("unsafe", |_| true), [4]);
        assert_eq!(file.calls_of_macro("panic"), [6]);
        assert!(file.lines_with("panic", |next| is_mark(next, '?')).is_empty());
    }
}
