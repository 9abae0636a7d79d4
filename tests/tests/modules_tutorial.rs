//! Goal: whoever follows a tutorial has, in a place that is not ours, a module that an installed host loads.
//! Method: the files are taken from the page, word by word but for the place of the clone, and the commands from the one on C; what
//! the page says that the command writes is compared with what it writes. The host is installed by `cargo install`.

mod module_support;

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
};

use fuchsine_tests::{
    clients::require_client,
    host::Host,
    process::{eventually, run},
    source,
};
use module_support::{Folder, install, mode};

const PAGE: &str = "docs/src/tutorials/a-driver-of-your-own.md";
const PAGE_ON_C: &str = "docs/src/tutorials/a-driver-in-c.md";
/// The path of the clone as the page has it.
const CLONE: &str = "../../fuchsine";

/// The blocks of code of the page in this language, without the lines that a reader does not see.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let parts = page.split("```").skip(1).step_by(2);
    let of_language = parts.filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n'));
    let shown = |line: &&str| *line != "#" && !line.starts_with("# ");
    of_language.map(|block| block.lines().filter(shown).fold(String::new(), |text, line| text + line + "\n")).collect()
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
    fs::write(path, text).expect("the file can be written");
}

#[test]
fn a_driver_of_another_workspace_is_built_as_the_tutorial_says_and_loaded() {
    let page = fs::read_to_string(source::root().join(PAGE)).expect("the page");
    let (toml, rust, text) = (blocks(&page, "toml"), blocks(&page, "rust"), blocks(&page, "text"));
    let [workspace, driver, module, manifest] = toml.as_slice() else { panic!("the page has four files: {toml:?}") };
    let [driver_code, module_code] = rust.as_slice() else { panic!("the page has two sources: {rust:?}") };
    let folder = Folder::new();
    let root = folder.path();
    let package = |name: &str, rest: &str| {
        let root = source::root().display().to_string();
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n{}",
            rest.replace(CLONE, &root)
        )
    };
    write(root.join("Cargo.toml"), workspace);
    write(root.join("driver/Cargo.toml"), &package("greeting-driver", &format!("[dependencies]\n{driver}")));
    write(root.join("module/Cargo.toml"), &package("greeting-module", module));
    write(root.join("driver/src/lib.rs"), driver_code);
    write(root.join("module/src/lib.rs"), module_code);
    write(root.join("host.toml"), manifest);
    // The versions that this workspace has, so that nothing is downloaded.
    fs::copy(source::root().join("Cargo.lock"), root.join("Cargo.lock")).expect("the lock file");

    let built = build(root);
    let place = root.join("target/release/libgreeting.so");
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(built, &place).expect("the module can be copied");
    for path in [&root.join("target"), &root.join("target/release"), &place] {
        mode(path, 0o755);
    }

    let fuchsine = install(&root.join("installed"));
    let says = |arguments: &[&str]| run(Command::new(&fuchsine).args(arguments).current_dir(root)).expect_success();
    assert_eq!(says(&["drivers", "target/release/libgreeting.so"]).stdout.join("\n") + "\n", text[0]);
    says(&["check", "host.toml"]);
    let host = Host::start_command(Command::new(&fuchsine).args(["run", "host.toml"]).current_dir(root));
    let address = host.addresses()[0].strip_prefix("tcp://").expect("the page says so").to_owned();
    let mut greeting = String::new();
    let stream = TcpStream::connect(address).expect("it listens");
    BufReader::new(stream).read_line(&mut greeting).expect("it greets");
    assert_eq!(greeting, text[1]);
    let log = host.stop().stderr;
    assert!(log.contains("somebody is there driver=\"greeting\" peer="), "{log}");
}

/// Builds the module, in a target folder that is kept for the next time, and returns its file.
fn build(root: &Path) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| source::root().join("target"), PathBuf::from);
    let target = target.join("tutorial");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    cargo.args(["build", "--offline", "-p", "greeting-module"]).current_dir(root).env("CARGO_TARGET_DIR", &target);
    // As long as it takes: a compiler is no program that may hang.
    let output = cargo.output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug/libgreeting.so")
}

#[test]
fn a_driver_in_c_is_built_as_the_tutorial_says_and_loaded() {
    let Some(_) = require_client("cc") else { return };
    let page = fs::read_to_string(source::root().join(PAGE_ON_C)).expect("the page");
    let (c, toml, shell, text) =
        (blocks(&page, "c"), blocks(&page, "toml"), blocks(&page, "sh"), blocks(&page, "text"));
    let folder = Folder::new();
    let (root, home) = (folder.path().join("work"), folder.path().join("home"));
    write(root.join("ticker.c"), &c[0]);
    write(root.join("host.toml"), &toml[0]);
    install(&home.join(".local"));
    for path in [&root, &root.join("host.toml")] {
        mode(path, 0o755);
    }
    let path = format!("{}:{}", home.join(".local/bin").display(), env::var("PATH").unwrap_or_default());
    let in_place = |command: &mut Command| {
        // Cargo's own would lead to a library that is not installed.
        command.current_dir(&root).env("HOME", &home).env("PATH", &path).env_remove("LD_LIBRARY_PATH");
    };
    // The first block installs, which is done, from a place that the reader has chosen.
    let [installs, flags, build, runs] = shell.as_slice() else { panic!("the page has four blocks: {shell:?}") };
    assert_eq!(*installs, "cargo install --path host/cli --root \"$HOME/.local\"\nhost/abi/install \"$HOME/.local\"\n");
    let shell = |block: &str| {
        let mut shell = Command::new("sh");
        in_place(shell.args(["-euc", &format!("umask 022\n{block}")]));
        run(&mut shell).expect_success().stdout.join("\n") + "\n"
    };
    assert!(shell(flags).contains(&home.join(".local/lib").display().to_string()));
    assert_eq!(shell(build), text[0]);
    assert_eq!(*runs, "fuchsine run host.toml\n");
    let mut command = Command::new(home.join(".local/bin/fuchsine"));
    in_place(command.args(["run", "host.toml"]));
    let host = Host::start_command(&mut command);
    for line in text[1].lines() {
        eventually(line, || host.stderr_so_far().contains(line));
    }
    host.stop();

    // What the page calls a mistake is told as one.
    folder.put("work/host.toml", toml[0].replace("200ms", "0s").as_bytes());
    let mut command = Command::new(home.join(".local/bin/fuchsine"));
    in_place(command.args(["run", "host.toml"]));
    let failed = run(&mut command);
    assert!(!failed.status.success() && failed.stderr.contains("it cannot tick so often"), "{}", failed.stderr);
}
