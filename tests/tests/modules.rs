//! Goal: a driver that is loaded as a module is the driver that it is when it is linked in.
//! Method: hosts with the example drivers linked, loaded, and mixed have the same conversation with a client; modules
//! are found by name on the search path, and exchanged and spoilt on disk while they run.

mod module_support;

use std::{fs, process::Command};

use fuchsine_host::{Module, ModuleProblem};
use fuchsine_tests::{clients::require_client, host::bare_command, process::run, summary::Summary};
use module_support::{Folder, converse, mode, module_bytes};

const MIB: u64 = 1 << 20;

/// Both drivers, each with the line that says where it is from.
fn manifest(ramdisk: &str, nbd: &str) -> String {
    format!(
        "[drivers.ramdisk]\n{ramdisk}\nconfig = {{ size = \"1MiB\" }}\n[drivers.nbd]\n{nbd}\n\
         config = {{ listen = \"127.0.0.1:0\", export = \"disk\" }}\n"
    )
}

const LOADED: [&str; 2] = ["module = \"libramdisk.so\"", "module = \"libnbd.so\""];

#[test]
fn each_example_has_the_same_conversation_linked_and_loaded() {
    let folder = Folder::new();
    folder.module("ramdisk");
    folder.module("nbd");
    let mut accepted = Vec::new();
    for (ramdisk, nbd) in [("", ""), (LOADED[0], LOADED[1]), ("", LOADED[1]), (LOADED[0], "")] {
        let host = folder.run(&manifest(ramdisk, nbd), &[]);
        converse(&host, MIB);
        let summary = Summary::parse(&host.stop().stderr);
        for driver in summary.drivers() {
            assert_eq!(driver.pending, 0, "{ramdisk} {nbd}: {driver:?}");
            assert_eq!(driver.accepted, driver.ran + driver.canceled + driver.taken_back, "{driver:?}");
        }
        accepted.push(summary.drivers().map(|driver| driver.name.clone()).collect::<Vec<_>>());
    }
    assert!(accepted.windows(2).all(|pair| pair[0] == pair[1]), "{accepted:?}");
}

/// Calls, tokens, irqs, suspend: the driver checks its host, and what it says of it is in its address.
#[test]
fn what_a_host_promises_to_drivers_holds_for_one_that_is_loaded() {
    let folder = Folder::new();
    folder.module("selftest");
    for suspended in [false, true] {
        let manifest =
            format!("[drivers.selftest]\nmodule = \"libselftest.so\"\nconfig = {{ suspended = {suspended} }}\n");
        let host = folder.run(&manifest, &[]);
        assert_eq!(host.addresses(), ["selftest:holds"]);
        let finished = host.stop();
        let summary = Summary::parse(&finished.stderr);
        let driver = summary.drivers().next().expect("it is there");
        assert_eq!(driver.pending, 0, "{driver:?}");
        assert_eq!(driver.accepted, driver.ran + driver.canceled + driver.taken_back, "{driver:?}");
    }
}

#[test]
fn a_client_of_others_works_with_loaded_drivers() {
    let Some(qemu_io) = require_client("qemu-io") else { return };
    let folder = Folder::new();
    folder.module("ramdisk");
    folder.module("nbd");
    let host = folder.run(&manifest(LOADED[0], LOADED[1]), &[]);
    let commands =
        ["-c", "write -P 0x5a 4k 64k", "-c", "read -P 0x5a 4k 64k", "-c", "read -P 0 128k 64k", "-c", "flush"];
    let finished = run(Command::new(qemu_io).args(["-f", "raw"]).args(commands).arg(host.uri())).expect_success();
    let text = finished.stdout.join("\n");
    assert!(!text.contains("failed") && !text.contains("error"), "{text}");
    host.stop();
}

#[test]
fn a_name_is_that_of_a_linked_driver_first_and_else_of_a_module_on_the_search_path() {
    let folder = Folder::new();
    let modules = folder.path().join("modules");
    fs::create_dir(&modules).unwrap();
    mode(&modules, 0o755);
    // The name of the file says nothing.
    fs::copy(folder.copy("misbehaver", "any.so"), modules.join("any.so")).unwrap();
    fs::copy(folder.copy("ramdisk", "another.so"), modules.join("another.so")).unwrap();
    fs::write(modules.join("README"), "no module").unwrap();

    // Beside the manifest, in `modules`.
    let host = folder.run("[drivers.m]\ndriver = \"misbehaver\"\n[drivers.ramdisk]\n", &["--log", "debug"]);
    let log = host.stop().stderr;
    let loaded: Vec<_> = log.lines().filter(|line| line.contains("runs code of a module")).collect();
    assert!(loaded.iter().any(|line| line.contains("driver=\"m\"") && line.contains("any.so")), "{log}");
    assert!(!loaded.iter().any(|line| line.contains("driver=\"ramdisk\"")), "the linked one comes first: {loaded:?}");

    // In a folder that the manifest names, and in one of the environment, which comes before it.
    let other = Folder::new();
    let text = format!("[host]\nmodule_path = [{:?}]\n[drivers.misbehaver]\n", modules.display().to_string());
    other.check(&text).expect_success();
    let nowhere = other.check("[drivers.misbehaver]\n").expect_code(4);
    assert!(nowhere.stderr.contains("there is no driver `misbehaver`"), "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("no module in "), "{}", nowhere.stderr);
    run(bare_command().arg("check").arg(other.path().join("host.toml")).env("FUCHSINE_MODULE_PATH", &modules))
        .expect_success();
}

#[test]
fn two_modules_of_one_folder_with_the_same_driver_are_a_question_that_the_user_answers() {
    let folder = Folder::new();
    folder.copy("misbehaver", "one.so");
    folder.copy("misbehaver", "two.so");
    let text = format!("[host]\nmodule_path = [{:?}]\n", folder.path().display().to_string());
    let several = folder.check(&format!("{text}[drivers.misbehaver]\n")).expect_code(4);
    assert!(several.stderr.contains("two modules have a driver `misbehaver`"), "{}", several.stderr);
    assert!(several.stderr.contains("one.so\""), "the help says what to write: {}", several.stderr);
    folder.check(&format!("{text}[drivers.misbehaver]\nmodule = \"two.so\"\n")).expect_success();
}

#[test]
fn a_table_that_names_a_module_gets_a_driver_of_it_or_hears_which_there_are() {
    let folder = Folder::new();
    folder.module("ramdisk");
    // The only one need not be named.
    folder.check("[drivers.disk]\nmodule = \"libramdisk.so\"\n").expect_success();
    folder.check("[drivers.disk]\nmodule = \"libramdisk.so\"\ndriver = \"ramdisk\"\n").expect_success();
    let wrong = folder.check("[drivers.disk]\nmodule = \"libramdisk.so\"\ndriver = \"ramdsk\"\n").expect_code(4);
    assert!(wrong.stderr.contains("has no driver `ramdsk`; did you mean `ramdisk`?"), "{}", wrong.stderr);
    // Its configuration is checked as that of a linked driver is.
    let key = folder.check("[drivers.disk]\nmodule = \"libramdisk.so\"\nconfig.sise = 1\n").expect_code(4);
    assert!(key.stderr.contains("has no key `sise`; did you mean `size`?"), "{}", key.stderr);
    let kind = folder.check("[drivers.disk]\nmodule = 7\n").expect_code(4);
    assert!(kind.stderr.contains("`module` must be a string"), "{}", kind.stderr);
}

#[test]
fn a_module_that_is_spoilt_or_removed_while_it_runs_goes_on_as_it_was() {
    let folder = Folder::new();
    let (ramdisk, nbd) = (folder.module("ramdisk"), folder.module("nbd"));
    let host = folder.run(&manifest(LOADED[0], LOADED[1]), &[]);
    converse(&host, MIB);
    // Cut off in place, which ends a process that has the file itself mapped.
    fs::OpenOptions::new().write(true).open(&ramdisk).and_then(|file| file.set_len(0)).expect("it is cut off");
    fs::write(&nbd, vec![0xff; 4096]).expect("it is overwritten");
    converse(&host, MIB);
    fs::remove_file(&nbd).expect("it is removed");
    converse(&host, MIB);
    host.stop();
}

#[test]
fn drivers_tells_what_is_in_modules_without_loading_them() {
    let folder = Folder::new();
    let path = folder.module("misbehaver");
    folder.put("libother.so", b"\x7fELF and nothing that makes sense");
    let listing = |arguments: &[&str]| {
        run(bare_command().arg("drivers").args(arguments).env("FUCHSINE_MODULE_PATH", folder.path()))
    };
    let all = listing(&[]).expect_success();
    let text = all.stdout.join("\n");
    assert!(text.contains(&format!("  module: {}", path.display())), "{text}");
    assert!(text.contains("post_forever"), "its keys are listed: {text}");
    assert!(all.stderr.contains("libother.so` is cut off"), "what is not used is told: {}", all.stderr);
    let one = listing(&["--json", path.to_str().unwrap()]).expect_success();
    let value: serde_json::Value = serde_json::from_str(&one.stdout.join("\n")).expect("JSON");
    assert_eq!(value["drivers"].as_array().map(Vec::len), Some(1));
    assert_eq!(value["drivers"][0]["module"], path.to_str().unwrap());
    let refused = listing(&[folder.path().join("libother.so").to_str().unwrap()]).expect_code(5);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("copy it again"), "{refused:?}");
}

#[test]
fn events_of_a_module_are_lines_of_the_host_s_log_with_driver_and_fields() {
    let folder = Folder::new();
    folder.module("misbehaver");
    let text = "[drivers.clumsy]\nmodule = \"libmisbehaver.so\"\nconfig = { leak = 4096 }\n";
    let log = folder.run(text, &["--log-format", "json"]).stop().stderr;
    let line = log.lines().find(|line| line.contains("leaks memory")).unwrap_or_else(|| panic!("{log}"));
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let expected = [
        ("level", "WARN"),
        ("driver", "clumsy"),
        ("bytes", "4096"),
        ("span", "start{node=clumsy}"),
        ("target", "fuchsine_misbehaver::deeds"),
    ];
    for (key, value) in expected {
        assert_eq!(line[key], value, "{key} of {line}");
    }
    // The host's filter is that of its modules too.
    let quiet = folder.run(text, &["--log", "error"]).stop().stderr;
    assert!(!quiet.contains("leaks memory"), "{quiet}");
}

#[test]
fn a_file_that_is_replaced_is_another_module_and_the_loaded_one_stays_as_it_is() {
    let folder = Folder::new();
    let path = folder.module("misbehaver");
    let first = Module::get(&path).expect("it is loaded");
    let entry = first.driver("misbehaver").expect("its driver");
    assert!(std::ptr::eq(Module::get(&path).unwrap().drivers()[0], entry), "the same file is not loaded twice");
    let fresh = Module::load(&path).expect("it is loaded again");
    assert!(!std::ptr::eq(fresh.drivers()[0], entry), "a load is a fresh copy");
    // A newer build, renamed over the old one as package managers do.
    let mut newer = module_bytes("misbehaver");
    let at = module_support::note_at(&newer);
    let doc = b"does what drivers must not";
    let place = newer[at..].windows(doc.len()).position(|window| window == doc).expect("its sentence") + at;
    newer[place..place + 4].copy_from_slice(b"DOES");
    fs::rename(folder.put("new.so", &newer), &path).unwrap();
    assert!(Module::inspect(&path).unwrap().drivers[0].doc.starts_with("DOES"));
    let replaced = Module::get(&path).expect("the new one is loaded");
    assert!(!std::ptr::eq(replaced.drivers()[0], entry));
    assert_eq!((entry.name(), entry.doc().starts_with("does")), ("misbehaver", true));
    assert!(Module::of(entry).is_some() && Module::of(replaced.drivers()[0]).is_some());
}

#[test]
fn a_library_that_needs_what_is_not_there_is_told_in_the_words_of_the_loader() {
    let folder = Folder::new();
    let mut bytes = module_bytes("misbehaver");
    // The name of a library that it needs, in the table of strings.
    let needed = b"libgcc_s.so.1\0";
    let at = bytes.windows(needed.len()).position(|window| window == needed).expect("it unwinds by libgcc");
    bytes[at..at + 6].copy_from_slice(b"libnot");
    let path = folder.put("needs.so", &bytes);
    Module::inspect(&path).expect("its note is good");
    let error = Module::load(&path).expect_err("it needs what is not there");
    assert!(matches!(error.problem(), ModuleProblem::NotLoadable(_)), "{error:?}");
    assert!(error.to_string().contains("libnot"), "{error}");
    assert!(error.help().contains("ldd"), "{}", error.help());
}
