//! Addresses as drivers write them: `HOST:PORT`, `[IPV6]:PORT` and `unix:/path`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

const FORM: &str = "write HOST:PORT, such as 127.0.0.1:10809 or [::1]:10809, or unix:/path";

impl Address {
    /// # Errors
    /// A sentence that says what an address looks like.
    pub(super) fn parse(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() || path.contains('\0') {
                true => Err(format!("`{text}` names no path; {FORM}")),
                false => Ok(Address::Unix(PathBuf::from(path))),
            };
        }
        if let Ok(address) = text.parse() {
            return Ok(Address::Tcp(address));
        }
        // Names are not looked up: that may take seconds, and it would hold up a thread of the pool.
        match text.rsplit_once(':') {
            Some(("localhost", port)) => match port.parse() {
                Ok(port) => Ok(Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))),
                Err(_) => Err(format!("`{port}` is no port; {FORM}")),
            },
            Some((name, port)) if is_name(name) && port.parse::<u16>().is_ok() => {
                Err(format!("`{name}` is no IP address, and names other than localhost are not looked up; {FORM}"))
            }
            _ => Err(format!("`{text}` is no address; {FORM}")),
        }
    }
}

fn is_name(host: &str) -> bool {
    host.contains(|c: char| c.is_ascii_alphabetic()) && !host.contains([':', '/'])
}

/// A Unix address in the same form; a nameless one is `unix:`.
pub(super) fn unix_text(path: Option<&Path>) -> String {
    format!("unix:{}", path.map(|path| path.display().to_string()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_all_kinds_are_understood() {
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().unwrap()));
        assert_eq!(Address::parse("127.0.0.1:0"), tcp("127.0.0.1:0"));
        assert_eq!(Address::parse("[::1]:10809"), tcp("[::1]:10809"));
        assert_eq!(Address::parse("localhost:7"), tcp("127.0.0.1:7"));
        assert_eq!(Address::parse("unix:/run/disk.sock"), Ok(Address::Unix("/run/disk.sock".into())));
        assert_eq!(Address::parse("unix:disk.sock"), Ok(Address::Unix("disk.sock".into())));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_form_of_one() {
        for text in ["", "127.0.0.1", "10809", "example.org:80", "localhost:http", "127.0.0.1:70000", "unix:", "::1:7"]
        {
            let error = Address::parse(text).unwrap_err();
            assert!(error.contains("127.0.0.1:10809"), "{text}: {error}");
            assert_eq!(error.contains("are not looked up"), text == "example.org:80", "{text}: {error}");
        }
    }
}
