//! The hooks, and the list of checks.

use fuchsine_driver::{ConfigKey, ConfigKind, Driver, DriverContext, StartError, Status};
use serde::Deserialize;

use crate::told::Checked;
use crate::{calls, irqs, power, tokens};

/// Checks its host while it starts, and does nothing from then on.
#[derive(Debug)]
pub struct Selftest;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    suspended: bool,
}

impl Driver for Selftest {
    const NAME: &'static str = "selftest";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DOC: &'static str = "asks of its host what it offers to drivers, and fails if something does not hold";
    const CONFIG: &'static [ConfigKey] =
        &[ConfigKey::optional("suspended", ConfigKind::Boolean, "false", "whether it is suspended from its start on")];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        let checked = [
            ("calls", calls::check(&cx).await),
            ("tokens", tokens::check(&cx).await),
            ("irqs", irqs::check(&cx).await),
            ("power", power::check(&cx).await),
        ];
        let broken: Vec<String> = checked.iter().filter_map(|(name, checked)| told(name, checked)).collect();
        if !broken.is_empty() {
            return Err(StartError::new(Status::Internal, broken.join("; ")));
        }
        cx.publish_address("selftest:holds")?;
        cx.logger().with("checks", checked.len()).info("everything holds");
        if config.suspended {
            cx.suspend(|_| ())?;
        }
        Ok(Selftest)
    }
}

fn told(name: &str, checked: &Checked) -> Option<String> {
    Some(format!("{name}: {}", checked.as_ref().err()?))
}
