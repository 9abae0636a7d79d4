//! `fuchsine drivers`: what is built in and what modules have, as text or JSON.

use std::io::Write;
use std::path::{Path, PathBuf};

use fuchsine_host::{DriverEntry, DriverNote, FoundModule, KeyNote, ModuleError, Registry, kind_name};
use serde_json::{Value, json};

use crate::args::DriversOptions;
use crate::built_in;
use crate::exit::Exit;
use crate::output;

/// The version of the JSON's shape; it changes when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// A driver, and where it is from.
struct Listed {
    driver: DriverNote,
    /// `None`: it is built in.
    module: Option<PathBuf>,
    /// Whether an earlier one has its name, so that it is to be had by the path of its module only.
    is_hidden: bool,
}

/// Writes the list on standard output, and on standard error which modules are not used and why.
pub(crate) fn list(options: &DriversOptions) -> Exit {
    let (drivers, refused) = match options.modules.as_slice() {
        [] => all(&built_in::registry()),
        named => of_modules(named.iter().map(|path| FoundModule::inspect(path))),
    };
    for error in &refused {
        let shown = format!("warning: {error}\n  = help: {}", error.help());
        // A closed standard error leaves nobody to tell.
        let _ = writeln!(std::io::stderr(), "{}", output::plain(&shown));
    }
    if drivers.is_empty() && !refused.is_empty() {
        return Exit::ModuleRefused;
    }
    let written = output::finish(&if options.json { as_json(&drivers) } else { as_text(&drivers) });
    match written {
        // Somebody has asked about that very file.
        Exit::Done if !refused.is_empty() && !options.modules.is_empty() => Exit::ModuleRefused,
        written => written,
    }
}

fn all(registry: &Registry) -> (Vec<Listed>, Vec<ModuleError>) {
    let linked =
        registry.iter().map(|entry: &DriverEntry| Listed { driver: entry.into(), module: None, is_hidden: false });
    let mut drivers: Vec<Listed> = linked.collect();
    let (found, refused) = of_modules(registry.modules().modules().into_iter());
    for mut listed in found {
        listed.is_hidden = drivers.iter().any(|other| other.driver.name == listed.driver.name);
        drivers.push(listed);
    }
    (drivers, refused)
}

fn of_modules(modules: impl Iterator<Item = FoundModule>) -> (Vec<Listed>, Vec<ModuleError>) {
    let (mut drivers, mut refused) = (Vec::new(), Vec::new());
    for module in modules {
        match module.note {
            Ok(note) => drivers.extend(note.drivers.into_iter().map(|driver| Listed {
                driver,
                module: Some(module.path.clone()),
                is_hidden: false,
            })),
            Err(error) => refused.push(error),
        }
    }
    (drivers, refused)
}

fn as_text(drivers: &[Listed]) -> String {
    drivers.iter().map(driver_as_text).collect::<Vec<_>>().join("\n")
}

fn driver_as_text(listed: &Listed) -> String {
    let driver = &listed.driver;
    let mut text = format!("{} {}\n  {}\n", driver.name, driver.version, driver.doc);
    if let Some(module) = &listed.module {
        text.push_str(&format!("  module: {}\n", module.display()));
    }
    if listed.is_hidden {
        text.push_str("  hidden: another one comes first; a manifest gets this one by `module = …`\n");
    }
    let bind: Vec<_> = driver.bind.iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
    match bind.is_empty() {
        true => text.push_str("  bind: none (it gets a node of its own)\n"),
        false => text.push_str(&format!("  bind: nodes with {}\n", bind.join(", "))),
    }
    let width = driver.config.iter().map(|key| key.name.len()).max().unwrap_or(0);
    for key in &driver.config {
        let column = format!("{:width$}  {:8}", key.name, kind_name(key.kind));
        text.push_str(&format!("    {column}  {}{}\n", key.doc, fallback(key)));
    }
    text
}

fn fallback(key: &KeyNote) -> String {
    match (key.is_required, &key.default) {
        (true, _) => " (required)".to_owned(),
        (false, Some(default)) => format!(" [default: {default}]"),
        (false, None) => String::new(),
    }
}

fn as_json(drivers: &[Listed]) -> String {
    let key = |key: &KeyNote| {
        json!({
            "name": key.name,
            "kind": kind_name(key.kind),
            "required": key.is_required,
            "default": key.default,
            "doc": key.doc,
        })
    };
    let driver = |listed: &Listed| {
        let driver = &listed.driver;
        let bind: serde_json::Map<_, _> =
            driver.bind.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        json!({
            "name": driver.name,
            "version": driver.version,
            "doc": driver.doc,
            "module": listed.module.as_deref().map(Path::to_string_lossy),
            "hidden": listed.is_hidden,
            "bind": bind,
            "config": driver.config.iter().map(key).collect::<Vec<_>>(),
        })
    };
    let list = json!({ "schema": SCHEMA, "drivers": drivers.iter().map(driver).collect::<Vec<_>>() });
    format!("{list:#}\n")
}

#[cfg(test)]
mod tests {
    use fuchsine_host::ModulePath;

    use super::*;

    /// What is built in, without what this machine may have besides.
    fn built_in() -> Vec<Listed> {
        all(&built_in::registry().with_modules(ModulePath::default())).0
    }

    #[test]
    fn the_text_names_every_driver_and_every_key_with_its_default() {
        let text = as_text(&built_in());
        for Listed { driver, .. } in built_in() {
            assert!(text.contains(&format!("{} {}\n", driver.name, driver.version)), "{text}");
            for key in &driver.config {
                let is_of_it = |line: &&str| line.split_whitespace().next() == Some(key.name.as_str());
                // Several drivers may have a key of this name.
                let told =
                    text.lines().filter(is_of_it).any(|line| line.contains(&key.doc) && line.ends_with(&fallback(key)));
                assert!(told, "no line for {} in\n{text}", key.name);
            }
        }
    }

    #[test]
    fn the_json_says_the_same() {
        let list: Value = serde_json::from_str(&as_json(&built_in())).unwrap();
        assert_eq!(list["schema"], SCHEMA);
        let names: Vec<_> = list["drivers"].as_array().unwrap().iter().map(|driver| driver["name"].clone()).collect();
        assert_eq!(names, ["ramdisk", "nbd", "file-block", "mirror", "tun-net", "pty-serial", "serial-echo"]);
        assert_eq!(list["drivers"][0]["module"], Value::Null);
        let size = list["drivers"][0]["config"].as_array().unwrap().iter().find(|key| key["name"] == "size").unwrap();
        assert_eq!((&size["kind"], &size["default"]), (&json!("size"), &json!("64MiB")));
    }

    #[test]
    fn a_module_that_is_not_used_is_told_and_nothing_is_listed_of_it() {
        let missing = Path::new("/nowhere/libx.so");
        let (drivers, refused) = of_modules([FoundModule::inspect(missing)].into_iter());
        assert!(drivers.is_empty());
        assert_eq!(refused[0].to_string(), "module `/nowhere/libx.so`: the folder `/nowhere` does not exist");
    }
}
