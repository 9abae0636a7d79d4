//! Goal: who has installed the library and the headers builds a program in C against them.
//! Method: they are installed into a folder, and a program is built by what `pkg-config` says, and by what the command says.
//! The program of the book is built from its page.

use std::process::Command;

use fuchsine_tests::c::compiler;
use fuchsine_tests::clients::require_client;
use fuchsine_tests::command::{c_library, fuchsine};
use fuchsine_tests::process::run;
use fuchsine_tests::source::root;
use tempfile::TempDir;

/// Builds a program of `host/abi/tests/c` with these flags, and runs one of its claims.
fn builds_with(flags: &[String], prefix: &TempDir) {
    let program = prefix.path().join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-pthread", "-o"]).arg(&program).arg(root().join("host/abi/tests/c/env.c"));
    run(cc.args(flags)).expect_success();
    run(Command::new(&program).arg("it_starts_once").env("LD_LIBRARY_PATH", prefix.path().join("lib")))
        .expect_success();
}

fn words(lines: &[String]) -> Vec<String> {
    lines.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect()
}

#[test]
fn an_installed_library_is_found_by_pkg_config_and_by_the_command() {
    let (Some(_), Some(pkg_config)) = (require_client("cc"), require_client("pkg-config")) else { return };
    let prefix = TempDir::new().expect("a folder");
    let install = root().join("host/abi/install");
    run(Command::new(&install).arg(prefix.path()).arg(c_library())).expect_success();

    let pc = prefix.path().join("lib/pkgconfig");
    let asked = |what: &str| run(Command::new(&pkg_config).args([what, "fuchsine"]).env("PKG_CONFIG_PATH", &pc));
    let version = asked("--modversion").expect_success().stdout;
    assert_eq!(version, [env!("CARGO_PKG_VERSION")]);
    let flags = [asked("--cflags").expect_success().stdout, asked("--libs").expect_success().stdout].concat();
    builds_with(&words(&flags), &prefix);

    std::fs::create_dir(prefix.path().join("bin")).expect("made");
    let command = prefix.path().join("bin/fuchsine");
    // By a process of its own: a child that another test starts meanwhile would inherit the file open for writing, and
    // what is open for writing cannot be run.
    run(Command::new("cp").arg(fuchsine()).arg(&command)).expect_code(0);
    let says = |what: &str| run(Command::new(&command).arg(what)).expect_success().stdout;
    builds_with(&words(&[says("cflags"), says("libs")].concat()), &prefix);
    // Installed over what is there.
    run(Command::new(&install).arg(prefix.path()).arg(c_library())).expect_success();
}

#[test]
fn what_is_not_installed_is_named() {
    let folder = TempDir::new().expect("a folder");
    let command = folder.path().join("fuchsine");
    std::fs::copy(fuchsine(), &command).expect("copied");
    for what in ["cflags", "libs"] {
        let said = run(Command::new(&command).arg(what)).expect_code(1);
        assert!(said.stderr.contains("is not there") && said.stdout.is_empty(), "{said:?}");
    }
    let install = root().join("host/abi/install");
    let said = run(Command::new(&install).arg(folder.path()).arg(folder.path().join("nothing.so"))).expect_code(1);
    assert!(said.stderr.contains("second argument"), "{said:?}");
    run(&mut Command::new(install)).expect_code(2);
}

/// The program of the how-to, as it stands on the page.
#[test]
fn the_program_of_the_book_runs() {
    let Some(_) = require_client("cc") else { return };
    let page = std::fs::read_to_string(root().join("docs/src/how-to/program-in-c.md")).expect("readable");
    let source = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there is a program");
    let folder = TempDir::new().expect("a folder");
    let (file, program) = (folder.path().join("sensor.c"), folder.path().join("sensor"));
    std::fs::write(&file, source).expect("written");
    let library = c_library().parent().expect("a file is in a folder");
    let mut cc = compiler("cc").expect("it is there");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-o"]).arg(&program).arg(file).arg("-L").arg(library).arg("-lfuchsine");
    run(&mut cc).expect_success();
    let printed = run(Command::new(program).env("LD_LIBRARY_PATH", library)).expect_success().stdout;
    assert_eq!(printed, ["sample 1", "sample 2", "sample 3", "sample 4", "sample 5"]);
}
