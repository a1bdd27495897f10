//! E-mail, by the host's own sendmail: it has a queue and knows the way.

use std::{path::PathBuf, process::Stdio};

use data_encoding::BASE64;
use serde::Deserialize;
use tokio::{io::AsyncWriteExt, process::Command};

use super::{Kind, Notice};

/// The longest line of a message that is encoded, in letters (RFC 2045, section 6.8).
const LINE_LEN: usize = 76;

/// People who are told what matters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    /// The program that takes messages as sendmail(8) does.
    #[serde(default = "sendmail")]
    pub sendmail: PathBuf,
    /// What is told. Empty: everything.
    #[serde(default)]
    pub on: Vec<Kind>,
}

fn sendmail() -> PathBuf {
    "/usr/sbin/sendmail".into()
}

impl Mail {
    /// Refuses what is no address.
    ///
    /// # Errors
    /// The address that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let is_address = |address: &&String| {
            let is_plain = |letter: char| letter.is_ascii_graphic() && !"<>,;\"()\\".contains(letter);
            address.contains('@') && !address.starts_with('-') && address.chars().all(is_plain)
        };
        if self.to.is_empty() {
            return Err("mail: `to` names nobody".into());
        }
        match std::iter::once(&self.from).chain(&self.to).find(|address| !is_address(address)) {
            Some(address) => Err(format!("mail: {address:?} is no address: write name@example.org")),
            None => Ok(()),
        }
    }

    /// Gives a notice to sendmail.
    ///
    /// # Errors
    /// The reason why it was not taken.
    pub(super) async fn tell(&self, notice: &Notice) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.sendmail.display());
        let mut program = Command::new(&self.sendmail)
            .args(["-i", "-f", &self.from, "--"])
            .args(&self.to)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        if let Some(mut input) = program.stdin.take() {
            // A program that has ended already says why by its exit code.
            _ = input.write_all(self.message(notice).as_bytes()).await;
        }
        let status = program.wait().await.map_err(failed)?;
        if status.success() { Ok(()) } else { Err(format!("{}: {status}", self.sendmail.display())) }
    }

    /// Returns a message (RFC 5322). What comes from hosts is encoded, so that it cannot be taken for a header.
    fn message(&self, notice: &Notice) -> String {
        let subject = BASE64.encode(format!("treecast: {}", shortened(&notice.about)).as_bytes());
        let body = BASE64.encode(format!("{}: {}\n", notice.about, notice.says).as_bytes());
        let lines: Vec<&str> = (0..body.len())
            .step_by(LINE_LEN)
            .map(|from| &body[from..body.len().min(from + LINE_LEN)])
            .collect();
        format!(
            "From: {}\nTo: {}\nSubject: =?UTF-8?B?{subject}?=\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
             Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n{}\n",
            self.from,
            self.to.join(", "),
            lines.join("\n")
        )
    }
}

/// Returns the beginning of a text, so that its encoded word has at most 75 letters (RFC 2047, section 2).
fn shortened(text: &str) -> String {
    let mut short = String::new();
    for letter in text.chars() {
        if short.len() + letter.len_utf8() > 34 {
            break;
        }
        short.push(letter);
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_cannot_add_headers() {
        let mail = Mail {
            from: "treecast@example.org".into(),
            to: vec!["ops@example.org".into()],
            sendmail: sendmail(),
            on: Vec::new(),
        };
        assert_eq!(mail.check(), Ok(()));
        let about = "run 1\nBcc: other@example.org".to_owned();
        let notice = Notice { id: 1, at_ms: 1, kind: Kind::RunFailed, about, says: "ü".repeat(400) };
        let message = mail.message(&notice);
        assert!(!message.contains("Bcc") && message.lines().all(|line| line.len() <= 80), "{message}");
        let (_, body) = message.split_once("\n\n").unwrap();
        let body = BASE64.decode(body.replace('\n', "").as_bytes()).unwrap();
        assert!(String::from_utf8(body).unwrap().contains(&notice.says));
    }

    #[test]
    fn options_of_sendmail_are_no_addresses() {
        for wrong in ["-oQ/tmp", "nobody", "a@b\nBcc: c@d", "a@b,c@d"] {
            let mail =
                Mail { from: "a@b".into(), to: vec![wrong.into()], sendmail: sendmail(), on: Vec::new() };
            assert!(mail.check().is_err(), "{wrong}");
        }
    }
}
