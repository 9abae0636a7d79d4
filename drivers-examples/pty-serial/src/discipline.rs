//! [`Discipline`]: from keys to lines, as a terminal does it.
//!
//! It is told each byte that was typed, and says what to echo and what the other side is to get. It does no input or output.
//!
//! In raw mode everything goes through as it is. In canonical mode a line is kept until it is ended, and can be corrected:
//!
//! | key | what it does |
//! |---|---|
//! | `^?`, `^H` | takes the last character back, a whole one of UTF-8 |
//! | `^W` | takes the last word back |
//! | `^U` | takes the line back |
//! | carriage return, line feed | ends the line with a line feed |
//! | `^D` | hands on what was typed so far; with nothing typed: the end |
//! | `^C` | takes the line back, and interrupts |
//!
//! Beyond [`MAX_LINE`] bytes nothing is kept and the bell rings, as on other terminals; the keys of the table work.

use crate::config::Mode;

/// The longest line, its line feed included.
pub(crate) const MAX_LINE: usize = 1024;

const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const BELL: u8 = 0x07;
const BACKSPACE: u8 = 0x08;
const KILL: u8 = 0x15;
const WORD: u8 = 0x17;
const DELETE: u8 = 0x7f;

/// What the other side is to get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Data(Vec<u8>),
    Interrupt,
    End,
}

/// The state of a terminal's input.
#[derive(Debug)]
pub(crate) struct Discipline {
    mode: Mode,
    echoes: bool,
    line: Vec<u8>,
}

impl Discipline {
    pub(crate) fn new(mode: Mode, echoes: bool) -> Self {
        Self { mode, echoes, line: Vec::new() }
    }

    /// Takes what was typed. What is to be shown is appended to `echo`, what the other side gets to `input`.
    pub(crate) fn typed(&mut self, bytes: &[u8], echo: &mut Vec<u8>, input: &mut Vec<Input>) {
        match self.mode {
            Mode::Raw => {
                if self.echoes {
                    echo.extend(bytes);
                }
                input.push(Input::Data(bytes.to_vec()));
            }
            Mode::Canonical => {
                let mut shown = Vec::new();
                for byte in bytes {
                    input.extend(self.key(*byte, &mut shown));
                }
                if self.echoes {
                    echo.append(&mut shown);
                }
            }
        }
    }

    /// What is written by the other side, as the terminal shows it.
    pub(crate) fn shown(&self, bytes: &[u8], into: &mut Vec<u8>) {
        match self.mode {
            Mode::Raw => into.extend(bytes),
            Mode::Canonical => {
                for byte in bytes {
                    if *byte == b'\n' {
                        into.push(b'\r');
                    }
                    into.push(*byte);
                }
            }
        }
    }

    fn key(&mut self, byte: u8, echo: &mut Vec<u8>) -> Option<Input> {
        match byte {
            b'\r' | b'\n' => {
                echo.extend(b"\r\n");
                self.line.push(b'\n');
                Some(Input::Data(std::mem::take(&mut self.line)))
            }
            END if self.line.is_empty() => Some(Input::End),
            END => Some(Input::Data(std::mem::take(&mut self.line))),
            INTERRUPT => {
                echo.extend(b"^C\r\n");
                self.line.clear();
                Some(Input::Interrupt)
            }
            DELETE | BACKSPACE => {
                self.erase(echo);
                None
            }
            KILL => {
                while self.erase(echo) {}
                None
            }
            WORD => {
                let is_space = |line: &[u8]| line.last().is_some_and(u8::is_ascii_whitespace);
                while is_space(&self.line) && self.erase(echo) {}
                while !self.line.is_empty() && !is_space(&self.line) && self.erase(echo) {}
                None
            }
            // One place is kept for the line feed.
            _ if self.line.len() + 1 >= MAX_LINE => {
                echo.push(BELL);
                None
            }
            _ => {
                self.line.push(byte);
                match byte {
                    b'\t' => echo.push(byte),
                    0..0x20 => echo.extend([b'^', byte + b'@']),
                    _ => echo.push(byte),
                }
                None
            }
        }
    }

    /// Takes the last character back; false when there is none.
    fn erase(&mut self, echo: &mut Vec<u8>) -> bool {
        let Some(mut last) = self.line.pop() else { return false };
        // The bytes of a character of UTF-8 that are not its first.
        while last & 0xc0 == 0x80 && self.line.last().is_some_and(|before| *before >= 0x80) {
            last = self.line.pop().unwrap_or(last);
        }
        let columns = if last < 0x20 && last != b'\t' { 2 } else { 1 };
        for _ in 0..columns {
            echo.extend(b"\x08 \x08");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typed(keys: &[u8]) -> (String, Vec<Input>) {
        let (mut discipline, mut echo, mut input) = (Discipline::new(Mode::Canonical, true), Vec::new(), Vec::new());
        discipline.typed(keys, &mut echo, &mut input);
        (String::from_utf8_lossy(&echo).into_owned(), input)
    }

    fn line(text: &str) -> Input {
        Input::Data(text.into())
    }

    #[test]
    fn a_line_is_handed_on_when_it_is_ended_and_shown_as_it_is_typed() {
        assert_eq!(typed(b"hel"), ("hel".to_owned(), vec![]));
        assert_eq!(typed(b"hello\rworld\n"), ("hello\r\nworld\r\n".to_owned(), vec![line("hello\n"), line("world\n")]));
        assert_eq!(typed(b"\r").1, [line("\n")]);
    }

    #[test]
    fn characters_words_and_lines_are_taken_back() {
        assert_eq!(typed(b"ab\x7fc\x08d\r"), ("ab\x08 \x08c\x08 \x08d\r\n".to_owned(), vec![line("ad\n")]));
        assert_eq!(typed("aé€\x7f\x7fb\r".as_bytes()).1, [line("ab\n")]);
        assert_eq!(typed(b"one two  \x17\r").1, [line("one \n")]);
        assert_eq!(typed(b"one\x17\x17\r").1, [line("\n")]);
        assert_eq!(typed(b"one two\x15three\r").1, [line("three\n")]);
        assert_eq!(typed(b"\x7f\x15\x17"), (String::new(), vec![]));
        // What is shown as two columns is taken back as two.
        assert_eq!(typed(b"\x01\x7f").0, "^A\x08 \x08\x08 \x08");
    }

    #[test]
    fn an_interrupt_takes_the_line_back_and_an_end_hands_it_on() {
        assert_eq!(typed(b"abc\x03d\r"), ("abc^C\r\nd\r\n".to_owned(), vec![Input::Interrupt, line("d\n")]));
        assert_eq!(typed(b"abc\x04\x04"), ("abc".to_owned(), vec![line("abc"), Input::End]));
    }

    #[test]
    fn beyond_the_longest_line_the_bell_rings_and_the_line_can_still_be_ended() {
        let (echo, input) = typed(&[&[b'x'; MAX_LINE + 3][..], b"\r"].concat());
        let expected = [&[b'x'; MAX_LINE - 1][..], b"\n"].concat();
        assert_eq!(input, [Input::Data(expected)]);
        assert_eq!(echo.matches('\x07').count(), 4);
    }

    #[test]
    fn raw_is_as_it_is_in_both_directions() {
        let (mut discipline, mut echo, mut input) = (Discipline::new(Mode::Raw, false), Vec::new(), Vec::new());
        discipline.typed(b"a\x03\x7f\r", &mut echo, &mut input);
        assert_eq!((echo.as_slice(), input), (&b""[..], vec![line("a\x03\x7f\r")]));
        discipline.shown(b"a\nb", &mut echo);
        assert_eq!(echo, b"a\nb");
        let canonical = Discipline::new(Mode::Canonical, false);
        let mut shown = Vec::new();
        canonical.shown(b"a\nb", &mut shown);
        assert_eq!(shown, b"a\r\nb");
    }

    proptest! {
        #[test]
        fn whatever_is_typed_in_whatever_pieces_lines_are_short_and_the_same(
            keys in prop::collection::vec(prop_oneof![0..0x20u8, any::<u8>()], 0..3000),
            piece in 1..200usize,
        ) {
            let whole = typed(&keys);
            let (mut discipline, mut echo, mut input) = (Discipline::new(Mode::Canonical, true), Vec::new(), Vec::new());
            for keys in keys.chunks(piece) {
                discipline.typed(keys, &mut echo, &mut input);
                prop_assert!(discipline.line.len() < MAX_LINE);
            }
            prop_assert_eq!(&whole.1, &input);
            for input in input {
                if let Input::Data(line) = input {
                    prop_assert!(!line.is_empty() && line.len() <= MAX_LINE);
                    prop_assert!(!line[..line.len() - 1].contains(&b'\n'));
                }
            }
        }
    }
}
