//! `wayleave completions` and `wayleave man`: shell completions and man pages, generated from the definition of the command
//! line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::terminal::{print, unusable};

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell that they are for
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArguments {
    /// An existing directory, to which one page per command is written
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn completions(arguments: &CompletionsArguments, mut command: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "wayleave", &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(super) fn pages(arguments: &ManArguments, mut command: Command) -> ExitCode {
    // Propagates full command names and global options, which the pages of subcommands lack otherwise.
    command.build();
    match write_pages(&command, &arguments.directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => unusable(&format!("{}: {error}", arguments.directory.display())),
    }
}

fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut page = Vec::new();
    Man::new(command.clone()).title(name.to_uppercase()).render(&mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    // The pages themselves are the help.
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .try_for_each(|command| write_pages(command, directory))
}
