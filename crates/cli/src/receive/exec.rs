//! `receive --exec`: runs a program for each file that is complete and verified.

use std::{
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

/// The largest number of files that wait for their program. After that, the session waits, too.
const MOST_WAITING: usize = 1024;

/// The placeholder for the file's path in a command.
const PLACE: &str = "{}";

/// A command that is to be run for a file, word by word. No shell takes part, so a file's name is never a command.
#[derive(Debug, Clone)]
pub(super) struct Template(Vec<String>);

impl Template {
    /// Divides a line into words as a shell does, with quotes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or("a quote is not closed")?;
        match words.split_first() {
            None => Err("expected a command, like 'sha256sum {}'".to_owned()),
            Some((_, arguments)) if !arguments.iter().any(|word| word.contains(PLACE)) => {
                Err("expected {} where the file's path is to stand, like 'sha256sum {}'".to_owned())
            }
            Some((_, arguments)) if is_in_shell_text(arguments) => Err(
                "a file's name would become a part of the shell's commands: write sh -c 'COMMAND \"$1\"' sh {}".to_owned(),
            ),
            Some(_) => Ok(Self(words)),
        }
    }

    /// The command for a file.
    fn command(&self, path: &Path) -> Command {
        let fill = |word: &String| -> OsString {
            let mut filled = OsString::new();
            for (index, part) in word.split(PLACE).enumerate() {
                if index > 0 {
                    filled.push(path);
                }
                filled.push(part);
            }
            filled
        };
        let mut command = Command::new(&self.0[0]);
        command.args(self.0[1..].iter().map(fill)).stdin(Stdio::null());
        command
    }
}

/// Whether the text behind a shell's option -c has the place of a path.
fn is_in_shell_text(arguments: &[String]) -> bool {
    arguments.windows(2).any(|pair| pair[0] == "-c" && pair[1].contains(PLACE))
}

/// The thread that runs the programs, one after the other.
pub(super) struct Runner {
    files: SyncSender<PathBuf>,
    /// Returns the number of files whose program failed.
    thread: JoinHandle<u64>,
}

impl Runner {
    /// Starts the thread. With `keeps_stdout`, what programs print goes to standard error.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(template: Template, keeps_stdout: bool) -> io::Result<Self> {
        let (files, waiting) = sync_channel::<PathBuf>(MOST_WAITING);
        let run = move || waiting.iter().filter(|path| !run(&template, path, keeps_stdout)).count() as u64;
        let thread = thread::Builder::new().name("exec".into()).spawn(run)?;
        Ok(Self { files, thread })
    }

    /// Hands over a file. Waits if too many are waiting.
    pub fn run(&self, path: PathBuf) {
        // The thread ends only after this.
        _ = self.files.send(path);
    }

    /// Waits for all programs. Returns how many failed.
    pub fn finish(self) -> u64 {
        drop(self.files);
        self.thread.join().unwrap_or(0)
    }
}

/// Runs the program for a file. Returns whether it succeeded; if not, a line says why.
fn run(template: &Template, path: &Path, keeps_stdout: bool) -> bool {
    let mut command = template.command(path);
    if keeps_stdout && let Ok(stderr) = io::stderr().as_fd().try_clone_to_owned() {
        command.stdout(stderr);
    }
    let failed = match command.status() {
        Ok(status) if status.success() => return true,
        Ok(status) => why(status),
        Err(error) => format!("cannot be run: {error}"),
    };
    remark!("treecast: {}: {} (--exec) {failed}", path.display(), template.0[0]);
    false
}

fn why(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_name_stays_one_word_whatever_it_holds() {
        let template = Template::parse("tool --file={} 'two words' {}").unwrap();
        let path = Path::new("/into/$(reboot); 'x' {}");
        let expected = ["tool", "--file=/into/$(reboot); 'x' {}", "two words", "/into/$(reboot); 'x' {}"];
        assert_eq!(words(&template.command(path)), expected);
    }

    #[test]
    fn what_is_no_command_for_a_file_is_refused() {
        for (text, why) in [
            ("", "a command"),
            ("sha256sum", "{}"),
            ("{}", "{}"),
            ("tool '{}", "quote"),
            ("sh -c 'gzip {}'", "sh {}"),
        ] {
            let line = Template::parse(text).unwrap_err();
            assert!(line.contains(why), "{text}: {line}");
        }
    }
}
