//! `treecast package-files`: man pages and completions of shells, made from the definitions that the program parses with.

mod sections;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

use crate::Outcome;
use sections::{Part, Section};

/// Write the man pages and the completions for bash, zsh and fish, as a package installs them
#[derive(clap::Args)]
pub struct Args {
    /// The folder that stands for /usr/share; it and its folders are made if they are not there
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Where Debian's shells look for completions, below /usr/share.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/treecast"),
    (Shell::Zsh, "zsh/vendor-completions/_treecast"),
    (Shell::Fish, "fish/vendor_completions.d/treecast.fish"),
];

/// Writes the files for `command`, which is the whole program's.
pub fn run(args: &Args, command: Command) -> Outcome {
    let written = write_completions(&args.folder, visible(&command))
        .and_then(|()| write_pages(&args.folder.join("man/man1"), command));
    match written {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            Err(format!("cannot write to {}: {error}; name another folder", args.folder.display()).into())
        }
    }
}

fn write_completions(share: &Path, mut command: Command) -> io::Result<()> {
    for (shell, name) in COMPLETIONS {
        let path = share.join(name);
        fs::create_dir_all(path.parent().expect("the name has folders"))?;
        clap_complete::generate(shell, &mut command, "treecast", &mut fs::File::create(path)?);
    }
    Ok(())
}

/// Returns a copy of a command, without its hidden commands, which shells would otherwise offer.
fn visible(command: &Command) -> Command {
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible);
    // clap takes only names that live as long as the program. This one ends when the files are written.
    let copy = Command::new(&*command.get_name().to_owned().leak())
        .args(command.get_arguments().cloned())
        .subcommands(below);
    match command.get_about() {
        Some(about) => copy.about(about.clone()),
        None => copy,
    }
}

/// Writes a page for each command that the help lists.
fn write_pages(folder: &Path, command: Command) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for page in pages(command) {
        let mut file = io::BufWriter::new(fs::File::create(folder.join(format!("{}.1", page.name)))?);
        page.write(&mut file)?;
        file.flush()?;
    }
    Ok(())
}

/// A man page about one command.
struct Page {
    /// The page's name, such as `treecast-lab-run`.
    name: String,
    /// The pages about the commands above and below, which SEE ALSO names.
    neighbours: Vec<String>,
    command: Command,
}

fn pages(command: Command) -> Vec<Page> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect("treecast".to_owned(), None, command, &mut pages);
    pages
}

fn collect(name: String, above: Option<&str>, command: Command, pages: &mut Vec<Page>) {
    let below: Vec<_> = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let below_name = |command: &Command| format!("{name}-{}", command.get_name());
    let neighbours = above.map(str::to_owned).into_iter().chain(below.iter().map(below_name)).collect();
    pages.push(Page { name: name.clone(), neighbours, command });
    for command in below {
        collect(below_name(&command), Some(&name), command, pages);
    }
}

impl Page {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let usage = self.command.clone().render_usage().to_string();
        let command =
            self.command.clone().override_usage(usage.trim_start_matches("Usage:").trim().to_owned());
        let man = Man::new(command)
            .title(self.name.to_uppercase())
            // An empty date would be left out, and what follows it be taken for it.
            .date(" ")
            .source(concat!("treecast ", env!("CARGO_PKG_VERSION")))
            .manual("User Commands");
        man.render_title(out)?;
        man.render_name_section(out)?;
        man.render_synopsis_section(out)?;
        man.render_description_section(out)?;
        // In a page that a new user reads, the first steps stand before the list of everything.
        if self.is_top() {
            man.render_subcommands_section(out)?;
            self.write_own_sections(out)?;
            man.render_options_section(out)?;
        } else {
            man.render_options_section(out)?;
            if self.command.get_subcommands().any(|command| !command.is_hide_set()) {
                man.render_subcommands_section(out)?;
            }
            self.write_own_sections(out)?;
        }
        self.see_also().to_writer(out)
    }

    fn is_top(&self) -> bool {
        self.name == "treecast"
    }

    fn write_own_sections(&self, out: &mut dyn Write) -> io::Result<()> {
        sections::of(&self.name).iter().try_for_each(|section| roff(section).to_writer(out))
    }

    fn see_also(&self) -> Roff {
        let pages = self.neighbours.iter().flat_map(|name| [bold(name), roman("(1), ")]);
        let last =
            roman(if self.is_top() { sections::DOCUMENTS } else { "the documents that treecast(1) names" });
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]).text(pages.chain([last]).collect::<Vec<_>>());
        roff
    }
}

fn roff(section: &Section) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [section.title]);
    for part in section.parts {
        match part {
            Part::Text(text) => roff.control("PP", []).text([roman(*text)]),
            Part::Lines(lines) => {
                roff.control("PP", []).control("RS", ["4"]).control("EX", []);
                lines.lines().for_each(|line| _ = roff.text([roman(line)]));
                roff.control("EE", []).control("RE", [])
            }
            Part::Entry(name, text) => roff.control("TP", []).text([bold(*name)]).text([roman(*text)]),
        };
    }
    roff
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_has_its_sections_and_no_two_have_one_name() {
        let pages = pages(crate::command());
        let names: BTreeSet<_> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names.len(), pages.len());
        for name in
            ["treecast", "treecast-send", "treecast-receive", "treecast-router-run", "treecast-mroute-show"]
        {
            assert!(names.contains(name), "{name}");
        }
        assert!(
            !names.iter().any(|name| name.contains("package-files") || name.contains("help")),
            "{names:?}"
        );
        for page in &pages {
            let mut text = Vec::new();
            page.write(&mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            for title in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"] {
                assert!(
                    text.contains(&format!(".SH {title}\n")) || text.contains(&format!(".SH \"{title}\"\n")),
                    "{}: {title}",
                    page.name
                );
            }
            if page.name == "treecast-send" {
                // The rest of a text that -h cuts is here, and options are under the headings of the help.
                for part in ["headers included", "MEADCAST AND XCAST: GROUPING OF RECEIVERS"] {
                    assert!(text.to_uppercase().contains(&part.to_uppercase()), "{part}: {text}");
                }
            }
            assert!(page.neighbours.iter().all(|name| names.contains(&**name)), "{:?}", page.neighbours);
        }
    }

    #[test]
    fn sections_are_those_of_pages_that_there_are() {
        let pages = pages(crate::command());
        for (name, _) in sections::PAGES {
            assert!(pages.iter().any(|page| page.name == *name), "{name}");
        }
    }

    #[test]
    fn every_command_in_an_example_is_one_that_the_program_takes() {
        let mut count = 0;
        for (name, sections) in sections::PAGES {
            for line in sections.iter().flat_map(|section| section.parts).flat_map(Part::lines) {
                let words = shlex::split(line).expect("quotes are closed");
                let Some(at) = words.iter().position(|word| word == "treecast") else { continue };
                let words = words[at..].iter().take_while(|word| *word != "|");
                if let Err(error) = crate::command().try_get_matches_from(words) {
                    panic!("{name}: {line}: {error}");
                }
                count += 1;
            }
        }
        assert!(count >= 20, "{count}");
    }
}
