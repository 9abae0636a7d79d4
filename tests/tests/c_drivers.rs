//! Goal: a driver in C is a driver of the host like any other: described, started, conversed with, stopped, and its failures told.
//! Method: the example `c-thermometer` and drivers made for the purpose are compiled by `cc` and loaded; a harness is their host, in
//! virtual time and on threads, and the command.

mod module_support;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use fuchsine_abi::protocol::*;
use fuchsine_driver::{DriverEntry, Message, Status};
use fuchsine_host::{Module, ModuleProblem};
use fuchsine_testing::{ForegroundRuntime, Harness, HarnessBuilder, Peer, Place, Problem, Received};
use fuchsine_tests::{
    command::c_library,
    host::bare_command,
    process::{eventually, run},
    source,
};
use module_support::{Folder, build, build_with};
use rustix::process::Signal;

const READ: u32 = 1;
const WATCH: u32 = 2;
const ALARM: u32 = 3;

/// A message of `thermometer.h`.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    txid: u32,
    ordinal: u32,
    status: i32,
    millidegrees: i32,
    is_above: bool,
}

fn request(txid: u32, ordinal: u32) -> Vec<u8> {
    let mut bytes = [txid.to_ne_bytes(), ordinal.to_ne_bytes()].concat();
    bytes.resize(32, 0);
    bytes
}

fn said(bytes: &[u8]) -> Said {
    assert_eq!(bytes.len(), 32);
    let number = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four"));
    Said {
        txid: number(0).cast_unsigned(),
        ordinal: number(4).cast_unsigned(),
        status: number(8),
        millidegrees: number(12),
        is_above: number(24) != 0,
    }
}

fn hear(peer: &Peer<'_>) -> Said {
    said(&peer.receive_bytes().expect("something is said"))
}

fn reading(txid: u32, ordinal: u32, millidegrees: i32, is_above: bool) -> Said {
    Said { txid, ordinal, status: 0, millidegrees, is_above }
}

/// The example as a module in a folder that nobody else may write to; `None` after a loud line if there is no compiler.
#[track_caller]
fn thermometer(folder: &Folder) -> Option<PathBuf> {
    build(&source::root().join("drivers-examples/c-thermometer/thermometer.c"), folder, "libc-thermometer.so")
}

/// A module of this source.
#[track_caller]
fn made_of(source: &str, folder: &Folder, name: &str) -> Option<PathBuf> {
    let file = folder.put("source.c", source.as_bytes());
    build(&file, folder, name)
}

/// The driver of a module.
fn driver(module: &Path) -> &'static DriverEntry {
    let module = Module::get(module).unwrap_or_else(|error| panic!("{error}: {}", error.help()));
    module.drivers()[0]
}

/// On threads: a foreground runtime waits for no descriptors of the system, and the alert line is one.
fn start<'rt>(folder: &Folder, entry: &'static DriverEntry) -> Harness<'rt> {
    let source = folder.put("temp", b"21000\n");
    let config = format!("source = {:?}\ninterval = '50ms'\nlimit = 30000", source.display().to_string());
    let harness = Harness::builder(entry).config(config).children([("class", "thermometer")]).start(Place::Threads);
    harness.unwrap_or_else(|problem| panic!("{problem}"))
}

#[test]
fn the_thermometer_measures_answers_and_tells_of_alarms() {
    let folder = Folder::new();
    let Some(module) = thermometer(&folder) else { return };
    let harness = start(&folder, driver(&module));
    assert_eq!(harness.node_names(), ["thermometer"]);
    let client = harness.connect_child("thermometer", "thermometer").expect("it is served");
    client.send(&request(7, READ));
    assert_eq!(hear(&client), reading(7, READ, 21_000, false));
    client.send(&request(8, 99));
    assert_eq!((hear(&client).status, client.send(&request(9, WATCH))), (Status::NotSupported.as_raw(), true));
    assert_eq!(hear(&client), reading(9, WATCH, 21_000, false));

    // The timer measures, the chip raises its line, the interrupt tells whoever watches.
    folder.put("temp", b"30001\n");
    harness.advance(Duration::from_millis(60));
    assert_eq!(hear(&client), reading(0, ALARM, 30_001, true));
    folder.put("temp", b"-5000");
    harness.advance(Duration::from_millis(60));
    assert_eq!(hear(&client), reading(0, ALARM, -5_000, false));
    assert!(harness.lines().iter().any(|line| line.contains("30001 thousandths of a degree: above the limit")));

    // Without a source there is no reading, and the driver goes on.
    fs::remove_file(folder.path().join("temp")).expect("it is there");
    harness.advance(Duration::from_millis(60));
    let mut last = reading(0, 0, 0, false);
    harness.run_until(|| {
        client.send(&request(10, READ));
        last = hear(&client);
        last.status != 0
    });
    assert_eq!(last.status, Status::NotFound.as_raw());

    // Another one sends what is no request, and is alone with that.
    let other = harness.connect_child("thermometer", "thermometer").expect("it is served");
    other.send(b"short");
    other.expect_closed();
    client.send(&request(11, READ));
    assert_eq!(hear(&client).txid, 11);

    let summary = harness.stop().unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!((summary.driver(), summary.failure()), ("c-thermometer", None));
    client.expect_closed();
}

#[test]
fn the_thermometer_starts_again_with_nothing_left_of_before() {
    let folder = Folder::new();
    let Some(module) = thermometer(&folder) else { return };
    let harness = start(&folder, driver(&module)).restart().unwrap_or_else(|problem| panic!("{problem}"));
    let client = harness.connect_child("thermometer", "thermometer").expect("it is served");
    client.send(&request(1, READ));
    assert_eq!(hear(&client), reading(1, READ, 21_000, false));
    harness.stop().unwrap_or_else(|problem| panic!("{problem}"));
}

#[test]
fn a_thermometer_that_cannot_start_says_why() {
    let folder = Folder::new();
    let Some(module) = thermometer(&folder) else { return };
    folder.put("nonsense", b"warm\n");
    for (config, why) in [
        ("source = '/nowhere/temp'", "/nowhere/temp: ZX_ERR_NOT_FOUND"),
        ("source = 'nonsense'", "nonsense: ZX_ERR_IO_DATA_INTEGRITY"),
        ("source = 'nonsense'\ninterval = '0ms'", "the interval has to be between 1 ms and a day"),
        ("source = 'nonsense'\nlimit = 99999999999", "the limit is out of range: 99999999999"),
    ] {
        let config =
            config.replace("'nonsense'", &format!("{:?}", folder.path().join("nonsense").display().to_string()));
        let failed = Harness::builder(driver(&module)).config(config).start(Place::Threads).expect_err(why);
        let Problem::NotStarted { reason, .. } = &failed else { panic!("{failed}") };
        assert!(reason.contains(why), "{reason}");
    }
}

/// What `puppet.c` is told.
#[track_caller]
fn puppet(folder: &Folder) -> Option<&'static DriverEntry> {
    let module = build(&source::root().join("host/abi/tests/c/puppet.c"), folder, "libpuppet.so")?;
    Some(driver(&module))
}

fn settings(folder: &Folder, entry: &'static DriverEntry, more: &str) -> HarnessBuilder {
    let mark = folder.path().join("mark").display().to_string();
    let config = format!("mark = {mark:?}\nlist = ['one', 'two']\n{more}");
    Harness::builder(entry).config(config).property("colour", "blue").children([("class", "puppet")])
}

fn destroyed(folder: &Folder) -> usize {
    let mark = fs::read_to_string(folder.path().join("mark")).unwrap_or_default();
    assert!(mark.lines().all(|line| line == "destroyed when all was over"), "{mark}");
    mark.lines().count()
}

/// Has the puppet write or call with this.
fn tell(peer: &Peer<'_>, how: u8, packet: &Packet) {
    assert!(peer.send(&[&[how, 0, 0, 0][..], packet.to_message().bytes()].concat()));
}

fn message(peer: &Peer<'_>) -> Message {
    match peer.receive() {
        Received::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

fn answer(peer: &Peer<'_>) -> Packet {
    Packet::read(message(peer).bytes()).expect("it is a message")
}

fn ask(ordinal: u32, value: i32, texts: &[&str]) -> Packet {
    Packet { txid: 5, ..Packet::new(ordinal, value, texts.iter().copied()) }
}

#[test]
fn what_a_driver_in_c_asks_of_its_node_is_done_or_answered_with_why_not() {
    let folder = Folder::new();
    let Some(entry) = puppet(&folder) else { return };
    let harness = settings(&folder, entry, "").service("above").start(Place::Threads).expect("it starts");
    let line = harness.lines().into_iter().find(|line| line.contains("name puppet")).expect("it has logged");
    assert!(line.contains("property blue list one"), "{line}");
    let peer = harness.connect_child("puppet", "puppet").expect("it is served");

    for how in [b'n', b'c'] {
        let refused = |packet: &Packet, status: Status, why: &str| {
            tell(&peer, how, packet);
            let answer = answer(&peer);
            assert_eq!((answer.ordinal, answer.value), (packet.ordinal, status.as_raw()), "{answer:?}");
            assert!(answer.text(0).contains(why), "{answer:?}");
        };
        refused(&ask(FUCHSINE_NODE_ADD_CHILD, 0, &["puppet"]), Status::AlreadyExists, "puppet");
        refused(&ask(FUCHSINE_NODE_ADD_CHILD, 2, &["x", "key", "value"]), Status::InvalidArgs, "2 properties");
        refused(&ask(FUCHSINE_NODE_ADD_CHILD, -1, &["x"]), Status::InvalidArgs, "-1 properties");
        refused(&ask(FUCHSINE_NODE_ADD_CHILD, 0, &[]), Status::InvalidArgs, "");
        refused(&ask(FUCHSINE_NODE_REMOVE_CHILD, 0, &["nobody"]), Status::NotFound, "no child \"nobody\"");
        refused(&ask(FUCHSINE_NODE_CONNECT, 0, &["nothing"]), Status::NotFound, "service \"nothing\"");
        refused(&ask(FUCHSINE_NODE_PUBLISH_ADDRESS, 0, &["with space"]), Status::InvalidArgs, "with space");
        refused(&ask(77, 0, &[]), Status::NotSupported, "ordinal 77");

        let done = |packet: &Packet| {
            tell(&peer, how, packet);
            let mut message = message(&peer);
            assert_eq!(Packet::read(message.bytes()).map(|answer| answer.value), Ok(0), "{packet:?}");
            message.take_handles()
        };
        let name = format!("another-{how}");
        done(&ask(FUCHSINE_NODE_ADD_CHILD, 1, &[&name, "key", "value", "a-service"]));
        assert!(harness.node_names().contains(&name));
        done(&ask(FUCHSINE_NODE_REMOVE_CHILD, 0, &[&name]));
        assert!(!harness.node_names().contains(&name));
        done(&ask(FUCHSINE_NODE_PUBLISH_ADDRESS, 0, &["test://here"]));
        assert_eq!(harness.addresses().last().map(String::as_str), Some("test://here"));
        let mut ends = done(&ask(FUCHSINE_NODE_CONNECT, 0, &["above"]));
        let end = ends.pop().expect("an end").into_channel_end().expect("of a channel");
        end.write(Message::from_bytes(b"up").expect("made")).expect("written");
        assert_eq!(harness.accept("above").and_then(|above| above.receive_bytes()).as_deref(), Some(&b"up"[..]));
    }

    // What is no message, and what nobody wants to have answered, is logged and does no harm.
    assert!(peer.send(b"n\0\0\0no message"));
    tell(&peer, b'n', &Packet { txid: 0, ..ask(FUCHSINE_NODE_REMOVE_CHILD, 0, &["nobody"]) });
    tell(&peer, b'h', &ask(3, 0, &[]));
    tell(&peer, b'n', &ask(77, 0, &[]));
    assert_eq!(answer(&peer).value, Status::NotSupported.as_raw());
    for logged in
        ["a message on its node's channel is none", "there is no child \"nobody\"", "`server_handle` answers nothing"]
    {
        eventually(logged, || harness.lines().iter().any(|line| line.contains(logged)));
    }
    harness.stop().unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(destroyed(&folder), 1);
}

#[test]
fn a_start_that_fails_is_told_and_destroys_what_was_initialized() {
    let folder = Folder::new();
    let Some(entry) = puppet(&folder) else { return };
    for (count, (mode, why)) in [
        ("refuse", "there are no strings"),
        ("close", "it has closed its `server_handle` instead of answering"),
        ("garble", "its answer to the request to start: it has 3 bytes"),
        ("other", "a message of the ordinal 77"),
    ]
    .into_iter()
    .enumerate()
    {
        for (again, place) in [Place::Threads, Place::Foreground(&ForegroundRuntime::new())].into_iter().enumerate() {
            let failed = settings(&folder, entry, &format!("mode = {mode:?}")).start(place).expect_err(mode);
            let Problem::NotStarted { reason, .. } = &failed else { panic!("{failed}") };
            assert!(reason.contains(why), "{mode}: {reason}");
            assert_eq!(destroyed(&folder), 2 * count + again + 1, "{mode}");
        }
    }
}

#[test]
fn a_driver_in_c_may_come_to_its_end_or_fail_by_itself() {
    let folder = Folder::new();
    let Some(entry) = puppet(&folder) else { return };
    for (count, how) in [b'q', b'z'].into_iter().enumerate() {
        let harness = settings(&folder, entry, "").start(Place::Threads).expect("it starts");
        harness.connect_child("puppet", "puppet").expect("it is served").send(&[how]);
        eventually("it is gone", || harness.phase().is_none());
        harness.stop().unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(destroyed(&folder), count + 1);
    }
    let harness = settings(&folder, entry, "").start(Place::Threads).expect("it starts");
    let peer = harness.connect_child("puppet", "puppet").expect("it is served");
    tell(&peer, b'n', &ask(FUCHSINE_NODE_FAIL, Status::Io.as_raw(), &["the strings are torn"]));
    eventually("it is gone", || harness.phase().is_none());
    let failed = harness.stop().expect_err("it has failed");
    assert!(failed.to_string().contains("the strings are torn"), "{failed}");
    assert_eq!(destroyed(&folder), 3);
}

#[test]
fn a_driver_in_c_that_does_not_stop_is_shut_down_after_its_time() {
    let folder = Folder::new();
    let Some(_) = puppet(&folder) else { return };
    let text = "[drivers.puppet]\nmodule = \"libpuppet.so\"\nstop_timeout = \"200ms\"\n\
                config = { stubborn = true, mark = \"mark\" }\n";
    let host = folder.run(text, &[]);
    host.signal(Signal::TERM);
    let ended = host.wait(Duration::from_secs(60));
    let said = "the time of its stop (200ms) is up: the host waits for its prepare_stop to end";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    assert_eq!(destroyed(&folder), 1, "{}", ended.stderr);
}

const PLAIN: &str = "#include <lib/driver/symbols/symbols.h>\n\
                     static void* initialize(fdf_handle_t handle) { return 0; }\n\
                     static void destroy(void* token) {}\n";
const REGISTERED: &str = "EXPORT_FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy);\n";

#[test]
fn a_module_without_a_note_has_the_name_of_its_file_and_no_configuration() {
    let folder = Folder::new();
    // It uses nothing of the library, and has it all the same: a linker might leave it out.
    let source = format!("{PLAIN}{REGISTERED}#include <lib/fdf/env.h>\nvoid uses(void) {{ fdf_env_reset(); }}\n");
    let Some(module) = made_of(&source, &folder, "libplain-one.so") else { return };
    let note = Module::inspect(&module).expect("it is a module");
    let names: Vec<_> = note.drivers.iter().map(|driver| (driver.name.as_str(), driver.config.len())).collect();
    assert_eq!(names, [("plain-one", 0)]);
    assert_eq!(driver(&module).name(), "plain-one");
    folder.check("[drivers.plain-one]\nmodule = \"libplain-one.so\"\n").expect_success();
    let key = folder.check("[drivers.x]\nmodule = \"libplain-one.so\"\nconfig.a = 1\n").expect_code(4);
    assert!(key.stderr.contains("has no key `a`"), "{}", key.stderr);
}

#[test]
fn a_module_in_c_that_is_not_used_is_refused_with_what_to_do() {
    let folder = Folder::new();
    let refused = |module: &Path| Module::load(module).map(|module| module.path()).expect_err("it is refused");
    let version = format!(
        "{PLAIN}__EXPORT const DriverRegistration __fuchsia_driver_registration__ = {{2, {{initialize, destroy}}}};"
    );
    let ran = folder.path().join("ran");
    let early = format!(
        "{version}\n#include <stdio.h>\n__attribute__((constructor)) static void early(void) {{ fopen({:?}, \"w\"); }}\n",
        ran.display().to_string()
    );
    let Some(module) = made_of(&early, &folder, "version.so") else { return };
    let error = refused(&module);
    assert!(!ran.exists(), "code of it has run");
    assert_eq!(*error.problem(), ModuleProblem::Registration { theirs: 2 }, "{error}");

    let lacking = PLAIN.to_owned()
        + "EXPORT_FUCHSIA_DRIVER_REGISTRATION_V1(initialize, 0);void* uses = destroy;\n\
                  #include <lib/fdf/env.h>\nvoid uses_it(void) { fdf_env_reset(); }\n";
    let error = refused(&made_of(&lacking, &folder, "lacking.so").expect("there is a compiler"));
    assert!(matches!(error.problem(), ModuleProblem::Disagrees(why) if why.contains("lacks a function")), "{error}");

    let note = |text: &str| {
        let registered = if text.contains("alone") { "void* uses[] = {initialize, destroy};\n" } else { REGISTERED };
        let uses = "void uses_it(void) { fdf_handle_close(0); }\n";
        format!("#include <fuchsine/driver.h>\n{PLAIN}{registered}{uses}FUCHSINE_DRIVER_NOTE({text:?});\n")
    };
    for (text, why) in
        [("nmae = 'x'", "has no key `nmae`"), ("name = 'alone'", "there is no `__fuchsia_driver_registration__`")]
    {
        let error = refused(&made_of(&note(text), &folder, "note.so").expect("there is a compiler"));
        assert!(matches!(error.problem(), ModuleProblem::BadNote(said) if said.contains(why)), "{error}");
    }
    // The name of a note is looked at as that of any driver is.
    let named = made_of(&note("name = 'a name'"), &folder, "named.so").expect("there is a compiler");
    let said = folder.check("[drivers.x]\nmodule = \"named.so\"\n").expect_code(4);
    assert!(said.stderr.contains("letters, digits"), "{}: {}", named.display(), said.stderr);

    // Without the library: what needs nothing of it can be loaded, what does cannot.
    let source = folder.put("source.c", format!("{PLAIN}{REGISTERED}").as_bytes());
    let error = refused(&build_with(&source, &folder, "unlinked.so", &[]).expect("there is a compiler"));
    assert_eq!(*error.problem(), ModuleProblem::Unlinked);
    assert!(error.help().contains("fuchsine libs"), "{}", error.help());
    let thermometer = source::root().join("drivers-examples/c-thermometer/thermometer.c");
    let error = refused(&build_with(&thermometer, &folder, "undefined.so", &[]).expect("there is a compiler"));
    assert!(error.to_string().contains("undefined symbol") && error.help().contains("fuchsine libs"), "{error}");
    let library = c_library().parent().expect("a file is in a folder").display().to_string();
    let nowhere = ["-L".to_owned(), library, "-lfuchsine".to_owned()];
    let module = build_with(&thermometer, &folder, "nowhere.so", &nowhere).expect("there is a compiler");
    // The library is in this process already when another test has been here, so the command is asked.
    let text = format!("[drivers.x]\nmodule = {:?}\n", module.display().to_string());
    let mut check = bare_command();
    // Cargo's own, which leads to the library.
    check.env_remove("LD_LIBRARY_PATH").arg("check").arg(folder.manifest(&text));
    let said = run(&mut check).expect_code(4);
    assert!(said.stderr.contains("libfuchsine.so") && said.stderr.contains("-Wl,-rpath"), "{}", said.stderr);

    let environment = format!(
        "{PLAIN}{REGISTERED}#include <lib/fdf/env.h>\n__attribute__((constructor)) static void early(void) {{ fdf_env_start(0); }}\n"
    );
    made_of(&environment, &folder, "early.so").expect("there is a compiler");
    let said = folder.check("[drivers.x]\nmodule = \"early.so\"\n").expect_code(4);
    assert!(said.stderr.contains("its constructors have called the C interface"), "{}", said.stderr);
}

#[test]
fn the_command_lists_checks_and_runs_a_driver_in_c() {
    let folder = Folder::new();
    let Some(module) = thermometer(&folder) else { return };
    let listed = run(bare_command().arg("drivers").arg(&module)).expect_success().stdout.join("\n");
    assert!(listed.starts_with("c-thermometer 0.1.0\n  serves the temperature that a file has\n"), "{listed}");
    assert!(listed.contains("how often to measure [default: 1s]"), "{listed}");
    folder.put("temp", b"40000\n");
    let text = "[drivers.warm]\nmodule = \"libc-thermometer.so\"\nconfig = { source = \"temp\", limit = 30000 }\n";
    folder.check(text).expect_success();
    let host = folder.run(text, &[]);
    let log = host.stop().stderr;
    assert!(log.contains("INFO measures 40000 thousandths of a degree driver=\"warm\""), "{log}");
    let wrong = folder.check(&text.replace("limit = 30000", "limits = 1")).expect_code(4);
    assert!(wrong.stderr.contains("has no key `limits`; did you mean `limit`?"), "{}", wrong.stderr);
}
