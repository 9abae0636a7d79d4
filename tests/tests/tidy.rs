//! Goal: the rules of this workspace that a compiler does not check stay true.
//! Method: read the sources, manifests and pages, and compare them with the tables below. A table here and its twin
//! in `docs/ARCHITECTURE.md` have to say the same, so a change of the layout is made in both and seen by a reader.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    process::Command,
    sync::OnceLock,
};

use fuchsine_tests::source::{self, SourceFile, files, is_mark, rust_files};
use proc_macro2::{TokenStream, TokenTree};
use serde_json::Value;

/// The modules of `dispatcher/src` and their layers. A module names its own layer and those below.
const LAYERS: &[(u8, &str)] = &[
    (0, "status"),
    (0, "site"),
    (0, "time"),
    (0, "sync"),
    (0, "sys"),
    (1, "event_loop"),
    (2, "pool"),
    (3, "runtime"),
    (4, "channel"),
    (5, "executor"),
    (6, "testing"),
];

/// The packages, where each is, and which other packages of the workspace its shipped code may use.
const PACKAGES: &[(&str, &str, &[&str])] = &[
    ("fuchsine-dispatcher", "dispatcher", &[]),
    ("fuchsine-bench", "dispatcher/bench", &["fuchsine-dispatcher"]),
    ("fuchsine-boundary", "dispatcher/bench/boundary", &["fuchsine-boundary-drivers", "fuchsine-host"]),
    ("fuchsine-boundary-drivers", "dispatcher/bench/boundary/drivers", &["fuchsine-driver"]),
    ("fuchsine-boundary-module", "dispatcher/bench/boundary/module", &["fuchsine-boundary-drivers", "fuchsine-driver"]),
    ("fuchsine-driver", "host/driver", &[]),
    ("fuchsine-abi", "host/abi", &["fuchsine-dispatcher"]),
    ("fuchsine-c", "host/abi/shared", &["fuchsine-abi"]),
    ("fuchsine-host", "host/runtime", &["fuchsine-abi", "fuchsine-dispatcher", "fuchsine-driver"]),
    ("fuchsine-dfv1", "host/dfv1", &["fuchsine-driver"]),
    ("fuchsine-testing", "host/testing", &["fuchsine-dispatcher", "fuchsine-driver", "fuchsine-host"]),
    (
        "fuchsine",
        "host/cli",
        &[
            "fuchsine-driver",
            "fuchsine-file-block",
            "fuchsine-host",
            "fuchsine-mirror",
            "fuchsine-nbd",
            "fuchsine-pty-serial",
            "fuchsine-ramdisk",
            "fuchsine-tun-net",
        ],
    ),
    ("fuchsine-ramdisk", "drivers-examples/ramdisk", &["fuchsine-driver"]),
    ("fuchsine-ramdisk-module", "drivers-examples/ramdisk/module", &["fuchsine-driver", "fuchsine-ramdisk"]),
    ("fuchsine-nbd", "drivers-examples/nbd", &["fuchsine-driver"]),
    ("fuchsine-nbd-module", "drivers-examples/nbd/module", &["fuchsine-driver", "fuchsine-nbd"]),
    ("fuchsine-file-block", "drivers-examples/file-block", &["fuchsine-driver"]),
    ("fuchsine-file-block-module", "drivers-examples/file-block/module", &["fuchsine-driver", "fuchsine-file-block"]),
    ("fuchsine-mirror", "drivers-examples/mirror", &["fuchsine-driver"]),
    ("fuchsine-mirror-module", "drivers-examples/mirror/module", &["fuchsine-driver", "fuchsine-mirror"]),
    ("fuchsine-pty-serial", "drivers-examples/pty-serial", &["fuchsine-driver"]),
    ("fuchsine-pty-serial-module", "drivers-examples/pty-serial/module", &["fuchsine-driver", "fuchsine-pty-serial"]),
    ("fuchsine-tun-net", "drivers-examples/tun-net", &["fuchsine-driver"]),
    ("fuchsine-tun-net-module", "drivers-examples/tun-net/module", &["fuchsine-driver", "fuchsine-tun-net"]),
    ("fuchsine-misbehaver", "drivers-examples/misbehaver", &["fuchsine-driver"]),
    ("fuchsine-misbehaver-module", "drivers-examples/misbehaver/module", &["fuchsine-driver", "fuchsine-misbehaver"]),
    ("fuchsine-selftest", "drivers-examples/selftest", &["fuchsine-driver"]),
    ("fuchsine-selftest-module", "drivers-examples/selftest/module", &["fuchsine-driver", "fuchsine-selftest"]),
];

/// Packages that hold tests and pages only; they may use any other.
const SUPPORT: &[(&str, &str)] = &[("fuchsine-tests", "tests"), ("fuchsine-docs", "docs")];

/// Where `unsafe` may stand: a module (its file or its folder), or a folder that ends in `/`.
const UNSAFE_ALLOWED: &[&str] = &[
    "dispatcher/src/site",
    "dispatcher/src/sync",
    "dispatcher/src/sys",
    "dispatcher/src/runtime/callback_queue",
    "dispatcher/src/runtime/raw_handle",
    "dispatcher/src/channel/arena",
    "host/driver/src/abi",
    "host/abi",
    "host/runtime/src/load",
    "host/runtime/src/process",
];

/// The longest a file may be.
const MAX_LINES: usize = 800;

/// The one registry that the lock file may name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn a_dispatcher_module_names_only_its_own_layer_and_those_below() {
    let layers: BTreeMap<&str, u8> = LAYERS.iter().map(|&(layer, module)| (module, layer)).collect();
    let exports = root_exports(&file("dispatcher/src/lib.rs"));
    let mut wrong = Vec::new();
    for file in rust_files() {
        let Some(inside) = file.path.strip_prefix("dispatcher/src/").filter(|&path| path != "lib.rs") else { continue };
        let module = module_path(inside);
        let Some(&own) = layers.get(module[0]) else {
            wrong.push(format!("{}: module {} has no layer in the table", file.path, module[0]));
            continue;
        };
        // A model puts several layers together to look at what happens between them; it is built for its checker only.
        let is_model = module.iter().any(|part| part.starts_with("loom_") || part.starts_with("shuttle_"));
        for mention in file.root_mentions(&module) {
            if is_model {
                continue;
            }
            let target = exports.get(&mention.name).unwrap_or(&mention.name);
            match layers.get(target.as_str()) {
                Some(&layer) if layer <= own => {}
                Some(&layer) => {
                    wrong.push(format!("{}:{}: L{own} names {target}, which is L{layer}", file.path, mention.line));
                }
                None => wrong.push(format!("{}:{}: `{target}` is not in the table", file.path, mention.line)),
            }
        }
    }
    expect_none(&wrong, "layers");
}

#[test]
fn each_module_of_the_layer_table_exists() {
    let missing: Vec<&str> = LAYERS
        .iter()
        .map(|&(_, module)| module)
        .filter(|module| {
            let path = source::root().join("dispatcher/src").join(module);
            !path.is_dir() && !path.with_extension("rs").is_file()
        })
        .collect();
    assert!(missing.is_empty(), "modules of the table that are not there: {missing:?}");
}

#[test]
fn the_tables_of_the_architecture_page_equal_the_tables_here() {
    let page = file("docs/ARCHITECTURE.md");
    let layers: Vec<(u8, String)> = table_rows(&page.text)
        .filter_map(|cells| Some((cells[0].strip_prefix('L')?.parse().ok()?, code(&cells[1])?)))
        .collect();
    let expected: Vec<(u8, String)> = LAYERS.iter().map(|&(layer, module)| (layer, module.to_owned())).collect();
    assert_eq!(layers, expected, "layers of docs/ARCHITECTURE.md (left) and of tidy.rs (right)");

    let packages: Vec<(String, String, Vec<String>)> = table_rows(&page.text)
        .filter_map(|cells| {
            let name = code(&cells[0]).filter(|name| name.starts_with("fuchsine"))?;
            let uses = cells[2].split(',').filter_map(code).collect();
            Some((name, code(&cells[1])?.trim_end_matches('/').to_owned(), uses))
        })
        .filter(|(name, ..)| !SUPPORT.iter().any(|(support, _)| support == name))
        .collect();
    let expected: Vec<(String, String, Vec<String>)> = PACKAGES
        .iter()
        .map(|(name, path, uses)| {
            ((*name).to_owned(), (*path).to_owned(), uses.iter().map(|&name| name.to_owned()).collect())
        })
        .collect();
    assert_eq!(packages, expected, "packages of docs/ARCHITECTURE.md (left) and of tidy.rs (right)");
}

#[test]
fn a_package_uses_only_the_packages_that_the_table_allows() {
    let mut wrong = Vec::new();
    for package in members() {
        let name = text(&package["name"]);
        let folder = text(&package["manifest_path"]);
        if let Some((_, path)) = SUPPORT.iter().find(|(support, _)| *support == name) {
            assert_eq!(Path::new(&folder), source::root().join(path).join("Cargo.toml"));
            continue;
        }
        let Some((_, path, allowed)) = PACKAGES.iter().find(|(known, ..)| *known == name) else {
            wrong.push(format!("{name} is not in the table of packages"));
            continue;
        };
        assert_eq!(Path::new(&folder), source::root().join(path).join("Cargo.toml"));
        for dependency in dependencies(package) {
            let used = text(&dependency["name"]);
            // What only tests use may come from above.
            let shipped = dependency["kind"].is_null() || dependency["kind"] == "build";
            if shipped && dependency["source"].is_null() && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{name} uses {used}, which the table does not allow"));
            }
        }
    }
    expect_none(&wrong, "packages");
}

#[test]
fn the_driver_package_reaches_no_dispatcher_so_its_api_can_name_none_of_its_types() {
    let reached = reachable_from("fuchsine-driver");
    assert!(reached.contains("serde"), "the graph was read: {reached:?}");
    assert!(!reached.contains("fuchsine-dispatcher"), "fuchsine-driver reaches fuchsine-dispatcher: {reached:?}");
    for driver in [
        "fuchsine-ramdisk",
        "fuchsine-nbd",
        "fuchsine-file-block",
        "fuchsine-mirror",
        "fuchsine-pty-serial",
        "fuchsine-tun-net",
        "fuchsine-misbehaver",
    ] {
        let reached = reachable_from(driver);
        assert!(reached.contains("fuchsine-driver"));
        assert!(
            !reached.contains("fuchsine-dispatcher") && !reached.contains("fuchsine-host"),
            "{driver}: {reached:?}"
        );
    }
}

#[test]
fn the_command_is_built_without_another_runtime() {
    let reached = reachable_from("fuchsine");
    assert!(reached.contains("mio"), "the graph was read: {reached:?}");
    for other in ["tokio", "async-std", "smol", "async-executor"] {
        assert!(!reached.contains(other), "the command reaches {other}");
    }
}

#[test]
fn the_page_of_dependencies_gives_a_reason_for_each_and_names_no_other() {
    let used: BTreeSet<String> = members()
        .iter()
        .flat_map(|package| dependencies(package))
        .filter(|dependency| !dependency["source"].is_null())
        .map(|dependency| text(&dependency["name"]))
        .collect();
    let page = file("docs/src/dependencies.md");
    let mut listed = BTreeSet::new();
    for cells in table_rows(&page.text).filter(|cells| code(&cells[0]).is_some()) {
        let name = code(&cells[0]).expect("filtered above");
        assert!(cells.last().is_some_and(|reason| reason.len() > 15), "{name} has no reason");
        assert!(listed.insert(name.clone()), "{name} is listed twice");
    }
    assert_eq!(listed, used, "docs/src/dependencies.md (left) and the manifests (right)");

    let root: toml::Table = file("Cargo.toml").text.parse().expect("the root manifest is TOML");
    let declared: BTreeSet<String> = root["workspace"]["dependencies"]
        .as_table()
        .expect("a table")
        .iter()
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!(declared, used, "what the root manifest declares (left) and members use (right)");
}

#[test]
fn the_lock_file_names_only_the_canonical_registry() {
    let lock: toml::Table = file("Cargo.lock").text.parse().expect("the lock file is TOML");
    let packages = lock["package"].as_array().expect("an array");
    let sources: BTreeSet<&str> = packages.iter().filter_map(|package| package.get("source")?.as_str()).collect();
    assert_eq!(sources, BTreeSet::from([REGISTRY]));
}

#[test]
fn each_member_takes_the_lints_and_the_package_data_of_the_workspace() {
    for package in members() {
        let path = text(&package["manifest_path"]);
        let manifest: toml::Table =
            std::fs::read_to_string(&path).expect("readable").parse().expect("a manifest is TOML");
        let inherits = |table: &toml::Value| table.get("workspace").and_then(toml::Value::as_bool) == Some(true);
        assert!(manifest.get("lints").is_some_and(inherits), "{path}: [lints] workspace = true is missing");
        for key in ["version", "edition", "rust-version", "license", "repository"] {
            assert!(manifest["package"].get(key).is_some_and(inherits), "{path}: {key}.workspace = true is missing");
        }
    }
}

#[test]
fn unsafe_stands_only_in_the_listed_places_and_each_such_file_states_its_invariant() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let lines = file.lines_with("unsafe", |_| true);
        // A type such as `unsafe extern "C" fn()` is a word about unsafe code, not a piece of it.
        let code = file.lines_with("unsafe", |next| !matches!(next, Some(TokenTree::Ident(word)) if word == "extern"));
        let allowed = UNSAFE_ALLOWED.iter().any(|place| {
            let rest = file.path.strip_prefix(place);
            rest.is_some_and(|rest| rest.starts_with('/') || rest == ".rs" || rest.starts_with('_'))
        });
        let module_shim = file.path.starts_with("drivers-examples/") && file.path.contains("/module/");
        match lines.first() {
            None => {}
            Some(line) if !allowed && !module_shim => wrong.push(format!("{}:{line}: unsafe", file.path)),
            Some(_) if code.is_empty() => {}
            Some(_) if !states_invariants(&file) => {
                wrong.push(format!("{}: has unsafe code but its header states no invariant", file.path));
            }
            Some(_) => {}
        }
    }
    expect_none(&wrong, "unsafe");
}

#[test]
fn the_page_on_unsafe_lists_the_places_where_it_may_stand() {
    let page = file("docs/UNSAFE.md");
    for place in UNSAFE_ALLOWED {
        assert!(page.text.contains(&format!("`{place}`")), "docs/UNSAFE.md does not list {place}");
    }
}

#[test]
fn no_file_is_longer_than_the_limit() {
    let long: Vec<String> = rust_files()
        .iter()
        .map(|file| (file.text.lines().count(), &file.path))
        .filter(|&(lines, _)| lines > MAX_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    expect_none(&long, "files over the limit");
}

#[test]
fn nothing_is_left_to_be_done() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        for word in ["todo", "unimplemented", "dbg"] {
            wrong.extend(file.calls_of_macro(word).iter().map(|line| format!("{}:{line}: {word}!", file.path)));
        }
    }
    expect_none(&wrong, "stubs");
}

#[test]
fn each_ignored_test_says_why() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let all = file.lines_with("ignore", |_| true);
        let with_reason = file.lines_with("ignore", |next| is_mark(next, '='));
        wrong.extend(
            all.iter()
                .filter(|line| !with_reason.contains(line) && line_at(&file, **line).contains("[ignore"))
                .map(|line| format!("{}:{line}", file.path)),
        );
    }
    expect_none(&wrong, "#[ignore] without a reason");
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    // Put together here, so that this file does not find itself.
    let folders = ["home", "root", "work", "farm", "Users"].map(|name| format!("/{name}/"));
    let mut wrong = Vec::new();
    for file in files() {
        for (index, line) in file.text.lines().enumerate() {
            let found = folders.iter().any(|folder| {
                line.match_indices(folder).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|c| !c.is_alphanumeric() && !"_./-}".contains(c))
                })
            });
            if found {
                wrong.push(format!("{}:{}: {}", file.path, index + 1, line.trim()));
            }
        }
    }
    expect_none(&wrong, "paths of a machine");
}

#[test]
fn each_page_of_the_book_is_in_its_summary_and_runs_as_a_test() {
    let summary = file("docs/src/SUMMARY.md").text;
    let library = file("docs/src/lib.rs").text;
    assert!(library.contains("\"../../README.md\""), "docs/src/lib.rs does not include the README");
    for page in files().iter().filter_map(|file| file.path.strip_prefix("docs/src/")) {
        if page.ends_with(".md") && page != "SUMMARY.md" {
            assert!(summary.contains(&format!("({page})")), "docs/src/SUMMARY.md does not list {page}");
            assert!(library.contains(&format!("\"{page}\"")), "docs/src/lib.rs does not include {page}");
        }
    }
}

#[test]
fn each_relative_link_of_a_page_leads_to_a_file() {
    let mut wrong = Vec::new();
    for page in files().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = source::root().join(&page.path).parent().expect("a file is in a folder").to_owned();
        for (index, line) in page.text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let path = target.split('#').next().unwrap_or_default();
                if !path.is_empty() && !path.contains("://") && !folder.join(path).exists() {
                    wrong.push(format!("{}:{}: {target}", page.path, index + 1));
                }
            }
        }
    }
    expect_none(&wrong, "dead links");
}

#[test]
fn each_path_that_the_architecture_page_names_exists() {
    let page = file("docs/ARCHITECTURE.md").text;
    let named: Vec<&str> = page.split('`').skip(1).step_by(2).filter(|word| word.contains('/')).collect();
    assert!(named.len() > 20, "the page was read: {named:?}");
    let roots = ["", "dispatcher/src", "host/runtime/src"].map(|folder| source::root().join(folder));
    let missing: Vec<String> = named
        .iter()
        .filter(|path| !roots.iter().any(|root| root.join(path).exists()))
        .map(|path| (*path).to_owned())
        .collect();
    expect_none(&missing, "paths of docs/ARCHITECTURE.md that are not there");
}

#[test]
fn the_readme_gives_the_two_commands_and_the_real_minimum_of_rust() {
    let readme = file("README.md").text;
    let lines: Vec<&str> = readme.lines().collect();
    assert!(lines.contains(&"cargo run --release -- run"));
    assert!(lines.contains(&"cargo test --workspace"));
    let root: toml::Table = file("Cargo.toml").text.parse().expect("the root manifest is TOML");
    let minimum = root["workspace"]["package"]["rust-version"].as_str().expect("a string");
    assert!(readme.contains(&format!("Rust {minimum}")), "the README does not say Rust {minimum}");
}

#[track_caller]
fn expect_none(wrong: &[String], what: &str) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[track_caller]
fn file(path: &str) -> SourceFile {
    let text = std::fs::read_to_string(source::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    SourceFile { path: path.to_owned(), text }
}

/// Whether the header of a file, or of the `mod.rs` that speaks for its folder, states invariants.
fn states_invariants(file: &SourceFile) -> bool {
    let header = |text: &str| -> String { text.lines().take_while(|line| line.starts_with("//")).collect() };
    let path = source::root().join(&file.path);
    let folders = path.ancestors().skip(1).map(|folder| folder.join("mod.rs"));
    let speaking =
        folders.take_while(|module| module.is_file()).map(|module| std::fs::read_to_string(module).expect("readable"));
    std::iter::once(file.text.clone()).chain(speaking).any(|text| header(&text).contains("nvariant"))
}

fn line_at(file: &SourceFile, line: usize) -> &str {
    file.text.lines().nth(line - 1).unwrap_or_default()
}

/// `a/b/mod.rs` and `a/b.rs` are the module a::b.
fn module_path(file: &str) -> Vec<&str> {
    file.trim_end_matches(".rs").split('/').filter(|&part| part != "mod").collect()
}

/// What the root of a crate re-exports, and from which module: `pub use module::{A, B};`.
fn root_exports(root: &SourceFile) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    let tokens: Vec<TokenTree> = root.tokens().into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        if !matches!(token, TokenTree::Ident(ident) if ident == "use") {
            continue;
        }
        let path: Vec<&TokenTree> = tokens[index + 1..]
            .iter()
            .take_while(|token| !matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';'))
            .collect();
        let Some(TokenTree::Ident(module)) = path.first() else { continue };
        for token in &path[1..] {
            collect_idents(token, &mut |name| {
                exports.insert(name, module.to_string());
            });
        }
    }
    exports
}

fn collect_idents(token: &TokenTree, found: &mut impl FnMut(String)) {
    match token {
        TokenTree::Ident(ident) => found(ident.to_string()),
        TokenTree::Group(group) => {
            let inner: TokenStream = group.stream();
            inner.into_iter().for_each(|token| collect_idents(&token, found));
        }
        _ => {}
    }
}

/// The cells of each table row of a page.
fn table_rows(page: &str) -> impl Iterator<Item = Vec<String>> + '_ {
    page.lines().filter_map(|line| {
        let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        Some(inner.split('|').map(|cell| cell.trim().to_owned()).collect())
    })
}

/// The text between the first two backquotes of a cell.
fn code(cell: impl AsRef<str>) -> Option<String> {
    cell.as_ref().split('`').nth(1).map(str::to_owned)
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

/// What `cargo metadata` says about the workspace and the graph of its dependencies.
fn metadata() -> &'static Value {
    static METADATA: OnceLock<Value> = OnceLock::new();
    METADATA.get_or_init(|| {
        let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()))
            .args(["metadata", "--format-version=1"])
            .current_dir(source::root())
            .output()
            .expect("cargo can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON")
    })
}

fn members() -> Vec<&'static Value> {
    let metadata = metadata();
    let ids = metadata["workspace_members"].as_array().expect("an array");
    let packages = metadata["packages"].as_array().expect("an array");
    packages.iter().filter(|package| ids.contains(&package["id"])).collect()
}

fn dependencies(package: &Value) -> &Vec<Value> {
    package["dependencies"].as_array().expect("an array")
}

/// The names of all packages that the shipped code of `package` is built with, itself excluded.
fn reachable_from(package: &str) -> BTreeSet<String> {
    let metadata = metadata();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|package| (package["id"].as_str().expect("an id"), package["name"].as_str().expect("a name")))
        .collect();
    let nodes = metadata["resolve"]["nodes"].as_array().expect("an array");
    let mut reached = BTreeSet::new();
    let start = names.iter().find(|(_, name)| **name == package).map(|(id, _)| *id).expect("a package of the graph");
    let mut open = vec![start];
    while let Some(id) = open.pop() {
        let node = nodes.iter().find(|node| node["id"] == id).expect("each package has a node");
        for dependency in node["deps"].as_array().expect("an array") {
            let kinds = dependency["dep_kinds"].as_array().expect("an array");
            // A dependency under `cfg(loom)` and the like stands in the graph but not in a normal build.
            let shipped = kinds.iter().any(|kind| {
                kind["kind"].is_null()
                    && !["cfg(loom)", "cfg(shuttle)"].contains(&kind["target"].as_str().unwrap_or(""))
            });
            let id = dependency["pkg"].as_str().expect("an id");
            if shipped && reached.insert(names[id].to_owned()) {
                open.push(id);
            }
        }
    }
    reached
}
