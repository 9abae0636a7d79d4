//! Goal: what is no module, was built for another host, or could have been put there by somebody else is not loaded, and
//! each such case is told by its name with what to do.
//! Method: good modules are spoilt in one way each; the problem, the sentence and the help are compared, and that nothing
//! of the file was mapped.

mod module_support;

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
};

use fuchsine_host::{Module, ModuleError, ModuleProblem, Writers};
use fuchsine_tests::random::Random;
use module_support::{Folder, mode, module_bytes, note_at};

/// Why the module is not used, which looking at it and loading it agree about.
#[track_caller]
fn refusal(path: &Path) -> ModuleError {
    let inspected = Module::inspect(path).expect_err("it is refused");
    let loaded = Module::load(path).expect_err("it is refused");
    assert_eq!(inspected, loaded);
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
    assert!(!maps.contains("memfd:fuchsine"), "nothing of it is mapped: {maps}");
    assert!(!loaded.help().is_empty());
    loaded
}

#[track_caller]
fn spoilt(folder: &Folder, spoil: impl FnOnce(&mut Vec<u8>)) -> ModuleError {
    let mut bytes = module_bytes("misbehaver");
    spoil(&mut bytes);
    refusal(&folder.put("spoilt.so", &bytes))
}

fn put_number(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
}

#[test]
fn another_version_of_the_interface_is_refused_and_both_are_named() {
    let folder = Folder::new();
    let error = spoilt(&folder, |bytes| {
        let at = note_at(bytes);
        put_number(bytes, at + 4, 77);
    });
    assert!(matches!(error.problem(), ModuleProblem::Version { theirs: 77, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("version 77") && text.contains("host has version 1"), "{text}");
    assert!(error.help().contains("fuchsine-driver"), "{}", error.help());

    let error = spoilt(&folder, |bytes| {
        let at = note_at(bytes);
        put_number(bytes, at + 8, 900);
        put_number(bytes, at + 16, 1 << 20);
    });
    assert!(matches!(error.problem(), ModuleProblem::Revision { theirs: 900, .. }), "{error:?}");
    assert!(error.to_string().contains("needs revision 900"), "{error}");

    let error = spoilt(&folder, |bytes| {
        let at = note_at(bytes);
        put_number(bytes, at + 24, 8);
    });
    assert!(matches!(error.problem(), ModuleProblem::Older { .. }), "{error:?}");
}

#[test]
fn a_note_that_makes_no_sense_and_a_library_without_one_are_told_apart() {
    let folder = Folder::new();
    let error = spoilt(&folder, |bytes| {
        let at = note_at(bytes);
        put_number(bytes, at + 12, 5000);
    });
    assert!(matches!(error.problem(), ModuleProblem::BadNote(_)), "{error:?}");
    let error = spoilt(&folder, |bytes| {
        let at = note_at(bytes);
        bytes[at - 12] = b'f';
    });
    assert_eq!(*error.problem(), ModuleProblem::NoNote);
    assert!(error.help().contains("fuchsine_driver::export!"), "{}", error.help());
}

#[test]
fn a_file_of_another_kind_or_for_another_machine_is_told_as_that() {
    let folder = Folder::new();
    assert_eq!(*refusal(&folder.put("a.so", b"#!/bin/sh\necho no\n")).problem(), ModuleProblem::NotElf);
    assert_eq!(*refusal(&folder.put("b.so", b"")).problem(), ModuleProblem::NotElf);
    let other = if cfg!(target_arch = "x86_64") { (183u16, "aarch64") } else { (62, "x86_64") };
    let error = spoilt(&folder, |bytes| bytes[18..20].copy_from_slice(&other.0.to_ne_bytes()));
    assert!(matches!(error.problem(), ModuleProblem::Machine { theirs, .. } if theirs == other.1), "{error:?}");
    let error = spoilt(&folder, |bytes| bytes[4] = 3 - bytes[4]);
    assert!(error.to_string().contains("bits"), "{error}");
    let error = spoilt(&folder, |bytes| bytes[5] = 3 - bytes[5]);
    assert!(error.to_string().contains("endian"), "{error}");
    // Type EXEC.
    assert_eq!(*spoilt(&folder, |bytes| bytes[16] = 2).problem(), ModuleProblem::NotShared);
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_told_as_that() {
    let folder = Folder::new();
    let whole = module_bytes("misbehaver");
    let lengths = (4..70).chain((1..60).map(|part| whole.len() / 60 * part)).chain([whole.len() - 1]);
    for length in lengths {
        let error = refusal(&folder.put("cut.so", &whole[..length]));
        assert!(matches!(error.problem(), ModuleProblem::Truncated { .. }), "{length} of {}: {error}", whole.len());
    }
}

#[test]
fn whatever_stands_in_the_head_or_the_note_the_answer_is_an_answer() {
    let folder = Folder::new();
    let mut random = Random::from_environment();
    let whole = module_bytes("misbehaver");
    let note = note_at(&whole);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(6) {
            let near = if random.below(2) == 0 { 0 } else { note - 24 };
            let at = near + random.below(600);
            bytes[at] = random.below(256) as u8;
        }
        // Only looked at: a head with another byte that makes sense is that of another good file.
        let _ = Module::inspect(&folder.put("noise.so", &bytes));
    }
}

#[test]
fn a_link_is_not_followed_wherever_it_is_and_the_real_path_is_named() {
    let folder = Folder::new();
    let real = folder.module("misbehaver").canonicalize().unwrap();
    let link = folder.path().join("link.so");
    symlink(&real, &link).unwrap();
    let error = refusal(&link);
    assert_eq!(*error.problem(), ModuleProblem::Link { real: Some(real.clone()) });
    assert!(error.help().contains(real.to_str().unwrap()), "{}", error.help());

    let way = folder.path().join("way");
    symlink(folder.path(), &way).unwrap();
    let error = refusal(&way.join("libmisbehaver.so"));
    assert_eq!(*error.problem(), ModuleProblem::Link { real: Some(real) });
    assert_eq!(error.at(), way);
    // One that leads nowhere, and one that leads in a circle.
    symlink("/nowhere/at/all", folder.path().join("dangling.so")).unwrap();
    symlink("circle.so", folder.path().join("circle.so")).unwrap();
    for name in ["dangling.so", "circle.so"] {
        assert_eq!(*refusal(&folder.path().join(name)).problem(), ModuleProblem::Link { real: None });
    }
}

#[test]
fn what_others_can_write_is_refused_with_the_command_that_ends_it() {
    let folder = Folder::new();
    let path = folder.module("misbehaver");
    for (bits, by) in [(0o666, Writers::Everybody), (0o664, Writers::Group), (0o646, Writers::Everybody)] {
        mode(&path, bits);
        let error = refusal(&path);
        assert_eq!(*error.problem(), ModuleProblem::Writable { by });
        assert!(error.help().contains(&format!("chmod go-w {}", path.display())), "{}", error.help());
    }
    mode(&path, 0o644);
    Module::inspect(&path).expect("it is as it was");
}

#[test]
fn a_folder_that_others_can_write_to_is_refused_however_far_up_it_is() {
    let folder = Folder::new();
    let (upper, lower) = (folder.path().join("upper"), folder.path().join("upper/lower"));
    fs::create_dir_all(&lower).unwrap();
    let path = lower.join("libmisbehaver.so");
    fs::rename(folder.module("misbehaver"), &path).unwrap();
    let set = |upper_mode, lower_mode| {
        mode(&upper, upper_mode);
        mode(&lower, lower_mode);
    };
    for (modes, at, by) in [
        ((0o777, 0o755), &upper, Writers::Everybody),
        ((0o775, 0o755), &upper, Writers::Group),
        ((0o755, 0o777), &lower, Writers::Everybody),
        // A sticky folder keeps others from exchanging the file, not from adding one.
        ((0o755, 0o1777), &lower, Writers::Everybody),
    ] {
        set(modes.0, modes.1);
        let error = refusal(&path);
        assert_eq!((error.problem(), error.at()), (&ModuleProblem::Writable { by }, at.as_path()), "{modes:?}");
        assert!(error.to_string().contains(&format!("the folder `{}`", at.display())), "{error}");
    }
    // Further up it is good enough: /tmp is one.
    set(0o1777, 0o755);
    Module::inspect(&path).expect("nobody can rename what is ours there");
}

#[test]
fn a_file_of_somebody_else_is_refused_with_their_number() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can give a file to somebody else");
        assert!(std::env::var_os("FUCHSINE_REQUIRE_CLIENTS").is_none(), "CI runs as root");
        return;
    }
    let folder = Folder::new();
    let path = folder.module("misbehaver");
    std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
    let error = refusal(&path);
    assert_eq!(*error.problem(), ModuleProblem::Owner { owner: 4711 });
    assert!(error.to_string().contains("user 4711") && error.help().contains("chown"), "{error} {}", error.help());
    std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    std::os::unix::fs::chown(folder.path(), Some(4711), None).unwrap();
    assert_eq!(refusal(&path).at(), folder.path());
}

#[test]
fn a_file_with_a_bit_that_gives_rights_is_refused() {
    let folder = Folder::new();
    let path = folder.module("misbehaver");
    for bits in [0o4755, 0o2755] {
        mode(&path, bits);
        assert_eq!(*refusal(&path).problem(), ModuleProblem::SetId, "{bits:o}");
    }
}

#[test]
fn what_is_no_file_is_refused_without_being_opened() {
    let folder = Folder::new();
    let pipe = folder.path().join("pipe.so");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let socket = folder.path().join("socket.so");
    let _bound = UnixListener::bind(&socket).unwrap();
    let inner = folder.path().join("folder.so");
    fs::create_dir(&inner).unwrap();
    for path in [&pipe, &socket, &inner] {
        // A pipe that is opened for reading would wait for a writer.
        assert_eq!(*refusal(path).problem(), ModuleProblem::NotAFile, "{}", path.display());
    }
    assert_eq!(*refusal(&folder.path().join("absent.so")).problem(), ModuleProblem::Missing);
    let through_a_file = folder.module("misbehaver").join("x.so");
    assert_eq!(*refusal(&through_a_file).problem(), ModuleProblem::NotAFolder);
}

#[test]
fn a_manifest_with_a_refused_module_is_shown_with_the_line_and_the_help() {
    let folder = Folder::new();
    mode(&folder.module("misbehaver"), 0o666);
    let finished = folder.check("[drivers.m]\nmodule = \"libmisbehaver.so\"\n").expect_code(4);
    assert!(finished.stderr.contains("can be changed by every user of this machine"), "{}", finished.stderr);
    assert!(finished.stderr.contains("host.toml:2:10"), "{}", finished.stderr);
    assert!(finished.stderr.contains("= help: if you trust what is there now: `chmod go-w "), "{}", finished.stderr);
    // One that was looked for by its name is told too: it may be the one that was meant.
    let text = format!("[host]\nmodule_path = [{:?}]\n[drivers.misbehaver]\n", folder.path().display().to_string());
    let finished = folder.check(&text).expect_code(4);
    assert!(finished.stderr.contains("there is no driver `misbehaver`"), "{}", finished.stderr);
    assert!(finished.stderr.contains("not used: module `"), "{}", finished.stderr);
}
