//! Runs an OpenSSH server for a run: with a port of its own, with keys that are thrown away, and with nothing
//! of the system's configuration (librecast-updates-2022, 2.2: a server apart from the node's own sshd, so that
//! its cost can be measured).

use std::{
    fs, io,
    net::IpAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The port of the server in its namespace.
pub const PORT: u16 = 4022;
/// The name that the host key belongs to, whatever the address.
const HOST_ALIAS: &str = "treecast-experiment";
/// sshd must be called by its whole path.
const SSHD: &str = "/usr/sbin/sshd";
/// The folder in which sshd confines its unprivileged part. Debian makes it when the service starts.
const CONFINEMENT: &str = "/run/sshd";

/// The keys and configuration for one experiment, in a folder of its own.
pub struct Ssh {
    folder: PathBuf,
    _confinement: Confinement,
}

impl Ssh {
    /// Makes keys and configuration in `folder`.
    pub fn prepare(folder: &Path) -> io::Result<Self> {
        if !Path::new(SSHD).exists() {
            return Err(io::Error::other(format!("{SSHD} is not there: apt-get install openssh-server")));
        }
        for key in ["host_key", "client_key"] {
            make_key(&folder.join(key))?;
        }
        let host_key = fs::read_to_string(folder.join("host_key.pub"))?;
        fs::write(folder.join("known_hosts"), format!("{HOST_ALIAS} {host_key}"))?;
        fs::copy(folder.join("client_key.pub"), folder.join("authorized_keys"))?;
        fs::write(folder.join("sshd_config"), configuration(folder, root_is_locked()))?;
        Ok(Self { folder: folder.into(), _confinement: Confinement::make()? })
    }

    /// Returns the command of the server, which stays in the foreground.
    pub fn server(&self) -> Command {
        let mut command = Command::new(SSHD);
        command.args(["-D", "-e", "-f"]).arg(self.folder.join("sshd_config"));
        command
    }

    /// Returns the command of a client that copies `source` from `server` to `copy`.
    pub fn client(&self, server: IpAddr, source: &Path, copy: &Path) -> Command {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let host = match server {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let mut command = Command::new("scp");
        command.args(["-q", "-B", "-F", "none", "-P", &PORT.to_string(), "-i", &file("client_key")]);
        for option in [
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=yes",
            "ConnectionAttempts=5",
            &format!("HostKeyAlias={HOST_ALIAS}"),
            &format!("UserKnownHostsFile={}", file("known_hosts")),
        ] {
            command.args(["-o", option]);
        }
        command.arg(format!("root@{host}:{}", literally(source))).arg(copy);
        command
    }
}

/// scp takes the remote path for a pattern.
fn literally(path: &Path) -> String {
    let mut literal = String::new();
    for character in path.display().to_string().chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\') {
            literal.push('\\');
        }
        literal.push(character);
    }
    literal
}

fn make_key(path: &Path) -> io::Result<()> {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", HOST_ALIAS, "-f"])
        .arg(path)
        .status()
        .map_err(|error| io::Error::other(format!("ssh-keygen: {error}: apt-get install openssh-client")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("ssh-keygen failed: {status}"))) }
}

/// `locked`: without PAM, sshd lets nobody in whose password is locked.
fn configuration(folder: &Path, locked: bool) -> String {
    let folder = folder.display();
    let pam = if locked { "yes" } else { "no" };
    format!(
        "Port {PORT}\nHostKey {folder}/host_key\nPidFile none\nAuthorizedKeysFile {folder}/authorized_keys\n\
         StrictModes no\nUsePAM {pam}\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nSubsystem sftp internal-sftp\nForceCommand internal-sftp\n\
         AllowTcpForwarding no\nX11Forwarding no\nUseDNS no\nMaxStartups 1000\nLogLevel ERROR\n"
    )
}

fn root_is_locked() -> bool {
    let shadow = fs::read_to_string("/etc/shadow").unwrap_or_default();
    shadow.lines().any(|line| line.starts_with("root:!"))
}

/// The folder that sshd wants to be there, removed again when it was not.
struct Confinement {
    ours: bool,
}

impl Confinement {
    fn make() -> io::Result<Self> {
        match fs::DirBuilder::new().mode(0o755).create(CONFINEMENT) {
            Ok(()) => Ok(Self { ours: true }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self { ours: false }),
            Err(error) => Err(io::Error::other(format!("{CONFINEMENT}: {error}"))),
        }
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        if self.ours {
            // Another experiment's sshd may have come to need it; then it stays, empty.
            _ = fs::remove_dir(CONFINEMENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sshd_accepts_the_configuration() {
        let folder = std::env::temp_dir().join(format!("treecast-ssh-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let ssh = Ssh::prepare(&folder).expect("needs root, ssh-keygen and sshd");
        let mut check = ssh.server();
        let output = check.arg("-t").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        drop(ssh);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn scp_gets_a_version_6_address_in_brackets_and_a_name_that_is_no_pattern() {
        let folder = PathBuf::from("/keys");
        let ssh = Ssh { folder, _confinement: Confinement { ours: false } };
        let client = ssh.client("fd00::1".parse().unwrap(), Path::new("/a [1]"), Path::new("/copy"));
        let arguments: Vec<_> = client.get_args().map(|argument| argument.to_string_lossy()).collect();
        assert_eq!(arguments[arguments.len() - 2..], ["root@[fd00::1]:/a \\[1\\]", "/copy"]);
    }
}
