//! Manifests in several files. Goal: they are put together by name, and what two of them say is a mistake that names both.
//! Method: folders of files; messages are compared as text.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;

/// Files in a folder of its own, by their paths in it.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[track_caller]
fn names(path: &Path) -> Vec<String> {
    let manifest = Manifest::load(path).unwrap_or_else(|error| panic!("{}", error.render()));
    manifest.driver_names().map(str::to_owned).collect()
}

#[test]
fn a_folder_is_read_by_name_and_so_is_the_one_beside_a_file() {
    let files = [
        ("host.toml", "[host]\nthreads = 3\nmodule_path = [\"a\"]\n[drivers.disk]\n"),
        ("host.d/20-more.toml", "[log]\nlevel = \"debug\"\n[drivers.last]\n"),
        (
            "host.d/10-net.toml",
            "[host]\nstop_timeout_ms = 7\nmodule_path = [\"b\"]\n[drivers.net]\nmodule = \"net.so\"\n",
        ),
        ("host.d/.hidden.toml", "this is no TOML"),
        ("host.d/10-net.toml~", "nor is this"),
        ("host.d/folder.toml/x.toml", "nor this"),
    ];
    let folder = folder(&files);
    let manifest = Manifest::load(&folder.path().join("host.toml")).unwrap();
    assert_eq!(manifest.driver_names().collect::<Vec<_>>(), ["disk", "net", "last"]);
    assert_eq!((manifest.threads(), manifest.stop_timeout()), (Some(3), Duration::from_millis(7)));
    assert_eq!(manifest.log().level.as_deref(), Some("debug"));
    assert_eq!(manifest.module_path, [folder.path().join("a"), folder.path().join("host.d/b")]);
    let module = manifest.drivers[1].module.as_ref().unwrap();
    assert_eq!(module.path, folder.path().join("host.d/net.so"), "it counts from the folder of its own file");
    assert_eq!(names(&folder.path().join("host.d")), ["net", "last"]);

    // A file of the folder alone, and a file without one.
    assert_eq!(names(&folder.path().join("host.d/20-more.toml")), ["last"]);
    fs::write(folder.path().join("host.toml"), "").unwrap();
    assert_eq!(names(&folder.path().join("host.toml")), ["net", "last"], "the first one need not name any");
}

#[test]
fn what_two_files_say_is_a_mistake_that_names_both() {
    let folder = folder(&[
        ("a.toml", "[host]\nthreads = 3\n[drivers.disk]\n"),
        ("b.toml", "[host]\nthreads = 3\n[drivers.disk]\n[drivers.x]\nwrong = 1\n"),
        ("c.toml", "[host]\nthreads = 4\n[drivers.y]\n[drivers.disk]\n"),
        ("d.toml", "[drivers.z\n"),
    ]);
    let error = Manifest::load(folder.path()).unwrap_err();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let expected = [
        format!("{}:5:1: unknown key `wrong` in driver `x`", at("b.toml")),
        format!("{}:2:1: `[host] threads` is said in two files", at("c.toml")),
        format!("{}:4:10: driver `disk` is in two files", at("c.toml")),
        format!("{}:1:11: ", at("d.toml")),
    ];
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected.as_str()), "{line}\n{expected}");
    }
    let helps = error.render();
    assert!(helps.contains(&format!("the other one is at {}:2:1", at("a.toml"))), "{helps}");
    assert!(helps.contains(&format!("the other one is at {}:3:10; a name is for one driver", at("a.toml"))), "{helps}");
}

#[test]
fn an_empty_folder_is_no_manifest_and_one_without_drivers_neither() {
    let empty = folder(&[("readme.txt", "")]);
    let error = Manifest::load(empty.path()).unwrap_err().to_string();
    assert_eq!(error, format!("the folder `{}` has no manifest", empty.path().display()));
    let quiet = folder(&[("a.toml", "[host]\nthreads = 2\n"), ("b.toml", "[log]\n")]);
    let error = Manifest::load(quiet.path()).unwrap_err().to_string();
    assert!(error.ends_with("a.toml:1:1: the manifest names no driver"), "{error}");
}
