//! The page of the model checks: what each covers and what it leaves out, taken from the models themselves.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::source::SourceFile;

/// Where the page is.
pub const PATH: &str = "docs/src/internals/models.md";

/// Where the numbers of schedules are, as the model checker counted them.
pub const EXPLORED: &str = "tests/models-explored.toml";

const HEAD: &str = "\
# Models

What depends on the order in which threads take their steps is checked by models: small programs of two or three threads that
a model checker runs in many orders. *loom* tries every order up to a bound of three preemptions, and every value that the
memory model lets a load see. *shuttle* runs larger models, those of the real runtime on its real pool, in random orders
and in orders that are chosen for bugs which need few preemptions (PCT of depth 3); it has no weak memory. `.ci/loom` and
`.ci/shuttle` run them; a failure prints the schedule, by which it can be replayed.

This page is written by `cargo run -p fuchsine-tests --bin conformance -- --models` from the models themselves.
`tests/tests/runtime_rules.rs` compares it with them.

## The races that matter most

| race | models |
|---|---|
| a post and a shutdown | `shuttle_a_post_that_races_with_shutdown_is_refused_run_or_told` |
| a wake of a future from a foreign thread and a shutdown | `shuttle_a_foreign_wake_that_races_with_shutdown_leaves_no_future_behind`, `shuttle_a_future_that_is_spawned_during_shutdown_is_refused_or_ends_first` |
| a dump and callbacks whose places are used again | `shuttle_a_dump_beside_callbacks_and_a_shutdown_sees_one_moment`, `loom_memory_is_freed_once_by_whoever_needs_it_last` |
| an inline call, a turn of the pool, and a shutdown of one synchronized dispatcher | `shuttle_an_inline_call_a_queued_task_and_shutdown_never_overlap` |
| a cancel and the run | `shuttle_a_cancel_that_races_with_run_and_shutdown_has_one_winner`, `shuttle_a_timer_that_fires_races_with_cancel_and_shutdown` |
| a channel's write, registration, cancel and close | the models of `channel/loom_pair.rs` and `channel/shuttle_channel.rs` |
| the last observer of a dispatcher and that of its driver | `shuttle_the_driver_observer_is_last`, `shuttle_the_observer_of_a_driver_comes_after_those_of_its_dispatchers_on_any_threads` |
";

/// A file of models.
#[derive(Debug)]
pub struct ModelFile {
    /// Its path below `dispatcher/src/`.
    pub path: String,
    /// What its header says, without what is about running it.
    pub about: String,
    /// Names and what is said of each, in the order of the file.
    pub models: Vec<(String, String)>,
}

/// All files of models.
pub fn model_files(files: &[SourceFile]) -> Vec<ModelFile> {
    let sources = files.iter().filter(|file| file.path.starts_with("dispatcher/src/") && file.path.ends_with(".rs"));
    sources.map(model_file).filter(|file| !file.models.is_empty()).collect()
}

fn is_for_models(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("loom_") || name.starts_with("shuttle_")
}

fn model_file(file: &SourceFile) -> ModelFile {
    let path = file.path.trim_start_matches("dispatcher/src/").to_owned();
    let header: Vec<&str> = file.text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    // Paragraphs; those about how to run them say nothing that the page does not.
    let paragraphs = header.split(|line| line.is_empty()).map(|lines| lines.join(" "));
    let about: Vec<String> = match is_for_models(&file.path) {
        true => paragraphs.filter(|paragraph| !paragraph.starts_with("Run ")).collect(),
        false => vec!["Beside the code that it is about.".to_owned()],
    };
    let (mut models, mut said) = (Vec::new(), Vec::new());
    for line in file.text.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            said.push(text);
        } else if let Some(rest) = line.strip_prefix("fn ") {
            let name = rest.split('(').next().unwrap_or_default();
            if name.starts_with("loom_") || name.starts_with("shuttle_") {
                let about: Vec<&str> = said.iter().copied().filter(|text| !text.starts_with("Shows ")).collect();
                models.push((name.to_owned(), about.join(" ")));
            }
            said.clear();
        } else if !line.starts_with("#[") && line != "///" {
            said.clear();
        }
    }
    ModelFile { path, about: about.join(" "), models }
}

/// How many schedules loom explored of each model, when they were counted last.
///
/// # Errors
/// What is wrong with the table.
pub fn explored(files: &[SourceFile]) -> Result<BTreeMap<String, u64>, String> {
    let Some(file) = files.iter().find(|file| file.path == EXPLORED) else { return Ok(BTreeMap::new()) };
    toml::from_str(&file.text).map_err(|error| format!("{EXPLORED}: {error}"))
}

/// The text of the page.
pub fn text(models: &[ModelFile], explored: &BTreeMap<String, u64>) -> String {
    let mut page = HEAD.to_owned();
    let count: usize = models.iter().map(|file| file.models.len()).sum();
    let _ = writeln!(
        page,
        "\n## All models\n\n{count} models. Each of shuttle's runs 10,000 schedules by each of the two strategies in CI, unless its \
         file says otherwise; for loom's the number of schedules is given."
    );
    for file in models {
        let _ = writeln!(page, "\n### `{}`\n\n{}\n", file.path, file.about);
        for (name, about) in &file.models {
            let schedules = explored.get(name).map(|count| format!(" ({count} schedules)")).unwrap_or_default();
            let about = if about.is_empty() { String::new() } else { format!(": {about}") };
            let _ = writeln!(page, "- `{name}`{schedules}{about}");
        }
    }
    page
}

/// Models that the table of races names and that are not there.
pub fn missing(models: &[ModelFile]) -> Vec<String> {
    let is_there = |name: &str| models.iter().any(|file| file.models.iter().any(|(model, _)| model == name));
    let names = HEAD.split('`').filter(|text| text.starts_with("loom_") || text.starts_with("shuttle_"));
    names.filter(|name| !is_there(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_taken_apart_into_its_header_and_its_models() {
        let text = "//! Models of a thing.\n//!\n//! Run as others.\n//!\n//! Not covered: all else.\n\nuse x;\n\n/// Helps.\nfn helper() {}\n\n/// Two threads.\n///\n/// Shows R1.\n#[test]\nfn loom_it_holds() {}\n";
        let files = [SourceFile { path: "dispatcher/src/sync/loom_thing.rs".to_owned(), text: text.to_owned() }];
        let models = model_files(&files);
        let [model] = models.as_slice() else { panic!("{models:?}") };
        assert_eq!(
            (model.path.as_str(), model.about.as_str()),
            ("sync/loom_thing.rs", "Models of a thing. Not covered: all else.")
        );
        assert_eq!(model.models, [("loom_it_holds".to_owned(), "Two threads.".to_owned())]);
        let page = super::text(&models, &BTreeMap::from([("loom_it_holds".to_owned(), 7)]));
        assert!(page.contains("- `loom_it_holds` (7 schedules): Two threads."), "{page}");
        assert!(missing(&models).contains(&"shuttle_the_driver_observer_is_last".to_owned()));
    }
}
