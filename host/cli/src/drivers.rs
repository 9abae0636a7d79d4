//! `fuchsine drivers`: what is built in, as text or JSON.

use fuchsine_host::{ConfigKey, DriverEntry, Registry, kind_name};
use serde_json::{Value, json};

use crate::args::DriversOptions;
use crate::built_in;
use crate::exit::Exit;
use crate::output;

/// The version of the JSON's shape; it changes when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// Writes the list on standard output.
pub(crate) fn list(options: &DriversOptions) -> Exit {
    let registry = built_in::registry();
    output::finish(&if options.json { as_json(&registry) } else { as_text(&registry) })
}

fn as_text(registry: &Registry) -> String {
    registry.iter().map(driver_as_text).collect::<Vec<_>>().join("\n")
}

fn driver_as_text(driver: &DriverEntry) -> String {
    let mut text = format!("{} {}\n  {}\n", driver.name(), driver.version(), driver.doc());
    let bind: Vec<_> = driver.bind().map(|(name, value)| format!("{name} = {value:?}")).collect();
    match bind.is_empty() {
        true => text.push_str("  bind: none (it gets a node of its own)\n"),
        false => text.push_str(&format!("  bind: nodes with {}\n", bind.join(", "))),
    }
    let width = driver.config().iter().map(|key| key.name().len()).max().unwrap_or(0);
    for key in driver.config() {
        let column = format!("{:width$}  {:8}", key.name(), kind_name(key.kind()));
        text.push_str(&format!("    {column}  {}{}\n", key.doc(), fallback(key)));
    }
    text
}

fn fallback(key: &ConfigKey) -> String {
    match (key.is_required(), key.default()) {
        (true, _) => " (required)".to_owned(),
        (false, Some(default)) => format!(" [default: {default}]"),
        (false, None) => String::new(),
    }
}

fn as_json(registry: &Registry) -> String {
    let key = |key: &ConfigKey| {
        json!({
            "name": key.name(),
            "kind": kind_name(key.kind()),
            "required": key.is_required(),
            "default": key.default(),
            "doc": key.doc(),
        })
    };
    let driver = |driver: &DriverEntry| {
        let bind: serde_json::Map<_, _> =
            driver.bind().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
        json!({
            "name": driver.name(),
            "version": driver.version(),
            "doc": driver.doc(),
            "bind": bind,
            "config": driver.config().iter().map(key).collect::<Vec<_>>(),
        })
    };
    let list = json!({ "schema": SCHEMA, "drivers": registry.iter().map(driver).collect::<Vec<_>>() });
    format!("{list:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_every_driver_and_every_key_with_its_default() {
        let text = as_text(&built_in::registry());
        for driver in built_in::registry().iter() {
            assert!(text.contains(&format!("{} {}\n", driver.name(), driver.version())), "{text}");
            for key in driver.config() {
                let line = text.lines().find(|line| line.split_whitespace().next() == Some(key.name()));
                let line = line.unwrap_or_else(|| panic!("no line for {} in\n{text}", key.name()));
                assert!(line.ends_with(&fallback(key)), "{line}");
            }
        }
    }

    #[test]
    fn the_json_says_the_same() {
        let list: Value = serde_json::from_str(&as_json(&built_in::registry())).unwrap();
        assert_eq!(list["schema"], SCHEMA);
        let names: Vec<_> = list["drivers"].as_array().unwrap().iter().map(|driver| driver["name"].clone()).collect();
        assert_eq!(names, ["ramdisk", "nbd"]);
        let size = list["drivers"][0]["config"].as_array().unwrap().iter().find(|key| key["name"] == "size").unwrap();
        assert_eq!((&size["kind"], &size["default"]), (&json!("size"), &json!("64MiB")));
    }
}
