//! [`Address`]: where to listen and whom to connect to.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::status::Status;

/// An address of TCP, or the path of a Unix socket.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::event_loop::net::Address;
///
/// let tcp: Address = "127.0.0.1:0".parse()?;
/// let unix: Address = "unix:/run/echo.socket".parse()?;
/// assert_eq!((tcp.to_string(), unix.to_string()), ("127.0.0.1:0".into(), "unix:/run/echo.socket".into()));
/// assert!("localhost:80".parse::<Address>().is_err(), "names are not looked up: that blocks");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IP address and a port; port 0, to listen on, lets the operating system choose.
    Tcp(SocketAddr),
    /// A path; empty for an end that has no name, such as that of most clients.
    Unix(PathBuf),
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address: expected IP:PORT, such as 127.0.0.1:80 or [::1]:80, or unix:PATH")]
pub struct AddressError {
    text: String,
}

impl AddressError {
    /// Always [`Status::InvalidArgs`].
    pub fn status(&self) -> Status {
        Status::InvalidArgs
    }
}

impl From<AddressError> for Status {
    fn from(error: AddressError) -> Self {
        error.status()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Address::Unix(path.into()));
        }
        text.parse().map(Address::Tcp).map_err(|_| AddressError { text: text.to_owned() })
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_as_it_is_written_and_an_error_says_what_was_expected() {
        for text in ["127.0.0.1:80", "[::1]:8080", "unix:/a b"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["unix:", "127.0.0.1", "example.org:80", ""] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.to_string().contains("IP:PORT") && error.to_string().contains(text), "{error}");
        }
    }
}
