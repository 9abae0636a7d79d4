//! Finds the bracket of a TOML text that is never closed.
//!
//! An inline table or an array may go on for lines, so a parser that misses a closing bracket complains somewhere below,
//! about text that is fine. The place that a writer wants to see is the opening one.

/// The byte offset of the first `{` or `[` of a value that is never closed.
pub(super) fn unclosed(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at = end_of_line(bytes, at),
            b'"' | b'\'' => at = end_of_string(bytes, at),
            // The head of a table closes on its line and is no value.
            b'[' if open.is_empty() && begins_line(text, at) => at = end_of_line(bytes, at),
            b'{' | b'[' => {
                open.push(at);
                at += 1;
            }
            b'}' | b']' => {
                open.pop();
                at += 1;
            }
            _ => at += 1,
        }
    }
    open.first().copied()
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| from + length)
}

/// Behind the string that begins here. One that does not end on its line ends there, as far as brackets go.
fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let quote = bytes[from];
    let triple = [quote; 3];
    let long = bytes[from..].starts_with(&triple);
    let mut at = from + if long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 2,
            b'\n' if !long => return at,
            byte if byte == quote && !long => return at + 1,
            byte if byte == quote && bytes[at..].starts_with(&triple) => return at + 3,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn begins_line(text: &str, at: usize) -> bool {
    text[..at].rsplit('\n').next().is_some_and(|before| before.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bracket_that_is_never_closed_is_found() {
        assert_eq!(unclosed("a = { b = 1\n[c]\nd = { e = 2 }\n"), Some(4));
        assert_eq!(unclosed("[a]\nb = [1, 2\n"), Some(8));
        assert_eq!(unclosed("[a]\nb = [1, { c = 2 ]\n"), Some(8));
    }

    #[test]
    fn what_is_closed_or_only_looks_like_a_bracket_is_not() {
        for text in [
            "",
            "[a]\nb = { c = [1,\n2] }\n",
            "[a] # {\nb = '{' # [\n",
            "b = \"\\\"{\"\nc = '''\n[{'''\n",
            "[[a]]\n  [a.b]\n",
            "[a\nb = 1\n",
            "b = \"{\nc = 1\n",
            "ü = \"{\"",
        ] {
            assert_eq!(unclosed(text), None, "{text:?}");
        }
    }
}
