//! Machine code as text: the functions of a program, without the addresses at which they happen to stand.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The instructions of each function, by its symbol.
#[derive(Debug)]
pub struct Listing {
    functions: BTreeMap<String, Vec<String>>,
}

impl Listing {
    /// Of a program, by `objdump` of binutils.
    ///
    /// # Errors
    /// A sentence: `objdump` is missing or failed.
    pub fn of(program: &Path) -> Result<Listing, String> {
        let mut objdump = Command::new("objdump");
        objdump.args(["--disassemble", "--no-show-raw-insn", "--wide", "--section=.text"]).arg(program);
        let output = objdump.output().map_err(|error| format!("objdump (Debian package binutils): {error}"))?;
        if !output.status.success() {
            return Err(format!("objdump: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(Listing::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    fn parse(text: &str) -> Listing {
        let mut functions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut current = None;
        for line in text.lines() {
            if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")).map(|(_, name)| name) {
                let name = unhashed(name);
                // Local symbols may have the same name.
                let twins = (0..).map(|n| if n == 0 { name.to_owned() } else { format!("{name}#{n}") });
                let free = twins.into_iter().find(|name| !functions.contains_key(name));
                current = free.inspect(|name| drop(functions.insert(name.clone(), Vec::new())));
            } else if let Some((_, instruction)) = line.split_once(":\t")
                && let Some(instructions) = current.as_ref().and_then(|name| functions.get_mut(name))
                && !is_padding(instruction)
            {
                instructions.push(masked(instruction));
            }
        }
        functions.retain(|_, instructions| !instructions.is_empty());
        Listing { functions }
    }

    /// How many functions.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether there is no function.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// How many instructions.
    pub fn instructions(&self) -> usize {
        self.functions.values().map(Vec::len).sum()
    }

    /// The functions whose symbols contain all of `parts`, with their instructions.
    pub fn named(&self, parts: &[&str]) -> Vec<(&str, &[String])> {
        let is_named = |name: &str| parts.iter().all(|part| name.contains(part));
        self.functions.iter().filter(|(name, _)| is_named(name)).map(|(name, code)| (&**name, &**code)).collect()
    }

    /// The functions that are not the same in `other`.
    pub fn differences(&self, other: &Listing) -> Differences {
        let mut found = Differences::default();
        for (name, code) in &self.functions {
            match other.functions.get(name) {
                None => found.other_instructions.push(format!("{name}: only in the first")),
                Some(others) if code == others => {}
                Some(others) if in_no_order(code) == in_no_order(others) => found.other_order.push(name.clone()),
                Some(others) if without_moves(code) == without_moves(others) => found.other_moves.push(name.clone()),
                Some(others) => {
                    let at = code.iter().zip(others).take_while(|(a, b)| a == b).count();
                    let show = |code: &[String]| code.get(at).map_or("its end", String::as_str).to_owned();
                    let line = format!("{name}: instruction {at}: {} | {}", show(code), show(others));
                    found.other_instructions.push(line);
                }
            }
        }
        let added = other.functions.keys().filter(|name| !self.functions.contains_key(*name));
        found.other_instructions.extend(added.map(|name| format!("{name}: only in the second")));
        found
    }
}

/// What two programs differ in.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Functions that have the same instructions in another order, or with other registers: the compiler laid out the
    /// same moves in another way.
    pub other_order: Vec<String>,
    /// Functions that differ in moves between registers and memory, and in nothing else: the compiler keeps other values
    /// in registers.
    pub other_moves: Vec<String>,
    /// One line for each function that has other instructions, and for each that only one of them has.
    pub other_instructions: Vec<String>,
}

impl Differences {
    /// How many functions.
    pub fn len(&self) -> usize {
        self.other_order.len() + self.other_moves.len() + self.other_instructions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The instructions sorted, as in [`in_no_order`], and without those that only move values.
fn without_moves(code: &[String]) -> Vec<String> {
    let mut code = in_no_order(code);
    code.retain(|instruction| !instruction.starts_with("mov") && !instruction.starts_with("lea"));
    code
}

/// The instructions sorted, without the names of registers, and without places on the stack and in the function.
fn in_no_order(code: &[String]) -> Vec<String> {
    let mut code: Vec<String> = code.iter().map(|instruction| without_places(instruction)).collect();
    code.sort_unstable();
    code
}

fn without_places(instruction: &str) -> String {
    let on_stack = instruction.split_once("(%rsp").map(|(before, after)| {
        let place = before.rfind([',', ' ']).map_or(0, |at| at + 1);
        format!("{}(%rsp{after}", &before[..place])
    });
    let mut rest = on_stack.as_deref().unwrap_or(instruction);
    let mut kept = String::new();
    while let Some(at) = rest.find(['%', '+']) {
        kept.push_str(&rest[..at]);
        let skipped = &rest[at + 1..];
        rest = &skipped[skipped.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(skipped.len())..];
        kept.push('%');
    }
    kept + rest
}

/// What stands between functions.
fn is_padding(instruction: &str) -> bool {
    let mut words = instruction.split_whitespace().skip_while(|word| *word == "data16" || *word == "cs");
    matches!(words.next(), Some("nop" | "nopw" | "nopl" | "int3" | "xchg"))
}

/// A line without the hashes at the end of symbols: those of closures depend on how many stand before them.
fn unhashed(line: &str) -> String {
    let mut rest = line;
    let mut kept = String::new();
    while let Some(at) = rest.find("17h") {
        let (before, hash) = rest.split_at(at);
        kept.push_str(before);
        let is_hash =
            hash.len() > 19 && hash.as_bytes()[19] == b'E' && hash[3..19].bytes().all(|b| b.is_ascii_hexdigit());
        if !is_hash {
            kept.push_str("17h");
        }
        rest = &hash[if is_hash { 19 } else { 3 }..];
    }
    kept + rest
}

/// An instruction without addresses: of data (relative to the instruction pointer) and of code (`<symbol+offset>` stays).
fn masked(instruction: &str) -> String {
    let code = instruction.split_once('#').map_or(instruction, |(code, _)| code);
    let mut masked = Vec::new();
    let mut words = code.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let is_target = words.peek().is_some_and(|next| next.starts_with('<'));
        if is_target && word.chars().all(|c| c.is_ascii_hexdigit()) {
            continue;
        }
        masked.push(match word.split_once("(%rip)") {
            Some((before, after)) => {
                let operands = before.rsplit_once(',').map_or("", |(operands, _)| operands);
                format!("{operands},(%rip){after}")
            }
            None => word.to_owned(),
        });
    }
    unhashed(&masked.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\nDisassembly of section .text:\n\n\
        0000000000001000 <one>:\n    1000:\tpush   %rbx\n    1001:\tlea    0x2000(%rip),%rax        # 3008 <DATA>\n    \
        1008:\tcall   1010 <two>\n    100d:\tje     1001 <one+0x1>\n    100f:\tnop\n\n\
        0000000000001010 <two>:\n    1010:\tcmpq   $0x7,0x10(%rip)        # 1027\n    1018:\tret\n";

    #[test]
    fn addresses_are_masked_and_everything_else_is_kept() {
        let listing = Listing::parse(TEXT);
        assert_eq!(listing.instructions(), 6);
        assert_eq!(listing.functions["one"], ["push %rbx", "lea ,(%rip),%rax", "call <two>", "je <one+0x1>"]);
        assert_eq!(listing.functions["two"], ["cmpq $0x7,(%rip)", "ret"]);
        assert_eq!(listing.named(&["tw"]).len(), 1);
        let moved = TEXT.replace("0x2000(%rip)", "0x2040(%rip)").replace("1010 <two>\n", "2010 <two>\n");
        assert!(listing.differences(&Listing::parse(&moved)).is_empty());
    }

    #[test]
    fn another_instruction_is_a_difference() {
        let other = Listing::parse(&TEXT.replace("$0x7", "$0x8"));
        let differences = Listing::parse(TEXT).differences(&other);
        assert_eq!(differences.other_instructions, ["two: instruction 0: cmpq $0x7,(%rip) | cmpq $0x8,(%rip)"]);
        let shorter = Listing::parse(&TEXT.replace("    1018:\tret\n", ""));
        assert_eq!(Listing::parse(TEXT).differences(&shorter).len(), 1);
    }

    #[test]
    fn the_same_instructions_in_another_order_or_with_other_registers_are_told_apart() {
        let other =
            TEXT.replace("1000:\tpush   %rbx\n    1001:\tlea", "1000:\tlea").replace("%rax        # 3008", "%rcx #");
        let other = Listing::parse(&other.replace("    100f:\tnop", "    100f:\tpush   %rbp"));
        let differences = Listing::parse(TEXT).differences(&other);
        assert_eq!((differences.other_order, differences.other_instructions.len()), (vec!["one".to_owned()], 0));
    }

    #[test]
    fn other_places_on_the_stack_are_no_difference_and_other_moves_are_told() {
        let text = "0000000000001000 <f>:\n    1000:\tmov    %rax,0x10(%rsp)\n    1005:\tcmpq   $0x0,0x10(%rsp)\n";
        let listing = Listing::parse(text);
        let other = listing.differences(&Listing::parse(&text.replace("0x10(%rsp)", "0x28(%rsp)")));
        assert_eq!((other.other_order.len(), other.len()), (1, 1));
        let fewer = listing.differences(&Listing::parse(&text.replace("    1000:\tmov    %rax,0x10(%rsp)\n", "")));
        assert_eq!((fewer.other_moves.len(), fewer.len()), (1, 1));
        let other = listing.differences(&Listing::parse(&text.replace("cmpq ", "testq ")));
        assert_eq!((other.other_instructions.len(), other.len()), (1, 1));
    }

    #[test]
    fn a_symbol_is_known_without_its_hash() {
        assert_eq!(unhashed("call <_ZN1a4post17h0123456789abcdefE>"), "call <_ZN1a4postE>");
        assert_eq!(unhashed("_ZN17hello17h0123456789abcdefE.llvm"), "_ZN17helloE.llvm");
    }
}
