//! Goal: every rule of the loops is either shown by a test that names it, or said not to apply, with a reason.
//! Method: compare the page that lists the rules with the marks `Shows A1, B2.` above tests, and inside of documentation
//! tests that must not compile.

use std::collections::{BTreeMap, BTreeSet};

use fuchsine_tests::source::{SourceFile, files};

const PAGE: &str = "docs/src/internals/loop-rules.md";

/// Where the marks are. Those elsewhere name the rules of the dispatcher runtime: see `runtime_rules.rs`.
const LOOKED_AT: &[&str] = &["tests/tests/loop_", "dispatcher/src/event_loop/", "dispatcher/src/sync/"];

/// The rules by their letter: how many there are, numbered from 1.
const RULES: &[(char, u32)] = &[
    ('D', 8),
    ('L', 25),
    ('J', 12),
    ('A', 13),
    ('W', 18),
    ('T', 17),
    ('S', 7),
    ('P', 9),
    ('X', 7),
    ('R', 9),
    ('B', 1),
    ('Q', 2),
    ('K', 2),
    ('E', 32),
];

/// The cases of BIND's own suite that concern the loops.
const CASES: &[u32] = &[1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 35, 37, 38, 40, 41];

fn all_rules() -> BTreeSet<String> {
    let rules = RULES.iter().flat_map(|&(letter, count)| (1..=count).map(move |nth| format!("{letter}{nth}")));
    rules.chain(CASES.iter().map(|nth| format!("C{nth}"))).collect()
}

/// The rows of the page's tables: each rule, and what the last column says of it.
fn rows() -> Vec<(String, String)> {
    let files = files();
    let page = files.iter().find(|file| file.path == PAGE).expect("the page is there");
    let cells = |line: &str| -> Option<(String, String)> {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let (rule, _, here) = (cells.next()?, cells.next()?, cells.next()?);
        rule.starts_with(|first: char| first.is_ascii_uppercase()).then(|| (rule.to_owned(), here.to_owned()))
    };
    page.text.lines().filter_map(cells).collect()
}

/// Where each rule is shown: file and line of the mark.
fn marks() -> BTreeMap<String, Vec<String>> {
    let mut marks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_looked_at = |file: &SourceFile| {
        file.path.ends_with(".rs")
            && LOOKED_AT.iter().any(|place| file.path.starts_with(place))
            && !file.path.ends_with("loop_rules.rs")
    };
    for file in files().iter().filter(|file| is_looked_at(file)) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let text = line.trim_start_matches('/').trim();
            let (in_code, text) = match text.strip_prefix("# // Shows ") {
                Some(text) => (true, text),
                None => (false, text.strip_prefix("Shows ").unwrap_or_default()),
            };
            let Some(rules) = text.strip_suffix('.').filter(|_| line.starts_with("///")) else { continue };
            let place = format!("{}:{}", file.path, at + 1);
            if in_code {
                assert!(
                    lines[at - 1].contains("```compile_fail"),
                    "{place}: not the first line of what must not compile"
                );
            } else {
                let next = lines[at + 1..].iter().find(|line| !line.starts_with("#[") || line.contains("[test]"));
                assert_eq!(next, Some(&"#[test]"), "{place}: a mark stands right above a test");
            }
            for rule in rules.split(", ") {
                marks.entry(rule.to_owned()).or_default().push(place.clone());
            }
        }
    }
    marks
}

#[test]
fn the_page_lists_each_rule_once_and_no_other() {
    let listed: Vec<String> = rows().into_iter().map(|(rule, _)| rule).collect();
    let distinct: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), distinct.len(), "a rule is listed twice");
    assert_eq!(distinct, all_rules());
}

#[test]
fn each_rule_is_shown_by_a_test_or_does_not_apply_and_the_page_says_why() {
    let (marks, mut wrong) = (marks(), Vec::new());
    for (rule, here) in rows() {
        let reason = here.strip_prefix("does not apply: ");
        match (reason, marks.get(&rule)) {
            (None, Some(_)) => {}
            (Some(reason), None) if reason.len() > 10 => {}
            (Some(_), None) => wrong.push(format!("{rule} does not apply without a reason")),
            (None, None) => wrong.push(format!("{rule} is shown by no test: {here}")),
            (Some(_), Some(places)) => wrong.push(format!("{rule} does not apply, and is shown at {places:?}")),
        }
    }
    let known = all_rules();
    wrong
        .extend(marks.iter().filter(|(rule, _)| !known.contains(*rule)).map(|(rule, at)| format!("{rule}? at {at:?}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
