//! Goal: every rule and case of Fuchsia's driver runtime has one row, and a test that shows it or a reason why it does not
//! apply; and the page that lists them says the same.
//! Method: compare the list of identifiers, the tables in `tests/conformance/`, the marks above tests, and the page.

use fuchsine_tests::rules::marks::{Mark, marks};
use fuchsine_tests::rules::table::{Row, rows};
use fuchsine_tests::rules::{list, models, page};
use fuchsine_tests::source::files;

fn all() -> (Vec<Row>, Vec<Mark>, Vec<String>) {
    let files = files();
    let rows = rows(&files).unwrap_or_else(|error| panic!("{error}"));
    let (marks, wrong) = marks(&files);
    (rows, marks, wrong)
}

#[test]
fn no_identifier_is_listed_twice() {
    let mut all = list::all();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn marks_stand_above_tests() {
    let (_, _, wrong) = all();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_rule_has_a_row_and_a_test_or_a_reason() {
    let (rows, marks, _) = all();
    let mistakes = page::mistakes(&rows, &marks);
    assert!(mistakes.is_empty(), "{} mistakes:\n{mistakes:#?}", mistakes.len());
}

#[test]
fn the_page_says_what_the_tables_and_tests_say() {
    let (rows, marks, _) = all();
    let files = files();
    let written = files.iter().find(|file| file.path == page::PATH).map(|file| file.text.as_str()).unwrap_or_default();
    let wanted = page::text(&rows, &marks);
    let differing = wanted.lines().zip(written.lines()).find(|(wanted, written)| wanted != written);
    assert!(
        written == wanted,
        "run `cargo run -p fuchsine-tests --bin conformance -- --write`; the first line that differs:\n{differing:#?}"
    );
}

#[test]
fn the_page_of_the_models_says_what_the_models_say() {
    let files = files();
    let models = models::model_files(&files);
    assert_eq!(models::missing(&models), Vec::<String>::new(), "named among the races, and not there");
    let explored = models::explored(&files).unwrap_or_else(|error| panic!("{error}"));
    let known = |name: &String| models.iter().any(|file| file.models.iter().any(|(model, _)| model == name));
    assert!(explored.keys().all(known), "numbers of models that are not there: {:?}", explored.keys());
    let written =
        files.iter().find(|file| file.path == models::PATH).map(|file| file.text.as_str()).unwrap_or_default();
    assert!(
        written == models::text(&models, &explored),
        "run `cargo run -p fuchsine-tests --bin conformance -- --models`"
    );
}
