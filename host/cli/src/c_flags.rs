//! `fuchsine cflags` and `fuchsine libs`: what a C compiler has to be told, so that a driver in C can be built against the
//! installed host.
//!
//! The headers and the library are looked for beside the command: where it is installed, `../include/fuchsine` and `../lib`;
//! in a build tree, the sources above it, and its own folder.

use std::path::{Path, PathBuf};

use crate::args::CFlag;
use crate::exit::Exit;
use crate::output;

/// A header that is there if all are.
const A_HEADER: &str = "lib/fdf/dispatcher.h";
const LIBRARY: &str = "libfuchsine.so";

/// Writes the flags, or exit 1 and what was looked for.
pub(crate) fn write(flag: CFlag) -> Exit {
    let command = std::env::current_exe().and_then(|path| path.canonicalize());
    let flags = command.map_err(|error| format!("cannot tell where this command is: {error}"));
    match flags.and_then(|command| flags_beside(&command, flag)) {
        Ok(flags) => output::finish(&format!("{flags}\n")),
        Err(error) => {
            eprintln!("error: {error}");
            Exit::Failed
        }
    }
}

fn flags_beside(command: &Path, flag: CFlag) -> Result<String, String> {
    let folder = command.parent().unwrap_or(command);
    let installed = folder.parent().unwrap_or(folder);
    let in_tree = command.ancestors().map(|above| above.join("host/abi/include"));
    let (wanted, candidates): (&str, Vec<PathBuf>) = match flag {
        CFlag::Compile => (A_HEADER, std::iter::once(installed.join("include/fuchsine")).chain(in_tree).collect()),
        CFlag::Link => (LIBRARY, vec![installed.join("lib"), folder.to_owned()]),
    };
    let Some(found) = candidates.iter().find(|folder| folder.join(wanted).is_file()) else {
        let first = candidates[0].join(wanted);
        return Err(format!(
            "{} is not there; `host/abi/install PREFIX` of the sources puts it there",
            first.display()
        ));
    };
    let found = quoted(found);
    Ok(match flag {
        CFlag::Compile => format!("-I{found}"),
        CFlag::Link => format!("-L{found} -lfuchsine"),
    })
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_one_word_each() {
        assert_eq!(quoted(Path::new("/usr/lib")), "/usr/lib");
        assert_eq!(quoted(Path::new("/my lib")), "'/my lib'");
        assert_eq!(quoted(Path::new("/it's")), r"'/it'\''s'");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = flags_beside(Path::new("/nowhere/bin/fuchsine"), CFlag::Link).unwrap_err();
        assert!(error.contains("/nowhere/lib/libfuchsine.so is not there"), "{error}");
    }
}
