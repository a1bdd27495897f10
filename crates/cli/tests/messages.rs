//! What is said about wrong arguments and files: one line that names what is wrong and what to do about
//! it, an exit code that is not 0, and nothing left behind.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use crate::session::{Arguments, Scratch, assert_says, finish_well};

/// A command a line, and behind the arrow what must be said: what is wrong, and what to do. They are run in a folder with a `file` that
/// holds "hello", a `binary`, an empty one, an empty `folder` and what else [`Folder::new`] puts there.
const CASES: &str = r#"
sent => 'sent' | 'send'
send => <PATHS> | --help
mead plan --topology lan:clients=5 => needs host c30-1 | name participants | --participants
send nofile => nofile | check the name
send 'new\nline' => new\nline | check the name
send --interface lo --ticket-file nofolder/ticket file => nofolder/ticket | --ticket-file
send /dev/zero => /dev/zero | name one of these
send file file => file is named twice | name it once
send file ./file => ./file and file are the same | name it once
send -av folder => -a is an option of rsync | takes folders whole
send --dry-run folder => --dry-run is an option of rsync | no trial
send --mcast-rdv-addr x file => --mcast-rdv-addr is an option of udpcast | --group
receive --yes x => --yes is an option of croc | asks nothing
receive --dir y x => --dir is an option of | --into DIR
receive --exec {} x => a received file is no program | 'sha256sum {}'
receive --name 'a b,c' x => 'a b,c' | comma | --to-standing
receive --old nosuch x => cannot read nosuch | --old
help sned => 'sned' | 'send'
send --control 127.0.0.1:22x file => '127.0.0.1:22x' | 192.0.2.1:5000
send --source host file => 'host' | fd00::1
send --group [ff15::1]:0 file => '[ff15::1]:0' | [ff15::1]:5000
send --group ff15::42:50000 file => 'ff15::42:50000' | write [ff15::42]:50000
send --group ff01::1 file => ff01::1 never leaves its host | like ff15::1
send --group ff02::1 file => ff02::1 belongs to another protocol | like ff15::1
send --group 224.0.0.5:5000 file => 224.0.0.5 belongs to | like 239.255.1.1
receive --dialect iotup --group [ff02::2]:4242 x => ff02::2 belongs to | ff15::1
send --retx-factor -1 file => '-1' | 0 or more
send --stall-limit 9 file => '9' | a time from 10s to 1d
send --stall-limit 2m30 file => '2m30' | a time from 10s to 1d
send --rate 100MB file => 100MB is a size | write 100M for bits | 100MB/s for bytes
send --bwlimit 5M file => --bwlimit is an option of rsync | --rate 50M
receive --delete x => --delete is an option of rsync | receivers keep files
load run --group ff15::1 --rate 450 => 450 has no unit | --pps 450 | 450bit
send --rate -5 file => '-5' | like 500k
send --fec -5% file => '-5%' | 1% to 300%
send --wait 0 file => '0' | a number from 1 to
send --wait-timeout -1 file => '-1' | a time from 0s
send --linger -1 file => '-1' | a time from 0s
receive --reconnect -1 x => '-1' | a time from 0s
send --idle x file => 'x' | a time from 0s
send --block 70000 file => '70000' | from 580 to 65475
send --block 0 file => '0' | from 580 to 65475
send --ttl 256 file => '256' | a number from 1 to 255
send --fanout unicast --group ff15::1 file => leave out --group
send --delta --repair none file => --delta | take --repair nack
send --delta --compress zstd file => leave out --delta, or --compress
receive --old x --standing y => '--old | '--standing
send --fanout unicast --source ::1 file => leave out --source
send --repair carousel --control [::1]:1 file => leave out --control
send --repair carousel --wait 3 file => leave out --wait
send --repair carousel --wait-at-least 3 file => leave out --wait-at-least
send --repair carousel --per-address 3 file => leave out --per-address
send --wait 2 --wait-at-least 3 file => --wait-at-least | fewer receivers
send --per-address 0 file => '0' | a number from 1 to
send --repair carousel --linger 5 file => carousel | leave out --linger
send --repair carousel --stall-limit 50 file => carousel | leave out --stall-limit
send --repair carousel --at-once 5 file => carousel | leave out --at-once
send --repair none --priority fair file => --priority | --repair nack or after
send --give-up-after 3x file => '3x' | x3 for three
send --repair carousel --give-up-after 2m file => carousel | leave out --give-up-after
send --retx-minimum 5 file => --retx-minimum | add --retx-factor
send --repair carousel --retx-factor 2 file => --retx-factor | --repair nack
send --repair none --retx-factor 2 file => --retx-factor | --repair nack
send --plain --key x file => leave out --plain | --key
send --key ./nofile file => ./nofile | No such file | --key
send --allow nofile file => allow list nofile | one public key a line
send --allow /dev/zero file => /dev/zero | longer than 4 MiB
send --allow pipe file => allow list pipe: nobody writes into the pipe | one public key a line
send --allow empty file => empty | names nobody | treecast keys show
send --allow file file => file:1: | tck1. | treecast keys show
send --expires 0 file => '0' | from 1s to 366d
send --expires -1h file => '-1h' | like 90s
send --rates -1,-2 file => '-1,-2' | from fast to slow
send --repair carousel --allow x file => leave out --allow
send --repair carousel --expires 5m file => leave out --expires
send --dialect iotup --key x file => leave out --key
send --hash blake3 file => --dialect iotup
send --idle 5 file => --idle | --repair carousel
send --fec 0% file => 1% to 300%
send --fec 301% file => 1% to 300%
send --fec some file => 1% to 300%
send --fec 20% --repair carousel file => --fec auto
send --fec auto --dialect iotup file => leave out --fec, or --dialect iotup
send --rates 9M file => from fast to slow
send --rates 1M,9M file => from fast to slow
send --rates 9M,9M file => from fast to slow
send --rates 9M,0 file => from fast to slow
send --rates 9M,1M --rate 9M file => leave out --rate, or --rates
send --rates 9M,1M --rate-floor 1M file => leave out --rate-floor, or --rates
send --rates 9M,1M --repair none file => --repair nack, after or carousel
send --rates 9M,1M --fanout unicast file => --fanout multicast
send --rates 9M,1M --group 239.255.255.255 --interface lo file => --group
send --repair carousel --fanout unicast file => --receivers
send --repair carousel --group fd00::1 file => fd00::1
send --group 192.0.2.1 file => 192.0.2.1 | no multicast address
send --interface nowhere0 file => nowhere0 | does not exist | lo
send --interface lo --fanout mead file => lo | no global | --interface
send --interface lo --fanout xcast file => lo | no global | Xcast
send --fanout mead --group ff15::1 file => --group
send --fanout mead --repair carousel file => carousel | --receivers
send --fanout mead --merge 1 file => --merge | --grouping thesis
send --fanout auto --rates 2M,1M file => --rates | --fanout
send --fanout xcast --grouping cost file => --grouping | --fanout mead
send --fanout xcast --receivers ::1 file => --receivers | --fanout mead
send --receivers fd00::1 file => --receivers | --fanout mead
send --max 5 file => --max | --fanout mead
send --grouping cost file => --grouping | --fanout mead
send --dont-replicate file => --dont-replicate | --fanout mead
send --to-router file => --to-router | --fanout mead
send --min-leaves 2 file => --min-leaves | --fanout mead
send --domain-key key file => --domain-key | --fanout mead
send --mead-dialect rfc file => --mead-dialect | --fanout mead
receive => <TICKET|@PATH|CODE> | --help
receive x => treecast2. | copy the whole first line
receive treecast2.AAAA => cut short | copy the whole first line
receive treecast3.AAAA => version, 3, | same version of treecast on both sides
receive @nofile => nofile | --ticket-file
receive @binary => binary | no text | --ticket-file
receive @/dev/zero => /dev/zero | longer than 64 KiB | --ticket-file
receive --connect-timeout -1 x => '-1' | a time from 0s
receive --port 0 x => '0' | a number from 1 to 65535
receive --dialect iotup --group ff15::1 --port 5000 x => carousel | leave out --port
receive --group ff15::1 x => leave out --group
receive --max-bytes 0 x => '0' | --max-bytes | from 1B on | like 500k
receive @empty => no ticket | empty | treecast send
receive --only [ x => '[' | --only | like '*.iso'
receive --only '' x => '' | --only | like '*.iso'
receive --dialect iotup x => --group
receive --dialect iotup --group ff1e::42 --interface no0 x => no0
keys new a.b => "a.b" | letters, digits, - and _
keys show ./nofile => ./nofile | No such file | --key
keys show /dev/zero => /dev/zero | no regular file | treecast keys new
unicast server tcp nofile ::1 => nofile | check the name
unicast server tcp folder ::1 => folder is a folder | name a file
unicast server tcp file host => 'host' | [fd00::1]:4243
unicast server tcp --rate 5M file ::1 => --rate | leave it out
lab up nofile => nofile | give a TOML file
lab up binary => binary | no text | give a TOML file
lab up /dev/zero => /dev/zero | no regular file | give a TOML file
lab up file => file:1 | expected
lab up lan:clients=0 => clients=0 | from 1 to 4000
lab up lan:clients=many => clients=many: expected a number from 1 to 4000
lab up lan:clients=1 --name 'A b' => "A b" | lower-case letters
lab down => no lab is named | lab list | --all
lab down a --all => --all
lab down nosuchlab => nosuchlab | lab list
lab exec nosuchlab client0 -- true => nosuchlab | lab list
lab exec nosuchlab client0 ls -l => nosuchlab | lab list
lab exec nosuchlab client0 => <PROGRAM> | --help
lab graph nosuchlab => nosuchlab | lab list
lab fault nosuchlab client0 show => nosuchlab | lab list
lab fault x client0 firewal => a similar subcommand exists: 'firewall'
lab fault nosuchlab client0 lose 200% => '200%' | like 5%
lab run nofile => nofile | such as labs/
lab run binary => binary | no text | such as labs/
lab run /dev/zero => /dev/zero | no regular file | such as labs/
lab run pipe => cannot read experiment pipe: it is no regular file | such as labs/
lab run folder => cannot read experiment folder: it is a folder | such as labs/
sim run pipe => cannot read experiment pipe: it is no regular file | such as labs/
sim run load.toml => treecast: the simulator has no workload `load`
sim run shared.toml => delivery `nack`: the simulator has no rate but auto and tfmcc on a shared link
lab up pipe => pipe: cannot be read as a topology (it is no regular file) | testbed:FILE
mead plan --participants pipe => cannot read pipe: it is no regular file
mead plan --use-case uc9 => no such use case | uc1 | --use-case
lab run file => file:1: | expected
lab run endless.toml => endless.toml: papers: cannot read /dev/zero | no regular file
lab run pipe.toml => pipe.toml: papers: cannot read pipe | no regular file
lab run empty => empty | missing field `title`
lab report folder => folder/results.sqlite | `treecast lab run` wrote to
lab report damaged => damaged/results.sqlite | `treecast lab run` wrote to
monitor show nofile => nofile | `treecast monitor --out`
monitor show binary => binary | `treecast monitor --out`
monitor -- nosuchprogram => nosuchprogram | name a program
monitor --out new -- nosuchprogram => nosuchprogram | name a program
monitor --out nofolder/new -- true => nofolder/new | name a file
monitor --out file -- true => file exists already | choose another
monitor --every 1ms => 1ms | from 10ms to 1h
monitor --interface nosuchif -- true => nosuchif | it has
mroute --interface nosuchif => nosuchif | `ip link`
mroute --query-interval 0s => '0s' | from 1s
mroute show --control nofile => start one with `treecast mroute`
router run => --interface | --all
router run --all --min-dsts x => 'x' | a whole number
router run --all --min-dsts 33 => a number from 0 to 32
router set min-dsts 99 => a number from 0 to 32
router check --packets 0 => a number from 1 to
mead --interval 0 fd00::1 5000 => a time from 1ms
mead --timeout 0 fd00::1 5000 => a time from 1ms
mead --requests 0 fd00::1 5000 => a number from 1 to
mead --tun-address 10.0.0.1 fd00::1 5000 => '10.0.0.1' | an IPv6 address
mead --key nofile fd00::1 5000 => nofile | No such file | openssl rand -hex 32
send --fanout mead --domain-key nofile file => nofile | openssl rand -hex 32
mead --key folder fd00::1 5000 => folder | name the file
bench --size 256 => '256' | a size from 1M to 1T
bench --size 99999999999999 => 99999999999999 | a size from 1M to 1T
bench --folder nofolder => nofolder | --folder
bench --out nofolder/x => nofolder/x | --out
send --interface lo --repair local --fanout unicast --local-groups large file => take --fanout multicast
send --interface lo --repair local --rate max file => name one that links bear with --rate
send --interface lo --repair local --rates 5M,1M file => leave out --rates
send --interface lo --repair local --fec auto file => leave out --fec
send --interface lo --repair local --session /no/such/folder/file file => leave out --session
send --interface lo --repair local --group 224.1.2.3 file => 239.0.0.0/8
send --interface lo --repair local --block 600 file => 1152 to
send --interface lo --repair local --allow keys file => the sender cannot keep anybody out who has the ticket: leave out --allow
send --interface lo --repair local --linger 5 file => leave out --linger
send --interface lo --repair local --idle 5 file => --repair carousel
send --interface lo --repair local --deadline 5x file => 500ms
send --interface lo --repair local --local-groups /no/such/file file => /no/such/file
send --interface lo --repair local --local-groups twice file => line 2: fd00::1 is in the group of line 1
send --interface lo --repair local --local-groups groups --local-mode sender file => leave out --local-groups
send --deadline 1s file => add --repair local
send --interface lo --delta --repair none file => --delta | --repair
send --interface lo --delta --repair local file => --delta | --repair
send --interface lo --delta --dialect iotup --group ff15::77 file => --delta | --dialect iotup
send --interface lo --delta --compress zstd file => --delta | --compress
send --interface lo --delta --rates 5M,1M file => --delta | --rates
send --interface lo --delta --fec 10% file => --delta | --fec
send --interface lo --delta --feed - file => --delta | feed
receive --interface lo --dialect iotup --group ff15::77 --old x y => --old
send --interface lo --compress zstd --repair local file => --compress
send --interface lo --compress zstd --dialect iotup --repair carousel --group ff15::77 file => --compress
send - file => beside
send - --feed list => --feed
send - --session file => --session
send - --repair carousel => carousel
send - --spool folder --repair none => --spool
send file --spool folder => --spool
send --interface lo --start-at 25:00 file => --start-at | 22:00
send --interface lo --start-at '2099-01-01 00:00' file => --start-at | within a year
send --interface lo --start-at +1m --repair carousel file => first listener | leave out --start-at
send --interface lo --start-at +1m --repair local file => leave out --start-at
send --wait-timeout ever file => or never
send --announce --plain file => signed | leave out --announce
send --announce=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx file => --announce | 64 bytes
send --dialect iotup --code file => no ticket | leave out --code
feed no/such/folder => no/such/folder | treecast feed
feed /proc/self/exe => it is no folder
feed - --remove => --remove | name one
feed fed --keep 2 --repair none => --keep | --repair nack
feed fed --repair carousel => a feed goes on: take another --repair
feed fed --state none/state => cannot keep what has been sent in none/state | --state
feed fed --rule *:prio=1 => "prio" is no term
feed fed --rule *:expires=0 => a time from 1s
feed fed --rule *:priority=1 --rule *:priority=2 => two rules are for "*"
feed fed --rules none => cannot read none | --rules
feed fed => .treecast-feed | something else
receive ticket --rename *=x => {name}
receive ticket --batch 5 => --exec
receive ticket --batch 0 --exec 'test {}' => at least 1 s
receive ticket --exec 'nosuchprog {}' => there is no program nosuchprog
receive ticket --old nofile => cannot read nofile | --old
receive ticket --rename *=../{} => no file can be called "../{}" | --rename
status --sort name => --receivers
status --csv => --receivers
status --receivers --csv --json => --csv
status --receivers --sort size => size
status --receivers --start => --start
send --report /no/such/folder/report.csv file => /no/such/folder
send --report folder file => folder
send --report file file => --report
send --report folder/report folder => --report
feed --report folder/report folder => --report
send --repair carousel --report report file => --report
doctor trace 10.0.0.1 => 10.0.0.1 is no multicast group
doctor trace 239.1.2.3 fd00::1 => different families
doctor trace 239.1.2.3 --interface eth9 => interface eth9 does not exist
unicast server udp file 192.0.2.77 => 192.0.2.77
unicast client tcp file/folder/copy 127.0.0.1 => file/folder
unicast client tcp missing 127.0.0.1:1 => 127.0.0.1:1
unicast client udp missing [fe80::1]:1 => [fe80::1]:1
router run --all --allow-source 10.0.0.0/8 => 10.0.0.0/8 is no IPv6 prefix
"#;

/// The parts of each line of a table. `\n` stands for a line break in all but the last, which is what must be said.
fn rows<const PARTS: usize>(table: &str) -> impl Iterator<Item = ([String; PARTS], Vec<&str>)> {
    table.trim().lines().map(|line| {
        let (first, said) = line.rsplit_once(" => ").expect("an arrow");
        let parts = first.split(" => ").map(|part| part.replace("\\n", "\n")).collect::<Vec<_>>();
        (parts.try_into().expect("so many parts"), said.split(" | ").collect())
    })
}

/// The line with which a command fails, which is all that it says.
fn line(arguments: &str, output: Output) -> String {
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{arguments}: {said}");
    assert!(said.starts_with("treecast: "), "{arguments}: {said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments}");
    said
}

#[test]
fn whatever_is_wrong_is_told_in_one_line_that_says_what_to_do() {
    let folder = Folder::new();
    let before = folder.files();
    for ([arguments], expected) in rows(CASES) {
        assert_says(&line(&arguments, folder.run(&*arguments)), &expected);
        assert_eq!(folder.files(), before, "{arguments}");
    }
}

/// A configuration; a command; then what the line must say.
const CONFIGURED: &str = r#"
[send]\n\nfek = 1\n => send file => /config.toml:3: no option is called `fek`; the nearest is `fec`
[send]\nto_standing = "a"\n => send file => :2: no option is called `to_standing` | `to-standing`
[profile.a]\nfec = "9"\n => send --profile a file => :2: invalid value '9' for '--fec | 1%
[profile.a]\nplain = 1\n => send --profile=a file => :2: plain: expected true or false
[profile.lab]\n => send --profile lap file => "lap" | there are lab in  | /config.toml
# nothing\n => send --profile lap file => "lap" | [profile.lap] into  | /config.toml
[profile.a]\n\nrates = ["5M", "1M"]\n => send --profile a --rate 2M file => --rates says all that --rate | leave out --rate, or --rates | ; --rates is in  | /config.toml:3
[receive]\nkeep-existing = true\n => receive --stdout x => '--stdout' | cannot be used with | ; --keep-existing is in  | /config.toml:2
[receive]\nmax-bytes = "0"\n => receive x => /config.toml:2: invalid value '0' | like 500k
[receive]\nstanding = "x"\n => receive x => /config.toml:2: `standing` cannot stand
[sned]\n => send file => /config.toml:1:  | `sned` | `send`
rate = \n => receive x => /config.toml:1: 
"#;

#[test]
fn a_wrong_configuration_is_told_in_one_line_that_names_it() {
    let folder = Folder::new();
    let config = folder.0.path("treecast/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let command = |arguments: &str| {
        let mut command = folder.command(arguments);
        command.env("XDG_CONFIG_HOME", folder.0.path(""));
        command
    };
    let line = |arguments: &str| line(arguments, command(arguments).output().unwrap());
    for ([content, arguments], expected) in rows(CONFIGURED) {
        fs::write(&config, content).unwrap();
        assert_says(&line(&arguments), &expected);
    }
    // Whoever may write there may have chosen a key, or a command.
    fs::write(&config, "[receive]\nexec = \"touch {}\"\n").unwrap();
    fs::set_permissions(&config, Permissions::from_mode(0o664)).unwrap();
    let advice = format!("chmod go-w {}", config.display());
    assert_says(&line("receive x"), &["others than its owner may write to it (mode 0664)", &advice]);
    fs::remove_file(&config).unwrap();
    fs::create_dir(&config).unwrap();
    assert_says(&line("send file"), &["it is a folder"]);
    // A program in a lab does as whoever measures says.
    let in_lab = command("send nofile").env("TREECAST_NODE", "a").output().unwrap();
    assert_says(&String::from_utf8(in_lab.stderr).unwrap(), &["nofile"]);
    // Nobody looks at it for other commands, for help, and when it is not wanted.
    for arguments in ["keys list", "send --help", "receive -h"] {
        assert!(command(arguments).output().unwrap().status.success(), "{arguments}");
    }
    assert_says(&line("send --no-config nofile"), &["nofile"]);
    assert_says(&line("receive --no-config noticket"), &["a ticket begins with"]);
}

/// `ff15::42:7001` is an address, and somebody's group perhaps: it is taken for one, and what else it may be is said.
#[test]
fn a_group_that_seems_to_have_a_port_is_remarked_on() {
    let folder = Folder::new();
    for (group, says) in [("ff15::42:7001", true), ("[ff15::42:7001]", false), ("ff15::7:1", false)] {
        let output = folder.run(format!("send --group {group} --interface lo --wait-timeout 0 file"));
        let said = String::from_utf8(output.stderr).unwrap();
        let hints: Vec<_> = said.lines().filter(|line| line.contains("write [ff15::42]:7001")).collect();
        assert_eq!(hints.len(), usize::from(says), "{group}: {said}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("treecast2."), "{group} is good: {said}");
    }
}

/// The thesis' testbed and use cases are in the program.
#[test]
fn the_thesis_can_be_planned_without_its_files() {
    let output = Folder::new().run("mead plan --use-case uc1 --receivers 1");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.contains("unicast"), "{table}");
}

/// Units stand where a number is asked for.
#[test]
fn help_names_the_units_of_times() {
    let help = Folder::new().run("receive --help");
    let help = String::from_utf8(help.stdout).unwrap();
    let words: Vec<_> = help.split("--max-time <").nth(1).unwrap().split_whitespace().take(12).collect();
    assert!(words.join(" ").contains("End after this time, in seconds or with a unit"), "{words:?}");
}

/// A sender that nobody comes to, and a receiver that finds no sender, say what was missing and what would have helped.
#[test]
fn who_finds_nobody_is_told_why() {
    let folder = Folder::new();
    let send = "send --interface lo --wait 3 --wait-timeout 0 --session none --ticket-file ticket";
    for (options, advice) in [
        ("", "or wait longer with --wait-timeout\n"),
        ("--wait-at-least 1", "with --wait-timeout; --wait-at-least asks for 1\n"),
    ] {
        let said = String::from_utf8(folder.run(format!("{send} {options} file")).stderr).unwrap();
        assert!(said.contains("0 of 3 receivers came within 0 s; ") && said.ends_with(advice), "{said}");
    }
    let output = folder.run("receive --interface lo --connect-timeout 0 @ticket");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("(no connection: Connection refused"), "{said}");
    assert!(!said.contains("the connection broke"), "{said}");
}

/// What is sent, to how many receivers; then what the sender's and each receiver's last line must hold. A `set` has two files of 3 MiB
/// and 5 bytes, a folder in it, and a link.
const ENDINGS: [(&str, usize, &[&str], &[&str]); 2] = [
    (
        "set/small",
        1,
        &["1 file, 5 B: all of it is at 1 of 1 receiver after ", "; nothing was lost"],
        &["1 file, 5 B in ", " s; nothing was lost"],
    ),
    (
        "set",
        2,
        &["5 files, 3.0 MiB: all of it is at 2 of 2 receivers after "],
        &["5 files (3 of them folders and links), 3.0 MiB in "],
    ),
];

/// Words that stand for something that has another word, or another unit, elsewhere.
const OTHER_WORDS: &[&str] =
    &["object", " bytes", "MB/s", "MB ", "retransmitted", "1 files", "1 receivers", "duplicate"];

/// A set has as many files to its sender as to its receivers, and one word and one unit for one thing.
#[test]
fn the_ends_of_sessions_count_alike_on_both_sides() {
    for (paths, count, sent, received) in ENDINGS {
        let scratch = Scratch::with_files(&[("set/large", 3 << 20), ("set/small", 5)]);
        fs::create_dir(scratch.path("set/folder")).unwrap();
        std::os::unix::fs::symlink("small", scratch.path("set/link")).unwrap();
        let sender = scratch.send(format!("--fanout unicast --rate max --wait {count} {paths}"));
        let receivers: Vec<_> = (0..count).map(|into| scratch.receive(&into.to_string(), "")).collect();
        let told = receivers.into_iter().map(|receiver| (finish_well(receiver), received));
        let told: Vec<_> = told.collect();
        for (text, expected) in told.into_iter().chain([(finish_well(sender), sent)]) {
            let line =
                text.lines().find(|line| line.contains(expected[0])).unwrap_or_else(|| panic!("{text}"));
            assert!(expected.iter().all(|part| line.contains(part)), "{expected:?} in {line}");
            let wrong = OTHER_WORDS.iter().find(|word| text.contains(**word));
            assert_eq!(wrong, None, "{text}");
        }
    }
}

/// An experiment with a paper.
const WITH_PAPER: &str = r#"
title = "x"
papers = [{ file = "PAPER" }]
workload = { kind = "files", sizes = ["1M"] }
deliveries = ["nack"]
[[network]]
name = "x"
topology = "lan:clients=1"
"#;

/// Where the cases run, removed at the end.
struct Folder(Scratch);

impl Folder {
    fn new() -> Self {
        let scratch = Scratch::new();
        for folder in ["folder", "damaged", "fed"] {
            fs::create_dir_all(scratch.path(folder)).unwrap();
        }
        let large: Vec<String> = (1..=34).map(|number| format!("fd00::{number}")).collect();
        for (name, text) in [
            ("file", "hello"),
            ("empty", ""),
            // What a feed has not written, and local groups.
            ("fed/.treecast-feed", "something else"),
            ("twice", "a: fd00::1\nb: fd00::2 fd00::1\n"),
            ("groups", "a: fd00::1 fd00::7\n"),
            ("large", &format!("a: {}\n", large.join(" "))),
        ] {
            fs::write(scratch.path(name), text).unwrap();
        }
        for (experiment, paper) in [("endless.toml", "/dev/zero"), ("pipe.toml", "pipe")] {
            fs::write(scratch.path(experiment), WITH_PAPER.replace("PAPER", paper)).unwrap();
        }
        let without_paper = WITH_PAPER.replace("papers", "#");
        let shared = without_paper.replace("\"files\"", "\"shared\", lasts = \"1s\"");
        fs::write(scratch.path("shared.toml"), shared.replace("lan:clients=1", "shared:clients=1,rate=1M"))
            .unwrap();
        let load = "\"load\", group = \"ff3e::8000:1\", rates = [10], lasts = \"1s\"";
        let load = without_paper.replace("\"files\", sizes = [\"1M\"]", load).replace("deliveries", "#");
        fs::write(scratch.path("load.toml"), load).unwrap();
        assert!(Command::new("mkfifo").arg(scratch.path("pipe")).status().unwrap().success());
        fs::write(scratch.path("binary"), [0xff; 3000]).unwrap();
        fs::write(scratch.path("damaged/results.sqlite"), [b'x'; 3000]).unwrap();
        Self(scratch)
    }

    fn run(&self, arguments: impl Arguments) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: impl Arguments) -> Command {
        let mut command = self.0.command(arguments);
        // States of sessions are kept elsewhere, so that the folder stays as it is.
        command
            .env_remove("XDG_STATE_HOME")
            .env("TREECAST_LAB_STATE", self.0.path("state"))
            .stdin(Stdio::null());
        command
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = ["", "folder", "fed"].map(|folder| fs::read_dir(self.0.path(folder)).unwrap());
        let mut files: Vec<_> = entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}
