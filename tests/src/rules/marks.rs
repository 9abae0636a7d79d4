//! Marks: lines such as `/// Shows R57, CH-R12.` right above a test, or in documentation that must not compile.

use crate::source::SourceFile;

/// A test that shows rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The file of the test, from the root of the workspace.
    pub path: String,
    /// The line of the mark, from 1.
    pub line: usize,
    /// The name of the function; `None` for a block of documentation that must not compile.
    pub test: Option<String>,
    /// What it shows.
    pub rules: Vec<String>,
}

impl Mark {
    /// How the page names the test.
    pub fn name(&self) -> String {
        let mut parts = self.path.trim_end_matches(".rs").rsplit('/');
        let mut file = parts.next().unwrap_or_default();
        // Such a file is named after its folder: alone, its name says nothing.
        if matches!(file, "mod" | "main" | "tests") {
            file = parts.next().unwrap_or_default();
        }
        match &self.test {
            Some(test) => format!("{file}::{test}"),
            None => format!("{file}, what must not compile"),
        }
    }
}

/// Whether marks in this file are about the runtime: those of the loops are BIND's, and have numbers of their own.
pub fn is_looked_at(path: &str) -> bool {
    let is_test = path.starts_with("tests/tests/") && !path.starts_with("tests/tests/loop_");
    let is_unit = path.starts_with("dispatcher/src/")
        && !path.starts_with("dispatcher/src/event_loop/")
        && !path.starts_with("dispatcher/src/sync/");
    path.ends_with(".rs") && (is_test || is_unit)
}

/// All marks, and what is wrong with those that are none.
pub fn marks(files: &[SourceFile]) -> (Vec<Mark>, Vec<String>) {
    let (mut marks, mut wrong) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| is_looked_at(&file.path)) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((in_code, rules)) = rules_of(line) else { continue };
            let test =
                if in_code { must_not_compile(&lines, at).map(|()| None) } else { test_below(&lines, at).map(Some) };
            match test {
                Ok(_) if is_model(&file.path) => {
                    wrong.push(format!("{}:{}: a model does not run among the tests; mark a test", file.path, at + 1));
                }
                Ok(test) => marks.push(Mark { path: file.path.clone(), line: at + 1, test, rules }),
                Err(what) => wrong.push(format!("{}:{}: {what}", file.path, at + 1)),
            }
        }
    }
    (marks, wrong)
}

fn is_model(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.starts_with("shuttle_") || file.starts_with("loom_")
}

/// The rules that a line names, if it is a mark, and whether it stands in a block of documentation.
fn rules_of(line: &str) -> Option<(bool, Vec<String>)> {
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim();
    let (in_code, text) = match text.strip_prefix("# // Shows ") {
        Some(text) => (true, text),
        None => (false, text.strip_prefix("Shows ")?),
    };
    // A sentence may begin with the word too.
    let rules: Vec<String> = text.strip_suffix('.')?.split(", ").map(str::to_owned).collect();
    let is_rule = |rule: &String| {
        rule.starts_with(|first: char| first.is_ascii_uppercase())
            && rule.ends_with(|last: char| last.is_ascii_digit())
            && !rule.contains(' ')
    };
    rules.iter().all(is_rule).then_some((in_code, rules))
}

fn must_not_compile(lines: &[&str], at: usize) -> Result<(), String> {
    let above = at.checked_sub(1).and_then(|above| lines.get(above)).copied().unwrap_or_default();
    if above.contains("```compile_fail") {
        Ok(())
    } else {
        Err("not the first line of what must not compile".to_owned())
    }
}

/// The name of the test below a mark; attributes and further marks may stand between.
fn test_below(lines: &[&str], at: usize) -> Result<String, String> {
    let mut is_test = false;
    for line in &lines[at + 1..] {
        if line.starts_with("#[test]") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ") {
            let name = rest.split('(').next().unwrap_or_default();
            return if is_test { Ok(name.to_owned()) } else { Err(format!("{name} is no test")) };
        } else if !line.starts_with("#[") && rules_of(line).is_none() {
            break;
        }
    }
    Err("a mark stands right above a test".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> (Vec<Mark>, Vec<String>) {
        marks(&[SourceFile { path: path.to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn a_mark_names_the_test_below_it() {
        let (marks, wrong) =
            found("tests/tests/irqs.rs", "/// Shows R92, DT-44.\n#[test]\n#[ignore]\nfn it_holds() {}\n");
        assert_eq!(wrong, Vec::<String>::new());
        let [mark] = marks.as_slice() else { panic!("{marks:?}") };
        assert_eq!(
            (mark.line, mark.rules.join(" ").as_str(), mark.name().as_str()),
            (1, "R92 DT-44", "irqs::it_holds")
        );
    }

    #[test]
    fn a_mark_in_documentation_stands_first_in_what_must_not_compile() {
        let (marks, wrong) = found("dispatcher/src/runtime/task.rs", "/// ```compile_fail\n/// # // Shows R5.\n");
        assert_eq!((marks.len(), wrong.len()), (1, 0));
        let (marks, wrong) = found("dispatcher/src/runtime/task.rs", "/// ```\n/// # // Shows R5.\n");
        assert_eq!((marks.len(), wrong.len()), (0, 1));
    }

    #[test]
    fn marks_of_what_is_no_test_are_wrong_and_sentences_are_no_marks() {
        let text =
            "/// Shows R1.\nfn helper() {}\n/// Shows R2.\nconst X: u8 = 0;\n/// Shows what is there.\nfn other() {}\n";
        let (marks, wrong) = found("tests/tests/irqs.rs", text);
        assert_eq!((marks.len(), wrong.len()), (0, 2), "{wrong:?}");
        let (marks, wrong) =
            found("dispatcher/src/runtime/shuttle_races.rs", "/// Shows R1.\n#[test]\nfn a_model() {}\n");
        assert_eq!((marks.len(), wrong.len()), (0, 1), "{wrong:?}");
    }

    #[test]
    fn files_of_the_loops_have_marks_of_their_own() {
        let text = "/// Shows L1.\n#[test]\nfn it_holds() {}\n";
        for path in ["tests/tests/loop_job.rs", "dispatcher/src/event_loop/job.rs", "dispatcher/src/sync/inbox.rs"] {
            assert_eq!(found(path, text).0, Vec::new(), "{path}");
        }
    }
}
