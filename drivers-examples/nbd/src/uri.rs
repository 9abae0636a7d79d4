//! The address by which clients find an export, in the form of the public NBD URI document.

use std::fmt::Write;

/// The URI of an export on a listener with this local address (`HOST:PORT` or `unix:/path`).
pub(crate) fn uri(local_address: &str, export: &str) -> String {
    let mut uri = String::new();
    match local_address.strip_prefix("unix:") {
        Some(path) => {
            uri.push_str("nbd+unix:///");
            push_encoded(&mut uri, export);
            uri.push_str("?socket=");
            push_encoded(&mut uri, path);
        }
        None => {
            uri.push_str("nbd://");
            uri.push_str(local_address);
            uri.push('/');
            push_encoded(&mut uri, export);
        }
    }
    uri
}

/// Appends text with everything escaped that has a meaning in a URI; the slash has none where this is used.
fn push_encoded(uri: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(byte as char);
        } else {
            write!(uri, "%{byte:02X}").expect("writing to a String cannot fail");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_and_unix_addresses_have_their_forms() {
        assert_eq!(uri("127.0.0.1:10809", "ramdisk"), "nbd://127.0.0.1:10809/ramdisk");
        assert_eq!(uri("[::1]:1", "a b/c?"), "nbd://[::1]:1/a%20b/c%3F");
        assert_eq!(uri("unix:/run/my disk.sock", "disk"), "nbd+unix:///disk?socket=/run/my%20disk.sock");
        assert_eq!(uri("unix:/run/x", "größe"), "nbd+unix:///gr%C3%B6%C3%9Fe?socket=/run/x");
    }
}
