//! `receive --exec`: runs a program for each file that is complete and verified, or with `--batch` for all of a period together.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::AsFd,
        unix::{fs::PermissionsExt, process::ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::arguments;

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
            Some((program, _)) if program.contains(PLACE) => Err(
                "a received file is no program: expected a program in front of {}, like 'sha256sum {}'".to_owned(),
            ),
            Some((_, arguments)) if !arguments.iter().any(|word| word.contains(PLACE)) => {
                Err("expected {} where the file's path is to stand, like 'sha256sum {}'".to_owned())
            }
            Some((_, arguments)) if is_in_shell_text(arguments) => Err(
                "a file's name behind -c would be read as a shell's commands: write sh -c 'COMMAND \"$1\"' sh {}"
                    .to_owned(),
            ),
            Some(_) => Ok(Self(words)),
        }
    }

    /// Sees that there is such a program.
    ///
    /// # Errors
    /// Which one is missing.
    pub fn check(&self) -> Result<(), String> {
        match is_there(&self.0[0]) {
            true => Ok(()),
            false => Err(format!("there is no program {}: name one that is there with --exec", self.0[0])),
        }
    }

    /// The command for files. A word with a placeholder comes once for each of them.
    fn command(&self, paths: &[PathBuf]) -> Command {
        let mut command = Command::new(&self.0[0]);
        for word in &self.0[1..] {
            match word.contains(PLACE) {
                true => command.args(paths.iter().map(|path| fill(word, path))),
                false => command.arg(word),
            };
        }
        command.stdin(Stdio::null());
        command
    }
}

/// Whether there is a program of this name, or at this path.
pub(super) fn is_there(program: &str) -> bool {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    match program.contains('/') {
        true => is_program(Path::new(program)),
        false => std::env::split_paths(&path).any(|folder| is_program(&folder.join(program))),
    }
}

/// Parses the period of `--batch`, in seconds.
///
/// # Errors
/// What is wrong with it.
pub(super) fn period(text: &str) -> Result<u64, String> {
    match arguments::seconds(text)? {
        0 => Err("expected at least 1 s; without --batch, the command runs for each file".to_owned()),
        seconds => Ok(seconds),
    }
}

fn fill(word: &str, path: &Path) -> OsString {
    let mut filled = OsString::new();
    for (index, part) in word.split(PLACE).enumerate() {
        if index > 0 {
            filled.push(path);
        }
        filled.push(part);
    }
    filled
}

/// Whether the text that a shell takes for commands has the place of a path.
fn is_in_shell_text(arguments: &[String]) -> bool {
    let is_behind = |start| commands(&arguments[start..]).is_some_and(|text| text.contains(PLACE));
    (0..arguments.len()).any(|start| has_commands(&arguments[start]) && is_behind(start))
}

/// The word that a shell takes for commands: the first one that is neither an option nor the value of -o.
fn commands(words: &[String]) -> Option<&String> {
    let mut values = 0;
    for word in words {
        if word.starts_with("--") {
        } else if word.starts_with(['-', '+']) {
            values += word.matches(['o', 'O']).count();
        } else if values == 0 {
            return Some(word);
        } else {
            values -= 1;
        }
    }
    None
}

/// Whether a word is a shell's option -c, alone or among other letters.
fn has_commands(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.contains('c') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The thread that runs the programs, one after the other.
pub(super) struct Runner {
    files: SyncSender<PathBuf>,
    /// Returns the number of programs that failed.
    thread: JoinHandle<u64>,
}

impl Runner {
    /// Starts the thread. With `keeps_stdout`, what programs print goes to standard error. `period` is the time in which files are
    /// gathered for one program; zero runs one for each file.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(template: Template, keeps_stdout: bool, period: Duration) -> io::Result<Self> {
        let (files, waiting) = sync_channel::<PathBuf>(MOST_WAITING);
        let run = move || {
            let batches = std::iter::from_fn(|| next_batch(&waiting, period));
            batches.filter(|paths| !run(&template, paths, keeps_stdout)).count() as u64
        };
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

/// The files of a period, which begins with the first of them. A batch that gets too large ends before. `None` when there are no
/// more.
fn next_batch(waiting: &Receiver<PathBuf>, period: Duration) -> Option<Vec<PathBuf>> {
    let mut paths = vec![waiting.recv().ok()?];
    let start = Instant::now();
    while !period.is_zero()
        && paths.len() < MOST_WAITING
        && let Ok(path) = waiting.recv_timeout(period.saturating_sub(start.elapsed()))
    {
        paths.push(path);
    }
    Some(paths)
}

/// Runs the program for files. Returns whether it succeeded; if not, a line says why.
fn run(template: &Template, paths: &[PathBuf], keeps_stdout: bool) -> bool {
    let mut command = template.command(paths);
    if keeps_stdout && let Ok(stderr) = io::stderr().as_fd().try_clone_to_owned() {
        command.stdout(stderr);
    }
    let failed = match command.status() {
        Ok(status) if status.success() => return true,
        Ok(status) => why(status),
        Err(error) => format!("cannot be run: {error}"),
    };
    let others = if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
    remark!("treecast: {}{others}: {} (--exec) {failed}", paths[0].display(), template.0[0]);
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
        let path = PathBuf::from("/into/$(reboot); 'x' {}");
        let expected = ["tool", "--file=/into/$(reboot); 'x' {}", "two words", "/into/$(reboot); 'x' {}"];
        assert_eq!(words(&template.command(&[path])), expected);
        let several = template.command(&["a".into(), "b".into()]);
        assert_eq!(words(&several), ["tool", "--file=a", "--file=b", "two words", "a", "b"]);
    }

    #[test]
    fn files_of_a_period_come_together() {
        let (files, waiting) = sync_channel(MOST_WAITING);
        (0..MOST_WAITING).for_each(|number| files.send(number.to_string().into()).unwrap());
        let len = |period| next_batch(&waiting, Duration::from_millis(period)).map(|paths| paths.len());
        assert_eq!((len(0), len(5)), (Some(1), Some(MOST_WAITING - 1)));
        files.send("last".into()).unwrap();
        drop(files);
        assert_eq!((len(60_000), len(60_000)), (Some(1), None));
    }

    #[test]
    fn what_is_no_command_for_a_file_is_refused() {
        for (text, why) in [
            ("", "a command"),
            ("sha256sum", "{}"),
            ("{}", "in front of {}"),
            ("{} {}", "a received file is no program"),
            ("tool '{}", "quote"),
            ("sh -c 'gzip {}'", "sh {}"),
            ("sh -ec 'gzip {}'", "sh {}"),
            ("sh -ce 'gzip {}'", "sh {}"),
            ("bash -lc 'gzip {}'", "sh {}"),
            ("bash -c -- 'gzip {}'", "sh {}"),
            ("bash -ceuo pipefail 'gzip {}'", "sh {}"),
            ("env sh -xc 'gzip {}'", "sh {}"),
        ] {
            let line = Template::parse(text).unwrap_err();
            assert!(line.contains(why), "{text}: {line}");
        }
        for text in
            ["bash -lc 'gzip \"$1\"' sh {}", "bash -euo pipefail -c 'gzip \"$1\"' sh {}", "tool --exec {}"]
        {
            assert!(Template::parse(text).is_ok(), "{text}");
        }
    }
}
