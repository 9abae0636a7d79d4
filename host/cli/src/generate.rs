//! What is generated from the command line: completions for shells, and man pages.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::exit::Exit;
use crate::output;

/// Writes completions for a shell.
pub(crate) fn completions(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "fuchsine", &mut script);
    output::finish(&String::from_utf8_lossy(&script))
}

/// Writes the man page of the command, or those of all its subcommands into a folder.
pub(crate) fn man(folder: Option<&Path>) -> Exit {
    let (what, written) = match folder {
        Some(folder) => (
            format!("in `{}`", folder.display()),
            std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(Arguments::command(), folder))
                .map(|()| Vec::new()),
        ),
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(Arguments::command()).render(&mut page);
            (String::new(), rendered.map(|()| page))
        }
    };
    match written {
        Ok(page) => output::finish(&String::from_utf8_lossy(&page)),
        Err(error) => {
            // A closed standard error leaves nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: the man pages cannot be written {what}: {error}");
            Exit::Failed
        }
    }
}
