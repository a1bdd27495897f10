//! The options of `treecast receive`, in groups of what belongs together. `--help` tells them in this order.

use std::{net::SocketAddr, path::PathBuf};

use treecast::limits::{MAX_GROUPS, RECEIVER_STALL_LIMIT, RECONNECT_TIME};

use super::{choice, exec, parse_name, parse_pattern};
use crate::{arguments, group::Group, send::Dialect};

/// Receive the files of a session.
///
/// A file gets its name only when it is complete and its hash is right. It then replaces a file of the same
/// name, unless --keep-existing is given. Permissions are limited by the umask.
/// Exit code: 0 when every wanted file came; 3 when some failed; 1 for anything else, also when no file of the
/// session matches --only.
#[derive(clap::Args)]
pub struct Args {
    /// Take no options from ~/.config/treecast/config.toml and /etc/treecast/config.toml
    #[arg(long)]
    pub(super) no_config: bool,
    /// Network interface to listen on [default: the one of the route to the sender]
    #[arg(long, value_name = "IF")]
    pub(super) interface: Option<String>,
    /// UDP port for packets to this host's own address (--fanout unicast, mead, xcast and auto), for a firewall
    /// that lets one port in [default: the port after the group's; with unicast a free one]. Repair local: other
    /// receivers send to it, or to the port after it where the session has no multicast
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    pub(super) port: Option<u16>,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
    #[command(flatten)]
    pub(super) run: ExecArgs,
    #[command(flatten)]
    pub(super) choice: ChoiceArgs,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    #[command(flatten)]
    pub(super) identity: IdentityArgs,
    #[command(flatten)]
    pub(super) patience: PatienceArgs,
    /// Run as a service by the rules in this TOML file. It takes all announced sessions (`treecast send --to-standing`) of senders that
    /// the rules trust, again and again, and keeps a history (`treecast status --history`). All other settings are in the file
    #[arg(long, value_name = "CONFIG", conflicts_with_all = ["ticket", "into", "only", "not", "max_size", "rename", "stdout", "exec", "name", "key", "interface", "max_time", "max_bytes", "max_files"])]
    pub(super) standing: Option<PathBuf>,
    #[command(flatten)]
    pub(super) local: GroupArgs,
    /// Answer Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address_and_port)]
    pub(super) metrics: Option<SocketAddr>,
    /// One JSON event a line on standard output
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) iotup: IotupArgs,
    /// What `treecast send` prints, or @ and a file with it. That is its first line, a ticket, or the code of a sender on the same
    /// network (`treecast send --code`). With --dialect iotup, the name for the file. White space and line breaks in a ticket
    /// mean nothing
    #[arg(value_name = "TICKET|@PATH|CODE", required_unless_present = "standing")]
    pub(super) ticket: Vec<String>,
}

impl Args {
    /// The words of the ticket argument, joined.
    pub(super) fn ticket(&self) -> String {
        self.ticket.join(" ")
    }
}

/// Where files go, and where older versions of them are.
#[derive(clap::Args)]
pub(super) struct PlaceArgs {
    /// Folder for the files [default: this folder]. It is made if it is missing. With --stdout, the folder for what waits
    /// to be written [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(super) into: Option<PathBuf>,
    /// Write what comes to standard output. That is the stream of `treecast send -`, piece by piece, or the one file of a session.
    /// Only verified bytes are written
    #[arg(long, conflicts_with_all = ["json", "exec", "keep_existing"])]
    pub(super) stdout: bool,
    /// Path for the session's one file, or a block device. A device that is too small, mounted or
    /// otherwise in use is refused; what lies behind the file's end on it stays. Its bytes are hashed as they are written,
    /// and forced to the device. --into names the folder for what is kept meanwhile
    #[arg(long, value_name = "PATH", conflicts_with_all = ["stdout", "keep_existing"])]
    pub(super) to: Option<PathBuf>,
    /// Force each file to the disk, and read it back from there, before it counts as received: bits may flip on the way. It takes the
    /// time to write and read everything once
    #[arg(long, conflicts_with = "stdout")]
    pub(super) read_back: bool,
    /// Where older versions of the files are, when the sender sends by difference (`treecast send --delta`): a file, a block
    /// device, or a folder with files of the same names. What they hold is copied, and only the rest is fetched. Something else
    /// there costs only time [default: what has the file's name or --to's path; the device of --to]
    #[arg(long, value_name = "PATH", conflicts_with = "standing")]
    pub(super) old: Option<PathBuf>,
}

/// What is run for files that have come.
#[derive(clap::Args)]
pub(super) struct ExecArgs {
    /// Run this command for each verified file. {} stands for the file's path. Quotes keep words
    /// together, and no shell takes part. The sender chooses the names: a program that hands its arguments to a shell, as ssh and
    /// sh -c do, runs what stands in them. At its end, treecast waits for all commands. If one fails, the exit code is 3
    #[arg(long, value_name = "COMMAND", value_parser = exec::Template::parse)]
    pub(super) exec: Option<exec::Template>,
    /// With --exec, run the command for all files of this many seconds together (30, 5m): {} stands for each of their paths, at most
    /// 1024 of them. The time begins with the first file [default: one command for each file]
    #[arg(long, value_name = "SECONDS", requires = "exec", value_parser = exec::period, allow_hyphen_values = true)]
    pub(super) batch: Option<u64>,
}

/// Which files are taken, and under which names.
#[derive(clap::Args)]
pub(super) struct ChoiceArgs {
    /// Take only files whose names match, like '*.iso'. Patterns are of whole names ('docs/*'). Several --only add up
    #[arg(long, value_name = "GLOB", value_parser = parse_pattern)]
    pub(super) only: Vec<glob::Pattern>,
    /// Do not take files whose names match, also where --only does
    #[arg(long, value_name = "GLOB", value_parser = parse_pattern)]
    pub(super) not: Vec<glob::Pattern>,
    /// Take only files of at most this size (500k, 20M, 4G: powers of 1024)
    #[arg(long, value_name = "BYTES", value_parser = arguments::bytes, allow_hyphen_values = true)]
    pub(super) max_size: Option<u64>,
    /// Take files whose names match under a new name: {} in it stands for the name, {name} for its last part. The first of several
    /// --rename that matches counts. 'radar/*=archive/{name}'
    #[arg(long, value_name = "GLOB=NEW", value_parser = choice::Rename::parse)]
    pub(super) rename: Vec<choice::Rename>,
    /// Keep existing files, and fetch only others. Symbolic links stay, too [default: they are replaced]
    #[arg(long)]
    pub(super) keep_existing: bool,
    /// Also take files and folders whose names begin with a dot at the top of the folder, such as .bashrc or
    /// .ssh
    #[arg(long)]
    pub(super) hidden: bool,
}

/// When the receiver ends, and what becomes of incomplete files.
#[derive(clap::Args)]
pub(super) struct LimitArgs {
    /// End when there are more files, folders and links than this; complete files stay
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) max_files: Option<u64>,
    /// End when the files are larger than this together (500k, 20M, 4G: powers of 1024); complete files stay
    #[arg(long, value_name = "BYTES", value_parser = arguments::bytes, allow_hyphen_values = true)]
    pub(super) max_bytes: Option<u64>,
    /// End after this time, in seconds or with a unit (90, 90s, 15m, 2h). Incomplete files stay, too, for the
    /// next start
    #[arg(long, value_name = "SECONDS", value_parser = arguments::seconds, allow_hyphen_values = true)]
    pub(super) max_time: Option<u64>,
    /// When this receiver is stopped (Ctrl-C, SIGTERM), remove incomplete files [default: they stay, and the same ticket and folder go
    /// on with them within 7 days]
    #[arg(long)]
    pub(super) discard: bool,
    /// When the disk is full, wait this many seconds for room and continue then; files fail after that. 0 does
    /// not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = arguments::seconds,
          allow_hyphen_values = true)]
    pub(super) wait_for_space: u64,
}

/// Who the receiver is, and whom it trusts.
#[derive(clap::Args)]
pub(super) struct IdentityArgs {
    /// The name of this receiver at the sender [default: host name and process id; in a lab the node's name]. A carousel's sender does
    /// not hear it
    #[arg(long, value_parser = parse_name)]
    pub(super) name: Option<String>,
    /// The key that identifies this receiver. Its name (see `treecast keys`) or file [default: a key made for
    /// the session]
    #[arg(long, value_name = "NAME|PATH")]
    pub(super) key: Option<String>,
    /// Refuse the ticket of a plain session (`treecast send --plain`)
    #[arg(long)]
    pub(super) secure: bool,
}

/// How long the sender is looked for.
#[derive(clap::Args)]
pub(super) struct PatienceArgs {
    /// Give up when the sender cannot be reached for this many seconds, or when nothing comes of a carousel for
    /// so long
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = arguments::seconds,
          allow_hyphen_values = true)]
    pub(super) connect_timeout: u64,
    /// When the connection to the sender breaks, try for this many seconds to reach it again, and fetch what is
    /// missing; 0 gives up at once
    #[arg(long, value_name = "SECONDS", default_value_t = RECONNECT_TIME.as_secs(), value_parser = arguments::seconds, allow_hyphen_values = true)]
    pub(super) reconnect: u64,
    /// Look for the sender again (--reconnect) when it has been silent for this many seconds, because it was
    /// stopped or the path broke. A sender that only waits for other receivers speaks every 5 s
    #[arg(long, value_name = "SECONDS", default_value_t = RECEIVER_STALL_LIMIT.as_secs(), value_parser = arguments::stall_limit, allow_hyphen_values = true)]
    pub(super) stall_limit: u64,
}

/// What only sessions with local groups have.
#[derive(clap::Args)]
pub(super) struct GroupArgs {
    /// The file that fixes the session's local groups by hand, as the sender has it (`treecast send --local-groups`)
    #[arg(long, value_name = "FILE")]
    pub(super) local_groups: Option<PathBuf>,
    /// Send an empty packet to the group every 20 s, in a session with local groups: some networks bring a group's packets
    /// only to hosts that send to it
    #[arg(long)]
    pub(super) must_send: bool,
}

/// What only the IoT updater's packets have.
#[derive(clap::Args)]
pub(super) struct IotupArgs {
    /// The packets: those of a treecast session, or those of librecast's IoT updater, which has no tickets
    #[arg(long, value_enum, default_value = "session")]
    pub(super) dialect: Dialect,
    /// The IoT updater's group
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = Group::parse)]
    pub(super) group: Option<Group>,
    /// The number of groups that the IoT updater sends to (`treecast send --rates`); their addresses follow
    /// each other [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_GROUPS)),
          allow_negative_numbers = true)]
    pub(super) groups: Option<u8>,
}
