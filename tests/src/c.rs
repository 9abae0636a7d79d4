//! Programs in C that are compiled against our headers and linked with our library.
//!
//! Purpose: what the C interface promises is shown by programs that know nothing of Rust. A program is a file of
//! `host/abi/tests/c`, with a list of claims (see `check.h` there). Each claim runs in a process of its own, since a process
//! has one environment, and since some claims are that the process ends.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::clients::require_client;
use crate::command::c_library;
use crate::process::{Process, run};
use crate::source;

/// How long one claim may take: it waits for nothing that does not come at once.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(120);

/// Where the headers are.
pub fn include() -> PathBuf {
    source::root().join("host/abi/include")
}

/// A compiler for C, with what it is always told; `None` after a loud line if there is none.
#[track_caller]
pub fn compiler(name: &str) -> Option<Command> {
    let mut command = Command::new(require_client(name)?);
    command
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-braces", "-g", "-pthread", "-I"])
        .arg(include());
    Some(command)
}

/// A compiled program, in a folder that goes with it.
#[derive(Debug)]
pub struct Program {
    folder: TempDir,
}

impl Program {
    /// Compiles a file of `host/abi/tests/c`, linked with the library. `None` after a loud line if there is no compiler.
    ///
    /// # Panics
    /// When it does not compile.
    #[track_caller]
    pub fn compile(file: &str) -> Option<Program> {
        Program::compile_with(file, &[])
    }

    /// Compiles it as a module that can be loaded.
    ///
    /// # Panics
    /// When it does not compile.
    #[track_caller]
    pub fn module(file: &str) -> Option<Program> {
        Program::compile_with(file, &["-shared", "-fPIC"])
    }

    #[track_caller]
    fn compile_with(file: &str, options: &[&str]) -> Option<Program> {
        let folder = TempDir::new().expect("there is room for a program");
        let library = c_library().parent().expect("a file is in a folder");
        let mut command = compiler("cc")?;
        command
            .args(["-std=c11", "-D_GNU_SOURCE", "-o"])
            .arg(folder.path().join("program"))
            .args(options)
            .arg(source::root().join("host/abi/tests/c").join(file))
            .arg("-L")
            .arg(library)
            .arg("-lfuchsine")
            .arg(format!("-Wl,-rpath,{}", library.display()));
        run(&mut command).expect_success();
        Some(Program { folder })
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }
}

/// What a program claims: the name, and the text that the process says before it aborts, if that is what it does.
fn claims(program: &Path) -> Vec<(String, Option<String>)> {
    let listed = run(Command::new(program).arg("--list")).expect_success();
    let claim = |line: &String| match line.split_once('\t') {
        Some((name, text)) => (name.to_owned(), Some(text.to_owned())),
        None => (line.clone(), None),
    };
    listed.stdout.iter().map(claim).collect()
}

/// With this set, claims run under memcheck, and what that finds is a claim that does not hold.
const MEMCHECK: &str = "FUCHSINE_MEMCHECK";

/// The program, to be run for a claim.
#[track_caller]
fn to_run(program: &Path) -> Option<Command> {
    if std::env::var_os(MEMCHECK).is_none() {
        return Some(Command::new(program));
    }
    let mut valgrind = Command::new(require_client("valgrind")?);
    valgrind.args([
        "--quiet",
        "--vgdb=no",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ]);
    valgrind.args(["--show-leak-kinds=definite", "--fair-sched=yes"]).arg(program);
    Some(valgrind)
}

/// Compiles a file of `host/abi/tests/c` and runs each of its claims.
///
/// # Panics
/// When one does not hold, with what all of them said that do not.
#[track_caller]
pub fn check(file: &str) {
    let Some(program) = Program::compile(file) else { return };
    let claims = claims(&program.path());
    assert!(!claims.is_empty(), "{file} claims nothing");
    let mut wrong = Vec::new();
    for (name, dies) in claims {
        let Some(mut command) = to_run(&program.path()) else { return };
        let ended = Process::start(command.arg(&name)).wait(LIMIT);
        use std::os::unix::process::ExitStatusExt;
        let holds = match &dies {
            None => ended.status.success(),
            Some(text) => ended.status.signal() == Some(6) && ended.stderr.contains(text.as_str()),
        };
        if !holds {
            let expected = dies.map_or_else(String::new, |text| format!(", expected to abort and to say: {text}"));
            wrong.push(format!("{name}: {}{expected}\n{}\n{}", ended.status, ended.stdout.join("\n"), ended.stderr));
        }
    }
    assert!(wrong.is_empty(), "{file}:\n{}", wrong.join("\n"));
}
