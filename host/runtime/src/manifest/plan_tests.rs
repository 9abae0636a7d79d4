//! Manifests against drivers. Goal: what only the drivers' own declarations can tell is told before anything runs, with
//! the place and a suggestion. Method: drivers that are never started; whole messages are compared as text.

use fuchsine_driver::{BindProperty, ConfigKey, ConfigKind, Driver, DriverContext, DriverEntry, StartError};
use serde_json::json;

use super::*;
use crate::registry::Registry;

macro_rules! never_started {
    ($name:ident, $text:literal, bind: $bind:expr, config: $config:expr) => {
        struct $name;
        impl Driver for $name {
            const NAME: &'static str = $text;
            const BIND: &'static [BindProperty] = $bind;
            const CONFIG: &'static [ConfigKey] = $config;
            async fn start(_: DriverContext) -> Result<Self, StartError> {
                unreachable!("plans start nothing")
            }
        }
    };
}

never_started!(Disk, "disk", bind: &[], config: &[
    ConfigKey::optional("size", ConfigKind::Size, "64MiB", "how big it is"),
    ConfigKey::optional("image", ConfigKind::Path, "", "a file to load"),
    ConfigKey::optional("sync_every", ConfigKind::Duration, "5s", "how often to save"),
    ConfigKey::optional("read_only", ConfigKind::Boolean, "false", "whether writes are refused"),
    ConfigKey::optional("depth", ConfigKind::Integer, "", "how deep"),
]);
never_started!(Serve, "serve", bind: &[BindProperty::new("protocol", "block")], config: &[
    ConfigKey::optional("listen", ConfigKind::TextList, "127.0.0.1:1, 127.0.0.1:2", "where to listen"),
    ConfigKey::required("export", ConfigKind::Text, "what to call it"),
]);
never_started!(Plain, "plain", bind: &[], config: &[]);

static DISK: DriverEntry = DriverEntry::of::<Disk>();
static SERVE: DriverEntry = DriverEntry::of::<Serve>();
static PLAIN: DriverEntry = DriverEntry::of::<Plain>();

fn registry() -> Registry {
    Registry::new([&DISK, &SERVE, &PLAIN]).unwrap()
}

fn plan(text: &str, set: &[&str]) -> Result<Plan, ManifestError> {
    let mut manifest = Manifest::parse(Source::file("/etc/host.toml", text)).unwrap();
    manifest.set(set.iter().copied()).unwrap();
    manifest.plan(&registry())
}

/// The configuration that the first driver gets.
#[track_caller]
fn config(text: &str, set: &[&str]) -> serde_json::Value {
    let plan = plan(text, set).map_err(|error| error.render()).unwrap();
    serde_json::from_str(plan.drivers()[0].config()).unwrap()
}

#[track_caller]
fn mistakes(text: &str, set: &[&str]) -> String {
    plan(text, set).expect_err("there is a mistake").to_string()
}

#[test]
fn a_driver_gets_its_defaults_in_the_form_of_their_kind() {
    let defaults = json!({ "size": 64 << 20, "sync_every": 5000, "read_only": false });
    assert_eq!(config("[drivers.disk]", &[]), defaults);
    let serve = config("[drivers.serve]\nconfig = { export = \"x\" }\n[drivers.plain]", &[]);
    assert_eq!(serve, json!({ "listen": ["127.0.0.1:1", "127.0.0.1:2"], "export": "x" }));
}

#[test]
fn a_driver_gets_what_the_manifest_sets() {
    let text = r#"
        [drivers.disk]
        config = { size = 4096, image = "disk.img", sync_every = "2min", read_only = true, depth = -3 }
    "#;
    let expected =
        json!({ "size": 4096, "image": "/etc/disk.img", "sync_every": 120_000, "read_only": true, "depth": -3 });
    assert_eq!(config(text, &[]), expected);
}

#[test]
fn a_setting_is_read_as_what_the_key_takes() {
    let set = ["disk.image=007", "disk.size=1MiB", "disk.read_only=true", "disk.depth=0x10"];
    let disk = config("[drivers.disk]", &set);
    assert_eq!((&disk["image"], &disk["size"]), (&json!("007"), &json!(1 << 20)));
    assert_eq!((&disk["read_only"], &disk["depth"]), (&json!(true), &json!(16)));
    let text = "[drivers.serve]\nconfig = { export = \"x\" }\n[drivers.plain]";
    assert_eq!(config(text, &["serve.listen=a:1, b:2"])["listen"], json!(["a:1", "b:2"]));
    assert_eq!(config(text, &["serve.listen=[\"a,b\"]"])["listen"], json!(["a,b"]));
    assert_eq!(config(text, &["serve.export=17"])["export"], "17");
}

#[test]
fn a_manifest_can_replace_the_rule_of_a_driver() {
    let plan = plan(
        "[drivers.disk]\n[drivers.a]\ndriver = \"serve\"\nconfig.export = \"a\"\n[drivers.b]\ndriver = \"serve\"\n\
         config.export = \"b\"\nbind = { protocol = \"block\", unit = 1 }\n[drivers.c]\ndriver = \"serve\"\n\
         config.export = \"c\"\nbind = {}\n",
        &[],
    )
    .unwrap();
    let rules: Vec<_> = plan.drivers().iter().map(|driver| driver.binds_to()).collect();
    let block = "protocol = \"block\"".to_owned();
    assert_eq!(rules, [None, Some(block.clone()), Some(format!("{block}, unit = \"1\"")), None]);
}

#[test]
fn everything_that_does_not_fit_the_drivers_is_told_at_once() {
    let text = r#"[drivers.disk]
config = { sise = 1, depth = 1.5, read_only = "yes", sync_every = 5 }
[drivers.dsk]
[drivers.serve]
config = { listen = [1], max = 2 }
[drivers.plain]
config = { anything = 1 }
"#;
    assert_eq!(
        mistakes(text, &["disk.size=much", "disk.imag=x"]),
        r#"/etc/host.toml:2:12: driver `disk` has no key `sise`; did you mean `size`?
/etc/host.toml:2:30: `depth` must be a whole number
/etc/host.toml:2:47: `read_only` must be `true` or `false`
/etc/host.toml:2:67: `sync_every` must be a duration: text such as "250ms" or "5s" (ms, s, min, h)
/etc/host.toml:3:10: there is no driver `dsk`; did you mean `disk`?
/etc/host.toml:4:10: driver `serve` needs the key `export`, which is missing
/etc/host.toml:5:21: `listen` must be text, or an array of texts
/etc/host.toml:5:26: driver `serve` has no key `max`
/etc/host.toml:7:12: driver `plain` has no key `anything`
--set:1:6: driver `disk` has no key `imag`; did you mean `image`?
--set:1:11: `size` must be a size: a number of bytes, or text such as "64MiB" (B, KiB, MiB, GiB, TiB)"#
    );
}

#[test]
fn a_mistake_is_shown_with_what_the_key_is_for() {
    let error = plan("[drivers.disk]\nconfig.size = \"64 parsecs\"\n", &[]).unwrap_err();
    assert_eq!(
        error.render(),
        "error: `size` must be a size: a number of bytes, or text such as \"64MiB\" (B, KiB, MiB, GiB, TiB)\n \
         --> /etc/host.toml:2:15\n  \
         |\n\
         2 | config.size = \"64 parsecs\"\n  \
         |               ^^^^^^^^^^^^\n  \
         = help: how big it is"
    );
}

#[test]
fn a_manifest_in_which_nothing_could_start_is_a_mistake() {
    assert_eq!(
        mistakes("[drivers.serve]\nconfig.export = \"x\"\n", &[]),
        "/etc/host.toml:1:10: nothing would ever start: every driver waits for a node of another one"
    );
}

#[test]
fn a_registry_refuses_two_drivers_of_one_name_and_defaults_that_do_not_fit() {
    let twice = Registry::new([&DISK, &PLAIN, &DISK]).unwrap_err();
    assert_eq!(twice.to_string(), "driver `disk`: there are two drivers of this name");
    never_started!(Wrong, "wrong", bind: &[], config: &[ConfigKey::optional("n", ConfigKind::Integer, "many", "")]);
    static WRONG: DriverEntry = DriverEntry::of::<Wrong>();
    let wrong = Registry::new([&WRONG]).unwrap_err();
    assert_eq!(wrong.to_string(), "driver `wrong`: the default of `n` is wrong: it must be a whole number");
    never_started!(Odd, "an odd name", bind: &[], config: &[]);
    static ODD: DriverEntry = DriverEntry::of::<Odd>();
    assert!(Registry::new([&ODD]).unwrap_err().to_string().contains("letters, digits"));
}

#[test]
fn rules_that_can_never_match_are_warned_of_and_keep_nothing_from_running() {
    let text = r#"[drivers.left]
driver = "disk"
[drivers.a]
driver = "plain"
bind = { protocol = "block", parent = "lft" }
[drivers.b]
driver = "plain"
bind = { protocol = ["block", "net"] }
[drivers.c]
driver = "plain"
bind = { protocol = "net", unit = 1 }
[drivers.d]
driver = "plain"
bind = { protocol = "net" }
priority = 1
[drivers.e]
driver = "plain"
bind = { protocol = ["net", "serial"] }
[drivers.f]
driver = "plain"
parents.one.bind = { parent = "right" }
"#;
    let warned = plan(text, &[]).unwrap();
    let warnings: Vec<String> = warned.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "/etc/host.toml:5:39: `a` waits for a node of `lft`, which this manifest does not run; did you mean `left`?",
            "/etc/host.toml:9:10: `c` never gets a node: `d` takes each node that it matches",
            "/etc/host.toml:21:9: `f.one` waits for a node of `right`, which this manifest does not run",
        ]
    );
    let shown = warned.warnings()[1].render();
    assert!(
        shown.starts_with("warning: `c` never gets a node") && shown.contains("= help: give it a higher"),
        "{shown}"
    );
}

#[test]
fn what_is_different_between_two_plans_is_told_for_each_driver_once() {
    let old = plan("[drivers.disk]\n[drivers.a]\ndriver = \"plain\"\n[drivers.b]\ndriver = \"plain\"\n", &[]).unwrap();
    assert_eq!(old.changes(&old), []);
    let new = plan(
        "[host]\nthreads = 3\n[drivers.disk]\nrestart = \"always\"\n[drivers.b]\ndriver = \"disk\"\n\
         [drivers.c]\ndriver = \"plain\"\n",
        &[],
    )
    .unwrap();
    let kinds = |from: &Plan, to: &Plan| {
        from.changes(to).into_iter().map(|change| (change.name, change.kind)).collect::<Vec<_>>()
    };
    use ChangeKind::{Added, Adjusted, NeedsRestart, Rebound, Removed, Restarted};
    let named = |name: &str, kind| (name.to_owned(), kind);
    let there = [
        named("host", NeedsRestart),
        named("a", Removed),
        named("disk", Adjusted),
        named("b", Rebound),
        named("c", Added),
    ];
    assert_eq!(kinds(&old, &new), there);
    let larger =
        plan("[drivers.disk]\nconfig.size = 1\n[drivers.a]\ndriver = \"plain\"\n[drivers.b]\ndriver = \"plain\"", &[]);
    assert_eq!(kinds(&old, &larger.unwrap()), [named("disk", Restarted)]);
}
