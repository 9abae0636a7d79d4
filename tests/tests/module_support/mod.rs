//! A folder of a test's own with copies of modules, which it may spoil.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use fuchsine_tests::{
    c::compiler,
    command,
    host::{Host, bare_command, command as run_command},
    nbd::{Address, CMD_FLUSH, Client},
    process::{Finished, run},
    random::Random,
    source,
};
use tempfile::TempDir;

/// Nobody else may write here, so modules in it are taken.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        mode(folder.path(), 0o700);
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A copy of the module of this driver, under its own name.
    pub fn module(&self, driver: &str) -> PathBuf {
        self.copy(driver, &format!("lib{driver}.so"))
    }

    /// A copy of the module of this driver, under another name.
    pub fn copy(&self, driver: &str, name: &str) -> PathBuf {
        self.put(name, &module_bytes(driver))
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).expect("the file can be written");
        mode(&path, 0o644);
        path
    }

    /// A manifest beside the modules.
    pub fn manifest(&self, text: &str) -> PathBuf {
        self.put("host.toml", text.as_bytes())
    }

    /// `fuchsine check` of a manifest in this folder.
    pub fn check(&self, text: &str) -> Finished {
        run(bare_command().arg("check").arg(self.manifest(text)))
    }

    /// A host that runs a manifest in this folder.
    #[track_caller]
    pub fn run(&self, text: &str, options: &[&str]) -> Host {
        let manifest = self.manifest(text);
        Host::start_command(run_command().arg(manifest).args(options))
    }
}

/// An installation of the command and of what drivers in C need, below `prefix`. The command is built as the tests are.
///
/// # Panics
/// When it cannot be installed.
pub fn install(prefix: &Path) -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    cargo.args(["install", "--offline", "--locked", "--debug", "--no-track", "--path"]);
    cargo.arg(source::root().join("host/cli")).arg("--root").arg(prefix);
    // As long as it takes: a compiler is no program that may hang.
    let output = cargo.output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    run(Command::new(source::root().join("host/abi/install")).arg(prefix).arg(command::c_library())).expect_success();
    prefix.join("bin/fuchsine")
}

pub fn module_bytes(driver: &str) -> Vec<u8> {
    fs::read(command::module(driver)).expect("Cargo has built it")
}

pub fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Where the description of the note begins in the bytes of a module.
pub fn note_at(bytes: &[u8]) -> usize {
    let name = b"Fuchsine\0\0\0\0";
    let found = bytes.windows(name.len()).position(|window| window == name);
    found.expect("a module has a note") + name.len()
}

/// Writes, reads back, flushes, and is refused what makes no sense: the same whatever the drivers are.
#[track_caller]
pub fn converse(host: &Host, size: u64) {
    converse_at(&host.address(), size);
}

/// The same with whoever serves an address.
#[track_caller]
pub fn converse_at(address: &Address, size: u64) {
    let mut client = Client::connect(address).expect("the server answers");
    assert_eq!(client.size(), size);
    let mut random = Random::new(size);
    for round in 0..20 {
        let length = 512 * (1 + random.below(16));
        let offset = 512 * random.below((size as usize - length) / 512);
        let (offset, data) = (offset as u64, random.bytes(length));
        client.write(offset, &data).expect("it is written");
        assert_eq!(client.read(offset, length as u32).expect("it is read"), data, "round {round}");
    }
    assert_eq!(client.command(CMD_FLUSH, 0, 0, 0, &[]).expect("it is flushed"), 0);
    let beyond = client.command(fuchsine_tests::nbd::CMD_READ, 0, size, 512, &[]).expect("it is answered");
    assert_ne!(beyond, 0, "a read behind the end is refused");
    client.disconnect().expect("it says goodbye");
}

/// A module in C, linked with the library, that runs where it was built; `None` after a loud line if there is no compiler.
#[track_caller]
pub fn build(file: &Path, folder: &Folder, name: &str) -> Option<PathBuf> {
    let library = command::c_library().parent().expect("a file is in a folder");
    let found = ["-L", &library.display().to_string(), "-lfuchsine", &format!("-Wl,-rpath,{}", library.display())]
        .map(str::to_owned);
    build_with(file, folder, name, &found)
}

/// As [`build`], with these options of the compiler in place of those for the library.
#[track_caller]
pub fn build_with(file: &Path, folder: &Folder, name: &str, libraries: &[String]) -> Option<PathBuf> {
    let module = folder.path().join(name);
    let mut cc = compiler("cc")?;
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o"]).arg(&module).arg(file).args(libraries);
    run(&mut cc).expect_success();
    mode(&module, 0o755);
    Some(module)
}
