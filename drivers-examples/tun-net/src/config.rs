//! [`Config`]: what the manifest may say, and what of it makes sense.

use std::ops::RangeInclusive;

use serde::Deserialize;
use smoltcp::wire::{IpAddress, IpCidr};

/// How many addresses the stack has room for.
pub(crate) const MAX_ADDRESSES: usize = 4;

/// The least is what IPv6 asks for.
const MTUS: RangeInclusive<usize> = 1280..=9000;

const CONNECTIONS: RangeInclusive<usize> = 1..=1024;

/// The longest name that the system gives an interface.
const MAX_NAME: usize = 15;

/// The driver's table of the manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    interface: String,
    addresses: Vec<String>,
    echo_port: u16,
    connections: usize,
    mtu: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interface: "fuchsine0".to_owned(),
            addresses: vec!["10.77.0.2/24".to_owned(), "fd77::2/64".to_owned()],
            echo_port: 7,
            connections: 16,
            mtu: 1500,
        }
    }
}

/// The configuration after the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) interface: String,
    /// At least one; each is one that a machine can have.
    pub(crate) addresses: Vec<IpCidr>,
    pub(crate) echo_port: u16,
    pub(crate) connections: usize,
    pub(crate) mtu: usize,
}

/// A value that cannot be; the text names the key and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("`interface` is {0:?}: a name has 1 to {MAX_NAME} characters, and no space, `/` or `%` in it")]
    Interface(String),
    #[error("`addresses` has {0}: name 1 to {MAX_ADDRESSES}, such as \"10.77.0.2/24\"")]
    Count(usize),
    #[error("`addresses` has {0:?}: an address is written with the length of its network, such as \"10.77.0.2/24\"")]
    Address(String),
    #[error("`addresses` has {0:?}: no machine can have that address")]
    NotOfAMachine(String),
    #[error("`echo_port` is 0: clients could not name it")]
    Port,
    #[error("`connections` is {0}: it must be {first} to {last}", first = CONNECTIONS.start(), last = CONNECTIONS.end())]
    Connections(usize),
    #[error("`mtu` is {0}: it must be {first} to {last}", first = MTUS.start(), last = MTUS.end())]
    Mtu(usize),
}

impl Config {
    /// The settings.
    ///
    /// # Errors
    /// [`ConfigError`] with the first value that cannot be.
    pub(crate) fn settings(self) -> Result<Settings, ConfigError> {
        let Self { interface, addresses, echo_port, connections, mtu } = self;
        // `%` stands for a number that the system chooses, and nobody would know which.
        let is_name = !interface.is_empty()
            && interface.len() <= MAX_NAME
            && !interface.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '%' | ':'))
            && interface != "."
            && interface != "..";
        if !is_name {
            return Err(ConfigError::Interface(interface));
        }
        if addresses.is_empty() || addresses.len() > MAX_ADDRESSES {
            return Err(ConfigError::Count(addresses.len()));
        }
        let addresses = addresses.into_iter().map(address).collect::<Result<_, _>>()?;
        if echo_port == 0 {
            return Err(ConfigError::Port);
        }
        if !CONNECTIONS.contains(&connections) {
            return Err(ConfigError::Connections(connections));
        }
        if !MTUS.contains(&mtu) {
            return Err(ConfigError::Mtu(mtu));
        }
        Ok(Settings { interface, addresses, echo_port, connections, mtu })
    }
}

fn address(text: String) -> Result<IpCidr, ConfigError> {
    let Ok(cidr) = text.parse::<IpCidr>() else { return Err(ConfigError::Address(text)) };
    let is_of_a_machine = match cidr.address() {
        IpAddress::Ipv4(address) => {
            !address.is_unspecified() && !address.is_broadcast() && !address.is_multicast() && !address.is_loopback()
        }
        IpAddress::Ipv6(address) => !address.is_unspecified() && !address.is_multicast() && !address.is_loopback(),
    };
    if is_of_a_machine { Ok(cidr) } else { Err(ConfigError::NotOfAMachine(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> Result<Settings, String> {
        serde_json::from_str::<Config>(json).map_err(|e| e.to_string())?.settings().map_err(|e| e.to_string())
    }

    #[test]
    fn an_empty_table_gives_the_documented_defaults() {
        let settings = settings("{}").unwrap();
        assert_eq!((settings.interface.as_str(), settings.echo_port), ("fuchsine0", 7));
        let addresses: Vec<String> = settings.addresses.iter().map(IpCidr::to_string).collect();
        assert_eq!(addresses, ["10.77.0.2/24", "fd77::2/64"]);
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_the_name_of_their_key() {
        for (json, told) in [
            (r#"{"interface": ""}"#, "`interface`"),
            (r#"{"interface": "a/b"}"#, "`interface`"),
            (r#"{"interface": "tun%d"}"#, "`interface`"),
            (r#"{"interface": "a-name-of-16-let"}"#, "`interface`"),
            (r#"{"addresses": []}"#, "`addresses` has 0"),
            (r#"{"addresses": ["10.0.0.1/8", "10.0.0.2/8", "10.0.0.3/8", "10.0.0.4/8", "10.0.0.5/8"]}"#, "has 5"),
            (r#"{"addresses": ["10.77.0.2"]}"#, "length of its network"),
            (r#"{"addresses": ["10.77.0.2/33"]}"#, "length of its network"),
            (r#"{"addresses": ["0.0.0.0/8"]}"#, "no machine"),
            (r#"{"addresses": ["ff02::1/64"]}"#, "no machine"),
            (r#"{"addresses": ["127.0.0.1/8"]}"#, "no machine"),
            (r#"{"echo_port": 0}"#, "`echo_port`"),
            (r#"{"echo_port": 65536}"#, "65536"),
            (r#"{"connections": 0}"#, "`connections`"),
            (r#"{"mtu": 576}"#, "`mtu`"),
            (r#"{"mtuu": 1500}"#, "`mtuu`"),
        ] {
            let error = settings(json).expect_err(json);
            assert!(error.contains(told), "{json}: {error}");
        }
    }
}
