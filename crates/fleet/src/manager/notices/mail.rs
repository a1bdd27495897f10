//! E-mail: to a server by SMTP, or by the host's own sendmail, which has a queue and knows the way.

use std::{
    path::PathBuf,
    process::Stdio,
    time::{Duration, UNIX_EPOCH},
};

use data_encoding::BASE64;
use lettre::{
    Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor, address::Envelope,
    transport::smtp::authentication::Credentials,
};
use serde::Deserialize;
use tokio::{io::AsyncWriteExt, process::Command};
use treecast_host::text;

use super::{Kind, Notice, NoticeError};

/// The longest line of a message that is encoded, in letters (RFC 2045, section 6.8).
const LINE_LEN: usize = 76;

/// People who are told what matters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    pub from: String,
    pub to: Vec<String>,
    /// The server that takes messages: `smtps://HOST`, or `smtp://HOST?tls=required` for STARTTLS. `None`: `sendmail` takes them.
    #[serde(default)]
    pub smtp: Option<String>,
    /// The name of the manager at the server.
    #[serde(default)]
    pub user: Option<String>,
    /// The file with the password of `user`. Nobody else may read it.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
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

/// A way to people that is ready for use.
pub struct Ready {
    mail: Mail,
    envelope: Envelope,
    /// The server; `None` for sendmail.
    server: Option<AsyncSmtpTransport<Tokio1Executor>>,
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
        if self.user.is_some() != self.password_file.is_some() || self.user.is_some() && self.smtp.is_none() {
            return Err("mail: `user` and `password_file` go together, with `smtp`".into());
        }
        match std::iter::once(&self.from).chain(&self.to).find(|address| !is_address(address)) {
            Some(address) => Err(format!("mail: {address:?} is no address: write name@example.org")),
            None => Ok(()),
        }
    }

    /// Makes the way ready.
    pub(super) fn ready(&self) -> Result<Ready, NoticeError> {
        let wrong = |what: &dyn std::fmt::Display| NoticeError::Wrong(format!("mail: {what}"));
        let address = |text: &String| text.parse::<Address>().map_err(|error| wrong(&error));
        let to = self.to.iter().map(address).collect::<Result<_, _>>()?;
        let envelope = Envelope::new(Some(address(&self.from)?), to).map_err(|error| wrong(&error))?;
        let server = self.smtp.as_ref().map(|url| {
            let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url);
            let mut builder = builder.map_err(|error| wrong(&format!("{url}: {error}")))?;
            if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
                let password = text::read_private(file, 4096).map_err(|source| {
                    let what = format!("the password of {user} in {}", file.display());
                    NoticeError::Secret { what, source }
                })?;
                builder = builder.credentials(Credentials::new(user.clone(), password.trim().to_owned()));
            }
            Ok::<_, NoticeError>(builder.build())
        });
        Ok(Ready { mail: self.clone(), envelope, server: server.transpose()? })
    }
}

impl Ready {
    /// Returns the name under which the queue has deliveries.
    pub(super) fn name(&self) -> String {
        format!("mail {}", self.mail.to.join(" "))
    }

    pub(super) fn on(&self) -> &[Kind] {
        &self.mail.on
    }

    /// Gives a notice to the server or to sendmail.
    ///
    /// # Errors
    /// The reason why it was not taken.
    pub(super) async fn tell(&self, notice: &Notice) -> Result<(), String> {
        let message = self.mail.message(notice);
        match &self.server {
            None => self.mail.hand_over(&message).await,
            Some(server) => {
                let message = message.replace('\n', "\r\n");
                let sent = server.send_raw(&self.envelope, message.as_bytes()).await;
                sent.map(drop).map_err(|error| error.to_string())
            }
        }
    }
}

impl Mail {
    /// Gives a message to sendmail.
    async fn hand_over(&self, message: &str) -> Result<(), String> {
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
            _ = input.write_all(message.as_bytes()).await;
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
        // HTTP writes dates as e-mail does, but for the name of the zone.
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(notice.at_ms));
        let domain = self.from.rsplit('@').next().unwrap_or_default();
        format!(
            "From: {}\nTo: {}\nSubject: =?UTF-8?B?{subject}?=\nDate: {}\nMessage-ID: <{}.{}@{domain}>\n\
             Auto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
             Content-Transfer-Encoding: base64\n\n{}\n",
            self.from,
            self.to.join(", "),
            date.replace("GMT", "+0000"),
            notice.id,
            notice.at_ms,
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

    fn mail(to: &str) -> Mail {
        Mail {
            from: "treecast@example.org".into(),
            to: vec![to.into()],
            smtp: None,
            user: None,
            password_file: None,
            sendmail: sendmail(),
            on: Vec::new(),
        }
    }

    #[test]
    fn a_notice_cannot_add_headers() {
        let mail = mail("ops@example.org");
        assert_eq!(mail.check(), Ok(()));
        let about = "run 1\nBcc: other@example.org".to_owned();
        let at_ms = 784_111_777_000;
        let notice = Notice { id: 1, at_ms, kind: Kind::RunFailed, about, says: "ü".repeat(400) };
        let message = mail.message(&notice);
        assert!(!message.contains("Bcc") && message.lines().all(|line| line.len() <= 80), "{message}");
        assert!(message.contains("\nDate: Sun, 06 Nov 1994 08:49:37 +0000\n"), "{message}");
        let (_, body) = message.split_once("\n\n").unwrap();
        let body = BASE64.decode(body.replace('\n', "").as_bytes()).unwrap();
        assert!(String::from_utf8(body).unwrap().contains(&notice.says));
    }

    #[test]
    fn options_of_sendmail_are_no_addresses() {
        for wrong in ["-oQ/tmp", "nobody", "a@b\nBcc: c@d", "a@b,c@d"] {
            assert!(mail(wrong).check().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_needs_a_server_and_a_user() {
        let user = Some("treecast".to_owned());
        let file = Some(PathBuf::from("/etc/treecast/mail-password"));
        let smtp = Some("smtps://mail.example.org".to_owned());
        let own = mail("ops@example.org");
        assert!(Mail { user: user.clone(), ..own.clone() }.check().is_err());
        assert!(Mail { user: user.clone(), password_file: file.clone(), ..own.clone() }.check().is_err());
        assert_eq!(Mail { user, password_file: file, smtp, ..own }.check(), Ok(()));
    }
}
