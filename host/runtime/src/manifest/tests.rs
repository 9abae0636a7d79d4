//! What users see. Goal: every mistake is told with its place, with what was expected and with a suggestion where one
//! makes sense, all of them at once. Method: whole messages are compared as text.

use std::time::Duration;

use super::*;
use crate::apart::ProcessName;
use crate::node::BindRule;
use crate::supervisor::Policy;

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    Manifest::parse(Source::file("host.toml", text))
}

/// The mistakes in a manifest, a line each.
#[track_caller]
fn mistakes(text: &str) -> String {
    parse(text).expect_err("there is a mistake").to_string()
}

#[track_caller]
fn rendered(text: &str) -> String {
    parse(text).expect_err("there is a mistake").render()
}

#[test]
fn the_built_in_manifest_is_a_ramdisk_served_by_nbd() {
    let manifest = Manifest::built_in();
    assert_eq!(manifest.driver_names().collect::<Vec<_>>(), ["ramdisk", "nbd"]);
    assert_eq!(manifest.threads(), None);
    assert_eq!(manifest.stop_timeout(), Duration::from_secs(10));
    assert_eq!(manifest.log(), &LogSettings::default());
    let config = |driver: usize, key: &str| manifest.drivers[driver].config[key].value.as_str().unwrap().to_owned();
    assert_eq!(config(0, "size"), "64MiB");
    assert_eq!(config(1, "listen"), "127.0.0.1:10809");
    assert_eq!(config(1, "export"), "ramdisk");
}

#[test]
fn everything_that_a_manifest_can_say_is_read() {
    let manifest = parse(
        r#"
        [host]
        threads = 3
        stop_timeout_ms = 2_500

        [log]
        level = "debug"
        format = "json"

        [drivers.zeta]
        driver = "ramdisk"
        config = { size = 0x100000, fill = [1, 2.5], nested = { a = true }, at = 2026-01-02 }

        [drivers.alpha]
        bind = { protocol = "block", unit = 7, removable = false }
        "#,
    )
    .unwrap();
    assert_eq!((manifest.threads(), manifest.stop_timeout()), (Some(3), Duration::from_millis(2_500)));
    assert_eq!(manifest.log().level.as_deref(), Some("debug"));
    assert_eq!(manifest.log().format, Some(LogFormat::Json));
    let [zeta, alpha] = &manifest.drivers[..] else { panic!("the order of the text is kept") };
    assert_eq!((zeta.name.as_str(), zeta.driver.as_str(), zeta.bind.is_none()), ("zeta", "ramdisk", true));
    assert_eq!(zeta.config["size"].value, 1 << 20);
    assert_eq!(zeta.config["fill"].value, serde_json::json!([1, 2.5]));
    assert_eq!(zeta.config["nested"].value, serde_json::json!({ "a": true }));
    assert_eq!(zeta.config["at"].value, "2026-01-02");
    assert_eq!(alpha.driver, "alpha");
    let bind = BindRule::equal([("protocol", "block"), ("unit", "7"), ("removable", "false")]);
    assert_eq!(alpha.bind.as_ref().map(|bound_to| &bound_to.rule), Some(&bind));
    assert!(zeta.parents.is_empty() && zeta.policy == Policy::default());
}

#[test]
fn a_mistake_is_shown_as_a_compiler_shows_it() {
    assert_eq!(
        rendered("[drivers.disk]\n\tdirver = \"ramdisk\"\n"),
        "error: unknown key `dirver` in driver `disk`; did you mean `driver`?\n \
         --> host.toml:2:2\n  \
         |\n\
         2 | \tdirver = \"ramdisk\"\n  \
         | \t^^^^^^\n  \
         = help: known keys: `backoff`, `bind`, `config`, `driver`, `limit`, `module`, `on_panic`, `parents`, `priority`, `process`, `rematch`, `restart`, `sandbox`, `stop_timeout`; what the driver understands goes into `config`"
    );
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_text() {
    assert_eq!(
        mistakes(
            r#"dirvers = 1
[host]
threads = "two"
stop_timeout_ms = 0
stop_deadline = "10s"
[log]
format = "jsn"
level = 3
[drivers."a b"]
[drivers.disk]
driver = 5
bind = { protocol = [[]], x = 1979-05-27 }
config = { size = inf, big = 99999999999999999999 }
[drivers.nbd]
config = "none"
"#
        ),
        "host.toml:1:1: unknown key `dirvers` in the manifest; did you mean `drivers`?
host.toml:3:11: `threads` must be an integer, and this is a string
host.toml:4:19: `stop_timeout_ms` must lie between 1 and 86400000
host.toml:5:1: unknown key `stop_deadline` in `[host]`
host.toml:7:10: unknown log format `jsn`; did you mean `json`?
host.toml:8:9: `level` must be a string, and this is an integer
host.toml:9:10: `a b` cannot name a driver: letters, digits, `-` and `_` are allowed
host.toml:11:10: `driver` must be a string, and this is an integer
host.toml:12:21: property `protocol` must be a string, integer or boolean, an array of them, `{ not = … }` or `{ optional = … }`, and this is an array
host.toml:12:31: property `x` must be a string, integer or boolean, an array of them, `{ not = … }` or `{ optional = … }`, and this is a datetime
host.toml:13:19: a number that is not finite cannot be handed to a driver
host.toml:13:30: an integer of more than 64 bits cannot be handed to a driver
host.toml:15:10: `config` must be a table, and this is a string"
    );
}

#[test]
fn of_very_many_mistakes_the_first_are_told_and_the_rest_is_counted() {
    let text: String = (0..40_000).map(|n| format!("k{n}=1\n")).collect();
    let error = parse(&text).expect_err("every line is a mistake");
    assert_eq!(error.diagnostics().len(), 101);
    let told = error.to_string();
    assert!(told.starts_with("host.toml:1:1: unknown key `k0` in the manifest\nhost.toml:2:1: "), "{told}");
    assert!(told.ends_with("\nthere are 39900 more mistakes"), "{told}");
}

#[test]
fn of_a_long_line_the_part_around_the_mistake_is_shown() {
    let long = "x".repeat(100_000);
    let shown = rendered(&format!("[drivers.disk]\nconfig = {{ image = \"{long}\" }}, {long}\n"));
    let lines: Vec<_> = shown.lines().collect();
    let (text, marks) = (lines[3], lines[4]);
    assert!(text.starts_with("2 | …xxx") && text.ends_with("xxx…"), "{text}");
    assert_eq!(text.chars().count(), "2 | …".chars().count() + 160 + 1, "{text}");
    let at = marks.find('^').expect("the place is marked");
    assert_eq!(text.chars().nth(at), Some(','), "{shown}");
    assert!(marks.len() <= text.chars().count(), "{shown}");
}

#[test]
fn a_name_that_no_node_could_have_is_a_mistake() {
    let name = "n".repeat(64);
    assert!(parse(&format!("[drivers.{name}]\ndriver = \"ramdisk\"\n")).is_ok());
    let long = mistakes(&format!("[drivers.{name}n]\ndriver = \"ramdisk\"\n"));
    assert_eq!(long, "host.toml:1:10: the name of a driver may have 64 characters, and this has 65");
}

#[test]
fn a_syntax_error_names_its_line() {
    assert_eq!(
        rendered("[drivers.disk]\nconfig = { size = \n"),
        "error: this inline table is never closed\n \
         --> host.toml:2:10\n  \
         |\n\
         2 | config = { size = \n  \
         |          ^"
    );
    let two = mistakes("[drivers.disk]\nconfig.size = 64MiB\nconfig.x = \n");
    assert_eq!(two.lines().map(|line| &line[..12]).collect::<Vec<_>>(), ["host.toml:2:", "host.toml:3:"], "{two}");
    let twice = mistakes("[drivers.disk]\n[drivers.disk]\n");
    assert!(twice.starts_with("host.toml:2:"), "{twice}");
}

#[test]
fn a_manifest_without_drivers_is_a_mistake() {
    assert_eq!(mistakes("[host]\nthreads = 2\n"), "host.toml:1:1: the manifest names no driver");
    assert_eq!(mistakes(""), "host.toml:1:1: the manifest names no driver");
    assert_eq!(mistakes("drivers = 1"), "host.toml:1:11: `drivers` must be a table, and this is an integer");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = Manifest::load(std::path::Path::new("no/such/host.toml")).unwrap_err();
    assert_eq!(
        missing.render(),
        "error: cannot read manifest `no/such/host.toml`: No such file or directory (os error 2)"
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.toml");
    std::fs::write(&path, b"[host]\nthreads = 2\n# \xff\n").unwrap();
    let not_text = Manifest::load(&path).unwrap_err().to_string();
    assert_eq!(not_text, format!("cannot read manifest `{}`: line 3 is not UTF-8 text", path.display()));
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    let large = Manifest::load(&path).unwrap_err().to_string();
    assert!(large.ends_with("it is larger than 1024 KiB, so it is no manifest"), "{large}");
}

// --set

#[track_caller]
fn refused(argument: &str) -> String {
    Manifest::built_in().set([argument]).expect_err("there is a mistake").render()
}

#[test]
fn a_setting_takes_toml_values_and_bare_strings() {
    let mut manifest = Manifest::built_in();
    manifest
        .set([
            "nbd.listen=127.0.0.1:0",
            "nbd.export = \"a = b\"",
            "nbd.max_connections=0x10",
            "nbd.empty=",
            "ramdisk.size=1MiB",
            "ramdisk.flag=true",
            "ramdisk.list=[1, 2]",
            "ramdisk.size=2MiB",
        ])
        .unwrap();
    let value = |driver: usize, key: &str| manifest.drivers[driver].config[key].value.clone();
    assert_eq!(value(1, "listen"), "127.0.0.1:0");
    assert_eq!(value(1, "export"), "a = b");
    assert_eq!(value(1, "max_connections"), 16);
    assert_eq!(value(1, "empty"), "");
    assert_eq!(value(0, "size"), "2MiB", "the later one wins");
    assert_eq!(value(0, "flag"), true);
    assert_eq!(value(0, "list"), serde_json::json!([1, 2]));
}

#[test]
fn an_address_in_brackets_is_a_bare_string_and_no_array() {
    for text in ["[::1]:0", "[::1]:10809,unix:/run/disk.sock", "[fe80::1%2]:7, 127.0.0.1:7"] {
        let mut manifest = Manifest::built_in();
        manifest.set([format!("nbd.listen={text}")]).unwrap();
        assert_eq!(manifest.drivers[1].config["listen"].value, text);
    }
    assert!(refused("nbd.listen=[::1]").starts_with("error: this is no TOML value: "));
}

#[test]
fn a_setting_for_a_driver_that_the_manifest_does_not_have_gets_a_suggestion() {
    assert_eq!(
        refused("ramdsk.size=1MiB"),
        "error: the manifest has no driver `ramdsk`; did you mean `ramdisk`?\n \
         --> --set:1:1\n  \
         |\n\
         1 | ramdsk.size=1MiB\n  \
         | ^^^^^^\n  \
         = help: its drivers: `nbd`, `ramdisk`"
    );
}

#[test]
fn a_malformed_setting_is_shown_with_the_form_that_it_should_have() {
    let help = "\n  = help: write `--set DRIVER.KEY=VALUE`, for example `--set nbd.listen=127.0.0.1:0`";
    let shown = |what: &str, column: usize, text: &str, marks: usize| {
        let indent = " ".repeat(column - 1);
        let marks = "^".repeat(marks);
        format!("error: {what}\n --> --set:1:{column}\n  |\n1 | {text}\n  | {indent}{marks}{help}")
    };
    assert_eq!(refused("nonsense"), shown("there is no `=` in this setting", 1, "nonsense", 8));
    assert_eq!(refused("a=b"), shown("there is no `.` between driver and key", 1, "a=b", 1));
    assert_eq!(refused("n bd.x=b"), shown("this cannot name a driver", 1, "n bd.x=b", 4));
    assert_eq!(refused("nbd.=b"), shown("this cannot name a key", 5, "nbd.=b", 1));
    assert_eq!(refused(""), shown("there is no `=` in this setting", 1, "", 1));
}

#[test]
fn a_value_that_begins_like_toml_and_is_none_is_a_mistake() {
    let message = refused("nbd.export=\"disk");
    assert!(message.starts_with("error: this is no TOML value: "), "{message}");
    assert!(message.contains("\n --> --set:1:17\n"), "{message}");
    assert!(refused("ramdisk.size=nan").contains("a number that is not finite cannot be handed to a driver"));
}

#[test]
fn all_wrong_settings_are_told_and_the_good_ones_count() {
    let mut manifest = Manifest::built_in();
    let error = manifest.set(["x.y=1", "ramdisk.size=1MiB", "z"]).unwrap_err();
    assert_eq!(error.diagnostics().len(), 2);
    assert_eq!(manifest.drivers[0].config["size"].value, "1MiB");
}

// Binding and policies

#[test]
fn rules_and_policies_are_read_in_all_their_forms() {
    use crate::node::Condition;
    use crate::supervisor::{Backoff, Limit, OnPanic, Restart};
    let manifest = parse(
        r#"
        [drivers.a]
        bind = { p = ["x", 1, true], q = { not = "y" }, r = { optional = [2, "z"] } }
        priority = -3
        restart = "always"
        backoff = { initial = "250ms", factor = 3, max = "1min" }
        limit = { count = 7, within = "1h" }
        on_panic = "abort"
        rematch = true
        stop_timeout = "5s"

        [drivers.b]
        parents.left.bind = { p = "x" }
        parents.right = { bind = { p = "y" }, optional = true }
        backoff = { initial = "1h" }
        "#,
    )
    .unwrap();
    let [a, b] = &manifest.drivers[..] else { panic!("two drivers") };
    let texts = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect::<Vec<_>>();
    let conditions: Vec<_> =
        a.bind.as_ref().unwrap().rule.conditions().map(|(_, condition)| condition.clone()).collect();
    let one_of = Condition::OneOf(texts(&["x", "1", "true"]));
    assert_eq!(conditions, [one_of, Condition::NoneOf(texts(&["y"])), Condition::Optional(texts(&["2", "z"]))]);
    assert_eq!(a.priority, -3);
    let second = Duration::from_secs(1);
    let expected = Policy {
        restart: Restart::Always,
        on_panic: OnPanic::Abort,
        backoff: Backoff { initial: second / 4, factor: 3, max: 60 * second },
        limit: Limit { count: 7, within: 3600 * second },
        rematch: true,
        stop_timeout: Some(5 * second),
    };
    assert_eq!(a.policy, expected);
    let parents: Vec<String> = b.parents.iter().map(|(parent, _)| parent.to_string()).collect();
    assert_eq!(parents, ["left: p = \"x\"", "right: p = \"y\" (optional)"]);
    assert_eq!(b.policy.backoff.max, 3600 * second, "no shorter than the first wait");
}

#[test]
fn mistakes_in_rules_and_policies_are_told_with_their_places() {
    assert_eq!(
        mistakes(
            r#"[drivers.a]
bind = { p = [], q = { nott = 1 }, r = { not = 1, optional = 2 } }
parents = { "l/r" = {}, left = { optional = 1 } }
priority = 1.5
restart = "sometimes"
on_panic = "ignore"
rematch = "no"
stop_timeout = "0s"
backoff = { initial = "5s", factor = 0, max = "1s", jitter = 1 }
limit = { count = 0, within = 60 }
[drivers.b]
parents = {}
"#
        ),
        "host.toml:2:14: property `p` must be a string, integer or boolean, an array of them, `{ not = … }` or `{ optional = … }`, and this is an array
host.toml:2:22: property `q` must be a string, integer or boolean, an array of them, `{ not = … }` or `{ optional = … }`, and this is a table
host.toml:2:40: property `r` must be a string, integer or boolean, an array of them, `{ not = … }` or `{ optional = … }`, and this is a table
host.toml:3:1: a driver has either `bind` or `parents`
host.toml:3:13: `l/r` cannot name a parent: letters, digits, `-` and `_` are allowed
host.toml:3:25: parent `left` has no `bind`, so no node would ever be it
host.toml:3:45: `optional` must be `true` or `false`, and this is an integer
host.toml:4:12: `priority` must be an integer, and this is a float
host.toml:5:11: unknown restart policy `sometimes`
host.toml:6:12: unknown panic policy `ignore`
host.toml:7:11: `rematch` must be `true` or `false`, and this is a string
host.toml:8:16: `stop_timeout` must be a duration from \"1ms\" to \"24h\", such as \"250ms\" or \"5s\"
host.toml:9:38: `factor` must lie between 1 and 100
host.toml:9:47: `max` must not be shorter than `initial`
host.toml:9:53: unknown key `jitter` in `backoff`
host.toml:10:19: `count` must lie between 1 and 1000000
host.toml:10:31: `within` must be a string, and this is an integer
host.toml:12:1: `parents` names no parent"
    );
}

#[test]
fn a_process_has_a_name_or_is_the_driver_s_own() {
    let process = |value: &str| {
        let text = format!("[drivers.disk]\nprocess = {value}\n");
        Manifest::parse(Source::named("host.toml", text)).map(|manifest| manifest.drivers[0].process.clone())
    };
    assert_eq!(process("\"own\"").unwrap(), Some(ProcessName::Own));
    assert_eq!(process("\"storage\"").unwrap(), Some(ProcessName::Named("storage".into())));
    let error = process("\"a b\"").unwrap_err().to_string();
    assert_eq!(error, "host.toml:2:11: `a b` cannot name a process: letters, digits, `-` and `_` are allowed");
    assert!(process("true").unwrap_err().to_string().contains("`process` must be a string"));
}
