//! The Debian package, made of the program that was just built, in a Debian that was made for this: installed, used as a
//! new user does with `man treecast` alone, removed and purged. Needs root and mmdebstrap.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use crate::{
    child::{Guarded, SpawnGuarded},
    mroute_network::Network,
    session::{Scratch, assert_says, contents, finish, finish_well, path, start, wait_until},
};
use treecast_host::namespace::{self, Namespace};

const SIZE: usize = 3_000_000;
/// What the program for devices may have at most.
const MOST_ENDPOINT_BYTES: u64 = 6_000_000;
const UNITS: [&str; 6] = [
    "treecast-agent.service",
    "treecast-feed.service",
    "treecast-manager.service",
    "treecast-mroute.service",
    "treecast-router.service",
    "treecast-standing.service",
];

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn the_package_is_installed_used_and_purged_and_leaves_nothing() {
    let debian = Debian::new();
    let before = debian.files();
    debian.install();
    debian.has_what_it_promises();
    debian.services_are_sound_and_off();
    debian.a_new_user_sends_a_file();
    debian.a_machine_is_imaged();
    debian.a_standing_receiver_runs();
    debian.run("systemctl enable treecast-mroute treecast-standing");
    fs::write(debian.path("etc/treecast/router.env"), "OPTIONS=--interface eth0\n").unwrap();
    fs::write(debian.path("etc/treecast/domain.key"), "07".repeat(32)).unwrap();

    debian.run("dpkg --remove treecast");
    assert!(!debian.path("usr/bin/treecast").exists());
    let kept = fs::read_to_string(debian.path("etc/treecast/router.env")).unwrap();
    assert_eq!(kept, "OPTIONS=--interface eth0\n", "a removal keeps settings");
    assert!(debian.path("var/lib/treecast/history.jsonl").exists(), "a removal keeps the state");

    debian.install();
    assert_eq!(fs::read_to_string(debian.path("etc/treecast/router.env")).unwrap(), kept);
    let link = debian.path("etc/systemd/system/multi-user.target.wants/treecast-mroute.service");
    assert!(link.symlink_metadata().is_ok(), "what was enabled is enabled again");

    debian.run("dpkg --purge treecast");
    let after = debian.files();
    let differ = |file: &(&PathBuf, &Kind)| before.get(file.0) != Some(file.1);
    let left: Vec<_> = after.iter().filter(differ).collect();
    let gone: Vec<_> = before.keys().filter(|path| !after.contains_key(*path)).collect();
    assert!(left.is_empty() && gone.is_empty(), "left or changed: {left:?}\ngone: {gone:?}");
}

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn an_endpoint_is_small_needs_no_libraries_and_delivers_a_file_in_an_initramfs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = output(Command::new(root.join("scripts/musl.sh")).args(["x86_64", "treecast-endpoint"]));
    let program = root.join(built.trim_end());
    let size = fs::metadata(&program).unwrap().len();
    assert!(size <= MOST_ENDPOINT_BYTES, "treecast-endpoint has {size} bytes");
    let dynamic = output(Command::new("readelf").arg("--dynamic").arg(&program));
    assert!(!dynamic.contains("NEEDED"), "it needs libraries: {dynamic}");
    let said = output(Command::new(root.join("scripts/initramfs.sh")).arg(&program));
    assert!(said.contains("= the file is equal"), "{said}");
}

/// Runs a program that may take minutes, and returns its standard output.
fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it can be run");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What an administrator does in the Debian that [`Debian::boot`] starts. Each line of output that begins with "=" is looked at.
const ADMINISTRATOR: &str = r#"
dpkg --install /treecast.deb
key=$(treecast keys new /root/key.pem | cut -d' ' -f1)
sed -i "s/senders = \[\]/senders = [\"$key\"]/" /etc/treecast/standing.toml
systemctl enable --now treecast-feed treecast-mroute treecast-router treecast-standing
ready() { journalctl -o cat -u "treecast-$1" | grep -c "$2"; }
for tries in $(seq 300); do
    [ "$(ready mroute ready)$(ready router ready)$(ready standing started)$([ ! -e /var/lib/treecast/keys/default.pem ] || echo 1)" != 1111 ] || break
    sleep 0.1
done
echo "= running: $(systemctl is-active treecast-feed treecast-mroute treecast-router treecast-standing | xargs)"
echo "= restarts: $(systemctl show -P NRestarts treecast-feed treecast-mroute treecast-router treecast-standing | xargs)"
echo file > /var/spool/treecast/one
XDG_CONFIG_HOME=/var/lib treecast keys show default >/dev/null && echo "= the feed has a key"
echo "= $(treecast router status | head -n 1)"
treecast mroute show | grep -q INTERFACE && echo "= routes multicast"
treecast status --history | grep -q " started; " && echo "= the history is in the state folder"
systemctl restart treecast-mroute
echo "= restarted: $(systemctl is-active treecast-mroute)"
dpkg --purge treecast
echo "= purged: $(systemctl is-active treecast-feed treecast-mroute treecast-router treecast-standing | xargs), $(ls -l /proc/[0-9]*/exe 2>/dev/null | grep -c treecast) left"
"#;

#[test]
#[ignore = "it takes long: `make test-all` runs it"]
fn the_services_do_their_work_under_the_restrictions_of_their_units() {
    let debian = Debian::new();
    fs::rename(debian.package(), debian.path("treecast.deb")).unwrap();
    let log = debian.boot(ADMINISTRATOR);
    let said: Vec<_> = log.lines().filter_map(|line| line.strip_prefix("= ")).collect();
    let expected = [
        "running: active active active active",
        "restarts: 0 0 0 0",
        "the feed has a key",
        "enabled, min-dsts 0, dialect rfc",
        "routes multicast",
        "the history is in the state folder",
        "restarted: active",
        "purged: inactive inactive inactive inactive, 0 left",
    ];
    assert_eq!(said, expected, "{log}");
}

/// A machine that has started from the network, in the folder of the imaging examples: a stand-in for what initramfs-tools has in an
/// initramfs, and a loop device for the disk. The first attempt to get an address ends its shell, as initramfs-tools' does.
const MACHINE: &str = r#"
set -e
mkdir -p /scripts /usr/share/initramfs-tools
echo 'copy_exec() { [ -x "$1" ]; }; auto_add_modules() { [ "$1" = net ]; }' > /usr/share/initramfs-tools/hook-functions
sh hooks/treecast
echo 'configure_networking() { [ -e /tried ] || { : > /tried; . /no/such; }; echo DEVICE=b1 > /run/net-b1.conf; }' > /scripts/functions
truncate --size 4M /disk
disk=$(losetup --find --show /disk)
echo "quiet treecast.ticket=$(cat /ticket) treecast.to=$disk" > /cmdline
mount --bind /cmdline /proc/cmdline
: > /console
mount --bind /console /dev/console
printf '#!/bin/sh\necho "$*" > /off\nkill "$PPID"\n' > /usr/local/bin/poweroff
chmod +x /usr/local/bin/poweroff
sh scripts/init-premount/treecast 2>/dev/null || [ $? = 143 ]
umount /dev/console
losetup --detach "$disk"
cmp -n $(stat -c %s /image.raw) /image.raw /disk
echo "= off: $(cat /off)"
cat /console
rm -r /scripts /usr/share/initramfs-tools/hook-functions /tried /run/net-b1.conf /disk /ticket /image.raw /cmdline /console /off /usr/local/bin/poweroff
"#;

/// A Debian in a folder, and hosts on one LAN that have it as their system. `r1` forwards.
struct Debian {
    scratch: Scratch,
    network: Network,
}

/// What a file is: its mode with its type, and its length if it is an ordinary one.
type Kind = (u32, u64);

impl Debian {
    fn new() -> Self {
        let scratch = Scratch::new();
        let network = Network::new(&["b1", "s", "e1", "r1"]);
        network.lan(3, "b1", &["s", "e1", "r1"]);
        let debian = Self { scratch, network };
        fs::create_dir_all(debian.path("")).unwrap();
        finish_well(start(Command::new("tar").arg("-xf").arg(archive()).arg("-C").arg(debian.path(""))));
        debian
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path("root").join(name)
    }

    /// Makes the package of the program under test. Compression is not what is tested.
    fn package(&self) -> PathBuf {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/package.sh");
        let mut package = Command::new(script);
        package.args(["deb", env!("CARGO_BIN_EXE_treecast")]).arg(self.scratch.path("out"));
        let said = output(package.env("DPKG_DEB_COMPRESSOR_TYPE", "none"));
        PathBuf::from(said.lines().last().expect("it prints the package's path"))
    }

    fn install(&self) {
        fs::rename(self.package(), self.path("treecast.deb")).unwrap();
        self.run("dpkg --install /treecast.deb");
        fs::remove_file(self.path("treecast.deb")).unwrap();
    }

    /// Starts systemd on `r1`, which runs the script, and ends. Returns what the script has printed.
    fn boot(&self, script: &str) -> String {
        let unit = "[Service]\nType=oneshot\nExecStart=/bin/bash /script\nStandardOutput=file:/log\nStandardError=file:/log\n\
                    ExecStopPost=/bin/systemctl poweroff -f -f\n";
        fs::write(self.path("script"), script).unwrap();
        fs::write(self.path("etc/systemd/system/script.service"), unit).unwrap();
        let before = "mount -t cgroup2 none sys/fs/cgroup && mount -t tmpfs none run && mkdir old && pivot_root . old && umount -l old && \
                      exec env container=test /lib/systemd/systemd --unit=script.service";
        let mut systemd = self.inside(before);
        systemd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let (_, said) = finish(self.network.within("r1", || systemd.spawn_guarded()));
        fs::read_to_string(self.path("log")).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    fn has_what_it_promises(&self) {
        let files = self.run("dpkg --listfiles treecast");
        for name in [
            "/usr/bin/treecast",
            "/usr/share/man/man1/treecast.1.gz",
            "/usr/share/man/man1/treecast-send.1.gz",
            "/usr/share/man/man1/treecast-router-run.1.gz",
            "/usr/share/bash-completion/completions/treecast",
            "/usr/share/zsh/vendor-completions/_treecast",
            "/usr/share/fish/vendor_completions.d/treecast.fish",
        ] {
            assert!(files.lines().any(|file| file == name), "no {name} in {files}");
        }
        self.run("dpkg --verify treecast");
        let completed = self.run(
            "bash -c '. /usr/share/bash-completion/completions/treecast; COMP_WORDS=(treecast rec); COMP_CWORD=1; \
             _treecast treecast rec treecast; echo ${COMPREPLY[@]}'",
        );
        assert_eq!(completed.trim(), "receive");
        // No page that mandb or a reader complains of.
        let complaints = self.run(
            "for page in /usr/share/man/man1/treecast*; do MANROFFSEQ= MANWIDTH=100 man --warnings -l $page 2>&1 >/dev/null; done",
        );
        assert_eq!(complaints, "");
    }

    fn services_are_sound_and_off(&self) {
        let said = self.run(&format!("systemd-analyze verify --man=yes {} 2>&1", UNITS.join(" ")));
        assert!(!said.contains("treecast"), "{said}");
        for unit in UNITS {
            let state = self.run(&format!("systemctl is-enabled {unit} || true"));
            assert_eq!(state.trim(), "disabled", "{unit}");
        }
    }

    /// Types the two commands that begin the examples of `man treecast`.
    fn a_new_user_sends_a_file(&self) {
        let manual = self.run("MANWIDTH=1000 man treecast | cat");
        let examples = manual.split_once("\nEXAMPLES\n").expect("the page has examples").1;
        let mut commands = examples.lines().map(str::trim).filter(|line| line.starts_with("treecast "));
        let (send, receive) = (commands.next().unwrap(), commands.next().unwrap());
        assert!(send.contains("image.iso") && receive.contains("acorn-pony-walrus"), "{send}, {receive}");
        fs::create_dir_all(self.path("srv/images")).unwrap();
        fs::write(self.path("image.iso"), contents(SIZE)).unwrap();

        let begun = std::time::Instant::now();
        let mut sender = self.start("s", send);
        let lines = BufReader::new(sender.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let offer = lines.take(2).last().expect("two lines");
        let code = offer.rsplit_once(' ').expect("a code").1;
        finish_well(self.start("e1", &receive.replace("acorn-pony-walrus", code)));
        println!("a file came by `man treecast` in {:?}", begun.elapsed());
        assert!(fs::read(self.path("srv/images/image.iso")).unwrap() == contents(SIZE));
        finish_well(sender);
        fs::remove_dir_all(self.path("srv/images")).unwrap();
        fs::remove_file(self.path("image.iso")).unwrap();
    }

    /// Runs the hook and the script of `contrib/imaging`, as the package installs them.
    fn a_machine_is_imaged(&self) {
        fs::write(self.path("image.raw"), contents(SIZE)).unwrap();
        let sender = self.start("s", "exec treecast send --interface b1 --ticket-file /ticket image.raw");
        wait_until("there is a ticket", || self.path("ticket").exists());
        let script = format!("cd /usr/share/doc/treecast/examples/imaging{MACHINE}");
        let said = finish_well(self.start("e1", &script));
        assert_says(&said, &["= off: -f", "is written and verified: poweroff"]);
        let said = finish_well(sender);
        assert!(said.contains("02:00:00:00:03:02 joined from"), "it is called by its card: {said}");
    }

    /// It trusts a sender's key, and makes its own key and its history.
    fn a_standing_receiver_runs(&self) {
        let key = self.run("treecast keys new /root/key.pem");
        let settings = self.path("etc/treecast/standing.toml");
        let text = fs::read_to_string(&settings).unwrap();
        let trusted = format!("senders = [\"{}\"]", key.split_whitespace().next().expect("a public key"));
        assert!(text.contains("senders = []"), "the settings of the package trust nobody: {text}");
        fs::write(&settings, text.replace("senders = []", &trusted)).unwrap();
        fs::remove_file(self.path("root/key.pem")).unwrap();
        let mut service = self.start("e1", "exec treecast receive --standing /etc/treecast/standing.toml");
        wait_until("it has begun its history", || self.path("var/lib/treecast/history.jsonl").exists());
        service.end();
    }

    fn run(&self, command: &str) -> String {
        finish_well(start(&mut self.command(command)))
    }

    fn start(&self, node: &str, command: &str) -> Guarded {
        let mut command = self.command(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.network.within(node, || command.spawn_guarded())
    }

    /// What a shell in this Debian does, which sees only its own processes.
    fn command(&self, command: &str) -> Command {
        let mut shell = self.inside("exec chroot . /bin/sh -c \"$1\"");
        shell.arg(command);
        shell
    }

    /// What a shell of this machine does that is in the folder of this Debian, with its file systems there.
    fn inside(&self, script: &str) -> Command {
        let root = self.path("");
        let script = format!(
            "mount --bind '{0}' '{0}' && cd '{0}' && mount -t proc proc proc && mount -t sysfs sysfs sys && \
             mount --rbind /dev dev && {script}",
            path(&root).trim_end_matches('/')
        );
        let mut shell = Command::new("unshare");
        shell
            .args("--mount --pid --cgroup --uts --ipc --fork --kill-child sh -c".split(' '))
            .args([&*script, "sh"]);
        shell.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        shell.envs([("HOME", "/root"), ("LC_ALL", "C.UTF-8"), ("DEBIAN_FRONTEND", "noninteractive")]);
        shell
    }

    /// All files and folders, but for [`NOTES`].
    fn files(&self) -> BTreeMap<PathBuf, Kind> {
        let root = self.path("");
        let (mut files, mut folders) = (BTreeMap::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let name = entry.path().strip_prefix(&root).unwrap().to_owned();
                if NOTES.iter().any(|note| name == Path::new(note)) {
                    continue;
                }
                let kind = entry.metadata().unwrap();
                if kind.is_dir() {
                    folders.push(entry.path());
                }
                files.insert(name, (kind.mode(), if kind.is_file() { kind.len() } else { 0 }));
            }
        }
        files
    }
}

/// Files and folders in which dpkg, man, mount and systemd note what they have done. They are no package's.
const NOTES: [&str; 5] =
    ["run/mount", "run/systemd", "var/cache/man", "var/lib/dpkg/status-old", "var/log/dpkg.log"];

/// A packed Debian of this machine's release. It is made once for a build folder, which takes about a minute.
fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let release = fs::read_to_string("/etc/os-release").unwrap();
        let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let codename = codename.expect("this is a release of Debian's").trim_matches('"');
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let whole = folder.join(format!("{codename}.tar"));
        if !whole.exists() {
            let part = folder.join(format!("{codename}.part.tar"));
            let mut make = Command::new("mmdebstrap");
            make.args(["--quiet", "--variant=minbase", "--include=man-db,systemd", codename]).arg(&part);
            // The test's own network reaches no archive of Debian's.
            let network = Namespace::of_file(Path::new("/proc/self/ns/net")).expect("it is there");
            namespace::place(network, &mut make);
            let output = make.output().expect("scripts/setup.sh test installs mmdebstrap");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            fs::rename(&part, &whole).unwrap();
        }
        whole
    })
}
