//! `scripts/setup.sh` on machines that lack what it needs, made of a folder of few programs: one line says
//! what is missing and what to do. Needs root, for a private view of /usr/sbin.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::session::assert_says;

/// What every Debian has.
const ESSENTIAL: [&str; 14] = [
    "sh", "id", "cut", "sort", "head", "tail", "mktemp", "rm", "chmod", "grep", "cat", "mount", "setpriv",
    "env",
];

/// A machine that has [`ESSENTIAL`] programs, and those added.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("treecast-setup-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup.sh");
        fs::copy(script, folder.join("setup.sh")).unwrap();
        let machine = Self { folder };
        for program in ESSENTIAL {
            let path = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(program));
            let path = path.into_iter().find(|path| path.exists()).expect("this is a Debian");
            symlink(path, machine.program(program)).unwrap();
        }
        machine
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// A program that does what a shell script says.
    fn with(self, name: &str, script: &str) -> Self {
        fs::write(self.program(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.program(name), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A machine that lacks nothing but Rust.
    fn with_packages(self) -> Self {
        let programs = ["ip", "tc", "cc", "clang", "scp", "sshd"];
        programs.into_iter().fold(self, |machine, program| machine.with(program, "exit 0"))
    }

    /// Sets it up: with no /usr/sbin but an empty one of its own.
    fn set_up(&self, before: &str) -> Output {
        let script =
            format!("mount -t tmpfs none /usr/sbin && {before} sh \"{}/setup.sh\"", self.folder.display());
        let mut command = Command::new("/usr/bin/unshare");
        command.args(["--mount", "sh", "-c", &script]).env_clear();
        command.env("PATH", self.folder.join("bin")).env("HOME", &self.folder).env("TMPDIR", &self.folder);
        command.output().expect("util-linux is installed")
    }

    /// The one line with which it fails.
    fn refuses(&self, before: &str) -> String {
        let output = self.set_up(before);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{said}");
        assert!(said.starts_with("treecast: ") && said.lines().count() == 1, "{said}");
        said
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn who_is_not_root_is_told_to_be() {
    let said = Machine::new("user").refuses("setpriv --reuid=65534 --regid=65534 --clear-groups");
    assert!(said.contains("run it as root, or with sudo"), "{said}");
}

#[test]
fn without_apt_the_packages_are_named() {
    let said = Machine::new("apt").refuses("");
    assert_says(&said, &["iproute2", "gcc", "clang", "openssh-client", "openssh-server", "curl"]);
    assert!(said.contains("no apt-get") && said.matches("iproute2").count() == 1, "{said}");
}

#[test]
fn what_apt_says_without_a_network_is_in_the_line() {
    let apt = "echo 'W: Failed to fetch'; echo 'E: Unable to locate package clang' >&2; echo bye; exit 100";
    let said = Machine::new("network").with("apt-get", apt).refuses("");
    assert_says(&said, &["(E: Unable to locate package clang)", "mend the network"]);
}

/// What apt says while another one holds the lock of its lists, or dpkg's.
const LOCKED: [&str; 2] = [
    "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 123 (apt-get)\n\
     E: Unable to lock directory /var/lib/apt/lists/",
    "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 123 (apt-get)\n\
     E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
];

#[test]
fn another_apt_that_is_at_work_is_waited_for() {
    for (number, locked) in LOCKED.into_iter().enumerate() {
        let apt = format!(
            "echo x >> \"$HOME/calls\"; case $(cat \"$HOME/calls\") in *x*x*x*) echo 'E: no such package';; *) echo '{locked}';; \
             esac >&2; exit 100"
        );
        let machine = Machine::new(&format!("lock-{number}")).with("apt-get", &apt).with("sleep", "exit 0");
        let output = machine.set_up("");
        let [said, told] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(said.matches("held by process 123 (apt-get)").count(), 1, "{said}");
        assert_says(&told, &["(E: no such package)", "mend the network"]);
    }
}

#[test]
fn another_apt_that_does_not_end_is_not_taken_for_a_broken_network() {
    let apt = format!("echo '{}' >&2; exit 100", LOCKED[0]);
    let said = Machine::new("locked").with("apt-get", &apt).with("sleep", "exit 0").refuses("");
    assert_says(&said, &["held by process 123 (apt-get)", "let it end"]);
    assert!(!said.contains("network"), "{said}");
}

#[test]
fn without_a_way_to_rust_it_is_said_which_is_needed() {
    let curl = "echo 'curl: (6) Could not resolve host' >&2; exit 6";
    let said = Machine::new("rust").with_packages().with("curl", curl).refuses("");
    assert_says(&said, &["Could not resolve host", "install Rust 1."]);
}

#[test]
fn an_old_rust_that_rustup_cannot_renew_is_said() {
    let machine = Machine::new("old").with_packages().with("cargo", "exit 0");
    let machine = machine.with("rustc", "echo 'rustc 1.63.0 (abc 2022-01-01)'");
    let said = machine.with("rustup", "echo 'error: no network' >&2; exit 1").refuses("");
    assert_says(&said, &["(error: no network)", "1.88"]);
}

#[test]
fn a_machine_that_has_all_is_left_alone() {
    let machine = Machine::new("all").with_packages().with("cargo", "exit 0");
    let machine = machine.with("rustc", "echo 'rustc 1.97.0 (abc 2026-01-01)'");
    let output = machine.with("apt-get", "exit 9").set_up("");
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}
