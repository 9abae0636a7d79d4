//! The calls of the hooks in a source text: `probe::choose(…)`, `probe::point(…)`, `probe::note(…)`, `probe::note_some(…)`,
//! `probe::refuses(…)`, and those of the methods that only call these (`runtime/notes.rs`).

use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The text without its hooks, and how many there were. What is left stands where it stood, so that places in the
/// source keep their numbers: a call that is a statement becomes spaces, one whose value is used becomes that value.
/// `methods` are the names of methods that are hooks too; a call of one is a statement.
///
/// # Panics
/// When the text is not Rust, or a hook is called in a way that is not understood.
pub fn delete(text: &str, methods: &[String]) -> (String, usize) {
    let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("not Rust: {error}"));
    let mut found = Vec::new();
    collect(tokens, methods, &mut found);
    let mut left = text.to_owned();
    for (range, value) in &found {
        let blank: String = text[range.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        // From the last one to the first, so that what stands before is where it was.
        left.replace_range(range.clone(), &format!("{value}{}", &blank[value.len()..]));
    }
    (left, found.len())
}

/// The names of the functions that a text defines.
pub fn functions(text: &str) -> Vec<String> {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    words.windows(2).filter(|pair| pair[0] == "fn").map(|pair| pair[1].to_owned()).collect()
}

/// The calls below these tokens, the last one first, each with what stands for it.
fn collect(tokens: TokenStream, methods: &[String], found: &mut Vec<(Range<usize>, &'static str)>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = trees.len();
    while at > 0 {
        at -= 1;
        if let Some((start, value)) = call_that_ends_at(&trees, at, methods) {
            let is_statement = is_punct(trees.get(at + 1), ';') && begins_statement(&trees, start);
            let (last, value) = if is_statement { (at + 1, "") } else { (at, value) };
            found.push((trees[start].span().byte_range().start..trees[last].span().byte_range().end, value));
            at = start;
        } else if let TokenTree::Group(group) = &trees[at] {
            collect(group.stream(), methods, found);
        }
    }
}

/// If the group at `at` holds the arguments of a hook: where the path of the call begins, and its value.
fn call_that_ends_at(trees: &[TokenTree], at: usize, methods: &[String]) -> Option<(usize, &'static str)> {
    let TokenTree::Group(group) = &trees[at] else { return None };
    let name = trees.get(at.checked_sub(1)?)?.to_string();
    if group.delimiter() != Delimiter::Parenthesis {
        return None;
    }
    if methods.contains(&name) && is_punct(trees.get(at.checked_sub(2)?), '.') {
        let start = (0..at).rev().find(|&start| begins_statement(trees, start))?;
        assert!(is_punct(trees.get(at + 1), ';'), "`{name}` is called in a way that is not understood");
        return Some((start, "()"));
    }
    let value = match name.as_str() {
        "choose" => "0",
        "refuses" => "false",
        "point" | "note" | "note_some" => "()",
        _ => return None,
    };
    let start = at.checked_sub(4)?;
    let is_call = is_punct(trees.get(at - 2), ':')
        && is_punct(trees.get(at - 3), ':')
        && matches!(&trees[start], TokenTree::Ident(module) if module == "probe");
    let is_whole_path = !is_punct(start.checked_sub(1).and_then(|before| trees.get(before)), ':');
    assert!(!is_call || is_whole_path, "a hook is called by another path than `probe::{name}`: it would not be found");
    is_call.then_some((start, value))
}

/// Whether a statement begins at `start`.
fn begins_statement(trees: &[TokenTree], start: usize) -> bool {
    match start.checked_sub(1).map(|before| &trees[before]) {
        None => true,
        Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
        Some(before) => is_punct(Some(before), ';'),
    }
}

fn is_punct(tree: Option<&TokenTree>, wanted: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_become_spaces_and_values_become_the_default() {
        let text = "fn f() {\n    probe::note(|| Note::Ready {\n        ticket: t(1),\n    });\n    let n = probe::choose(Choice::Next, 3);\n    match n { 1 => probe::point(Point::Post), _ => g() }\n}\n";
        let (left, count) = delete(text, &[]);
        assert_eq!(count, 3);
        assert_eq!(left.len(), text.len());
        let lines: Vec<&str> = left.lines().map(str::trim_end).collect();
        assert_eq!(lines[..5], ["fn f() {", "", "", "", &format!("    let n = 0{};", " ".repeat(29))]);
        assert!(lines[5].starts_with("    match n { 1 => () "), "{}", lines[5]);
    }

    #[test]
    fn calls_inside_of_calls_and_blocks_are_found_and_other_names_are_left_alone() {
        let text = "fn f() { if x { probe::point(P); } h(probe::choose(a, b)); other::note(1); note(2); }";
        let (left, count) = delete(text, &[]);
        assert_eq!(count, 2);
        assert_eq!(left.split_whitespace().collect::<String>(), "fnf(){ifx{}h(0);other::note(1);note(2);}");
    }

    #[test]
    fn methods_that_only_call_hooks_are_deleted_with_what_they_are_called_on() {
        let methods = functions("impl A { fn note_it(&self) {} } pub(super) fn note_that() {}");
        assert_eq!(methods, ["note_it", "note_that"]);
        let (left, count) = delete("fn f() { a(); self.core().note_it(x, y); b.note_other(z); }", &methods);
        assert_eq!((count, left.split_whitespace().collect::<String>().as_str()), (1, "fnf(){a();b.note_other(z);}"));
    }

    #[test]
    #[should_panic(expected = "it would not be found")]
    fn a_longer_path_is_refused() {
        delete("fn f() { crate::sync::probe::point(P); }", &[]);
    }
}
