//! The page of the book: every rule, what became of it, and the tests that show it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::list::{GROUPS, Group};
use super::marks::Mark;
use super::table::{Row, Verdict};

/// Where the page is.
pub const PATH: &str = "docs/src/internals/runtime-rules.md";

const HEAD: &str = "\
# The driver runtime's rules, one by one

Dispatchers and channels have the semantics of Fuchsia's driver runtime, without its sharp edges. This page lists what was
looked at there, rule by rule and case by case, and what became of it here: *same*, *better* (what the rule is there for
holds, without what is wrong or missing in the original), or *not applicable*, with the reason.

The page is written by `cargo run -p fuchsine-tests --bin conformance -- --write` from the tables in `tests/conformance/`
and from tests that name what they show. It is written only when every test that it names has run and passed.
`tests/tests/runtime_rules.rs` compares the page with the tables and the tests at each run.
";

/// What is wrong with rows and marks, one line each: rules without a row, without a test, without a reason.
pub fn mistakes(rows: &[Row], marks: &[Mark]) -> Vec<String> {
    let known = super::list::all();
    let tests = tests_by_rule(marks);
    let mut by_id: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        by_id.entry(&row.id).or_default().push(row);
    }
    let mut wrong = Vec::new();
    for id in &known {
        match by_id.get(id.as_str()).map(Vec::as_slice) {
            None => wrong.push(format!("{id} has no row")),
            Some([row]) => wrong.extend(mistake_of(row, tests.contains_key(id.as_str()))),
            Some(rows) => {
                let areas: Vec<&str> = rows.iter().map(|row| row.area.as_str()).collect();
                wrong.push(format!("{id} has more than one row: {areas:?}"));
            }
        }
    }
    let unknown = |id: &str| !known.iter().any(|one| one == id);
    wrong.extend(
        rows.iter().filter(|row| unknown(&row.id)).map(|row| format!("{}: no such rule as {}", row.area, row.id)),
    );
    for mark in marks {
        let strange = mark.rules.iter().filter(|rule| unknown(rule));
        wrong.extend(strange.map(|rule| format!("{}:{}: no such rule as {rule}", mark.path, mark.line)));
    }
    wrong
}

fn mistake_of(row: &Row, is_shown: bool) -> Option<String> {
    let Row { id, area, .. } = row;
    match row.verdict {
        _ if row.upstream.is_empty() => Some(format!("{id} ({area}) does not say what it is")),
        Verdict::NotApplicable if row.note.len() <= 10 => {
            Some(format!("{id} ({area}) does not apply without a reason"))
        }
        Verdict::NotApplicable if is_shown => Some(format!("{id} ({area}) does not apply, and is shown by a test")),
        Verdict::Better if row.note.is_empty() => Some(format!("{id} ({area}) does not say what is better")),
        Verdict::Same | Verdict::Better if !is_shown => Some(format!("{id} ({area}) is shown by no test")),
        _ => None,
    }
}

/// The names of the tests that show each rule, sorted.
pub fn tests_by_rule(marks: &[Mark]) -> BTreeMap<&str, Vec<String>> {
    let mut tests: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for mark in marks {
        for rule in &mark.rules {
            tests.entry(rule).or_default().push(mark.name());
        }
    }
    for names in tests.values_mut() {
        names.sort();
        names.dedup();
    }
    tests
}

/// The text of the page.
pub fn text(rows: &[Row], marks: &[Mark]) -> String {
    let by_id: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.id.as_str(), row)).collect();
    let tests = tests_by_rule(marks);
    let mut page = HEAD.to_owned();
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let _ = writeln!(
        page,
        "\n{} rules and cases: {} same, {} better, {} not applicable.",
        rows.len(),
        count(Verdict::Same),
        count(Verdict::Better),
        count(Verdict::NotApplicable)
    );
    for group in GROUPS {
        write_group(&mut page, group, &by_id, &tests);
    }
    page
}

fn write_group(page: &mut String, group: &Group, rows: &BTreeMap<&str, &Row>, tests: &BTreeMap<&str, Vec<String>>) {
    if !group.identifiers().any(|id| rows.contains_key(id.as_str())) {
        return;
    }
    let _ = writeln!(page, "\n## {}\n", group.title);
    page.push_str("| rule | in Fuchsia's driver runtime | here | shown by |\n|---|---|---|---|\n");
    for id in group.identifiers() {
        let Some(row) = rows.get(id.as_str()) else { continue };
        let names: Vec<String> = tests.get(id.as_str()).into_iter().flatten().map(|name| format!("`{name}`")).collect();
        let here = match row.note.as_str() {
            "" => row.verdict.as_str().to_owned(),
            note => format!("{}: {note}", row.verdict.as_str()),
        };
        let _ = writeln!(page, "| {id} | {} | {} | {} |", cell(&row.upstream), cell(&here), names.join(", "));
    }
}

/// Text inside of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> (Vec<Row>, Vec<Mark>) {
        let row = |id: String| Row {
            id,
            upstream: "what it is".to_owned(),
            verdict: Verdict::Same,
            note: String::new(),
            area: "area".to_owned(),
        };
        let rows: Vec<Row> = super::super::list::all().into_iter().map(row).collect();
        let rules = rows.iter().map(|row| row.id.clone()).collect();
        let mark = Mark { path: "tests/tests/some.rs".to_owned(), line: 7, test: Some("it_holds".to_owned()), rules };
        (rows, vec![mark])
    }

    #[test]
    fn complete_tables_have_no_mistakes_and_each_rule_is_on_the_page() {
        let (rows, marks) = complete();
        assert_eq!(mistakes(&rows, &marks), Vec::<String>::new());
        let page = text(&rows, &marks);
        for row in &rows {
            assert!(page.contains(&format!("| {} | what it is | same | `some::it_holds` |", row.id)), "{}", row.id);
        }
    }

    #[test]
    fn each_kind_of_mistake_is_named() {
        let (rows, marks) = complete();
        let with = |change: &dyn Fn(&mut Vec<Row>, &mut Vec<Mark>)| {
            let (mut rows, mut marks) = (rows.clone(), marks.clone());
            change(&mut rows, &mut marks);
            mistakes(&rows, &marks).join("; ")
        };
        assert_eq!(with(&|rows, _| drop(rows.remove(0))), "R1 has no row");
        assert!(with(&|rows, _| rows.push(rows[0].clone())).starts_with("R1 has more than one row"));
        assert_eq!(with(&|_, marks| drop(marks[0].rules.remove(1))), "R2 (area) is shown by no test");
        assert_eq!(
            with(&|_, marks| marks[0].rules.push("R500".to_owned())),
            "tests/tests/some.rs:7: no such rule as R500"
        );
        assert_eq!(with(&|rows, _| rows[0].upstream.clear()), "R1 (area) does not say what it is");
        assert_eq!(with(&|rows, _| rows[0].verdict = Verdict::Better), "R1 (area) does not say what is better");
        assert_eq!(
            with(&|rows, _| rows[0].verdict = Verdict::NotApplicable),
            "R1 (area) does not apply without a reason"
        );
        let does_not_apply = |rows: &mut Vec<Row>, _: &mut Vec<Mark>| {
            rows[0].verdict = Verdict::NotApplicable;
            rows[0].note = "there is no such thing here".to_owned();
        };
        assert_eq!(with(&does_not_apply), "R1 (area) does not apply, and is shown by a test");
    }
}
