//! The tables in `tests/conformance/`: one row a rule, kept by area.

use serde::Deserialize;

use crate::source::SourceFile;

/// Where the tables are.
pub const FOLDER: &str = "tests/conformance/";

/// What became of a rule here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Verdict {
    /// It holds here too.
    #[serde(rename = "same")]
    Same,
    /// What it is there for holds, without what is wrong or missing in the original.
    #[serde(rename = "better")]
    Better,
    /// There is nothing here that it could be about; the note says why.
    #[serde(rename = "not applicable")]
    NotApplicable,
}

impl Verdict {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Better => "better",
            Verdict::NotApplicable => "not applicable",
        }
    }
}

/// One rule and what became of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The identifier.
    pub id: String,
    /// What the original does, in short.
    pub upstream: String,
    /// What became of it.
    pub verdict: Verdict,
    /// What is here, or why it does not apply.
    #[serde(default)]
    pub note: String,
    /// The area whose table has the row.
    #[serde(skip)]
    pub area: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    rule: Vec<Row>,
}

/// All rows of all areas, or what is wrong with the text of a table.
///
/// # Errors
/// The first table that is no TOML or has fields it should not have.
pub fn rows(files: &[SourceFile]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for file in files {
        let name = file.path.strip_prefix(FOLDER).and_then(|name| name.strip_suffix(".toml"));
        let Some(area) = name else { continue };
        let table: Table = toml::from_str(&file.text).map_err(|error| format!("{}: {error}", file.path))?;
        rows.extend(table.rule.into_iter().map(|row| Row { area: area.to_owned(), ..row }));
    }
    Ok(rows)
}
