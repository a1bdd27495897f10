//! What man pages say besides what the help says: examples, files, exit codes.

/// A section of a page.
pub struct Section {
    pub title: &'static str,
    pub parts: &'static [Part],
}

pub enum Part {
    /// A paragraph.
    Text(&'static str),
    /// Lines as they are typed.
    Lines(&'static str),
    /// A file, variable or code, and what it means.
    Entry(&'static str, &'static str),
}

#[cfg(test)]
impl Part {
    /// The lines that are typed.
    pub fn lines(&self) -> std::str::Lines<'static> {
        match self {
            Part::Lines(lines) => lines.lines(),
            _ => "".lines(),
        }
    }
}

/// The end of SEE ALSO in the first page.
pub const DOCUMENTS: &str =
    "and the documents in /usr/share/doc/treecast/docs: sending.md, security.md, routers.md and others";

/// The pages that say more than their command's help and [`EXIT`].
pub const PAGES: &[(&str, &[Section])] = &[
    ("treecast", TREECAST),
    ("treecast-send", SEND),
    ("treecast-receive", RECEIVE),
    ("treecast-discover", DISCOVER),
    ("treecast-keys", KEYS),
    ("treecast-status", STATUS),
    ("treecast-mroute", MROUTE),
    ("treecast-mead", MEAD),
    ("treecast-router-run", ROUTER_RUN),
    ("treecast-monitor", EXIT_OF_PROGRAM),
    ("treecast-lab-exec", EXIT_OF_PROGRAM),
];

/// The sections of a page that its command's help does not have.
pub fn of(page: &str) -> &'static [Section] {
    PAGES.iter().find(|(name, _)| *name == page).map_or(&[EXIT], |(_, sections)| sections)
}

use Part::{Entry, Lines, Text};

const TREECAST: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text(
                "To send a file to another host on the same network, type this on the host that has the file:",
            ),
            Lines("treecast send --code image.iso"),
            Text(
                "The command prints a long ticket, and below it the command that the other host needs. This command ends with a code \
                  of three words. Type it on the other host within a minute, with the folder for the file:",
            ),
            Lines("treecast receive --into /srv/images acorn-pony-walrus"),
            Text(
                "The file appears under its name in the folder when it is complete and verified. Then both commands end. Neither needs \
                  root or any set-up. Without --into, the file comes to the folder where the command was typed.",
            ),
            Text(
                "The code works on one network. On any other host, copy the ticket in place of the code. The receiver must be able to \
                  reach the sender:",
            ),
            Lines("treecast receive --into /srv/images TICKET"),
            Text("To send to many hosts, say how many receivers to wait for. Folders can be sent, too:"),
            Lines("treecast send --code --wait 20 image.iso photos"),
            Text("To send what a program writes to a program on each receiver:"),
            Lines("tar c photos | treecast send --wait 3 -\ntreecast receive --stdout TICKET | tar x"),
            Text(
                "To send a disk image to machines that were started from something else. Their disk is overwritten:",
            ),
            Lines(
                "treecast send --session image.session --ticket-file ticket --wait 300 --compress zstd image.raw\n\
                   treecast receive --to /dev/sda @ticket",
            ),
            Text(
                "If the receivers get nothing by multicast, see treecast-doctor(1). The files arrive all the same: the sender then sends \
                  them over each receiver's own connection.",
            ),
        ],
    },
    FILES,
    Section {
        title: "ENVIRONMENT",
        parts: &[
            Entry(
                "TREECAST_LOG",
                "The level of logs if --log is not given: off, error, warn, info, debug or trace.",
            ),
            Entry("XDG_CONFIG_HOME", "The folder that stands for ~/.config."),
            Entry(
                "XDG_RUNTIME_DIR",
                "The folder with the sockets that treecast-status(1) reads. Without it: /run/treecast for root, else /tmp/treecast-UID.",
            ),
        ],
    },
    EXIT_OF_TRANSFERS,
];

const FILES: Section = Section {
    title: "FILES",
    parts: &[
        Entry("~/.config/treecast/keys", "This user's keys. See treecast-keys(1)."),
        Entry(
            "~/.config/treecast/config.toml, /etc/treecast/config.toml",
            "Options of treecast-send(1) and treecast-receive(1) that always hold, in tables [send] and [receive], and profiles of send, in \
             tables [profile.NAME]. A key is the long name of an option without --. What is typed counts more. \
             /usr/share/doc/treecast/examples/config is a sample, and sending.md says more.",
        ),
        Entry(
            "/etc/treecast/standing.toml",
            "Whose sessions the service treecast-standing takes, and where to. The file explains its settings.",
        ),
        Entry(
            "/etc/treecast/feed.env, /etc/treecast/mroute.env, /etc/treecast/router.env",
            "The options of the services treecast-feed, treecast-mroute and treecast-router. None of the services starts before you enable it: \
             systemctl enable --now treecast-mroute.",
        ),
        Entry(
            "/var/lib/treecast",
            "The key and the history of treecast-standing, and the keys of treecast-feed. See treecast-status(1).",
        ),
        Entry("/var/spool/treecast", "The folder whose files treecast-feed sends."),
    ],
};

const EXIT_OF_TRANSFERS: Section = Section {
    title: "EXIT STATUS",
    parts: &[
        Entry(
            "0",
            "All is well. Of send: every receiver has every file. Of receive: every wanted file came.",
        ),
        Entry(
            "3",
            "Of send: some receivers failed; a table says who and why. Of receive: some files failed, or a command of --exec.",
        ),
        Entry(
            "1",
            "Anything else. A line on standard error says what happened, to what, and what to do about it.",
        ),
    ],
};

const EXIT: Section = Section {
    title: "EXIT STATUS",
    parts: &[
        Entry("0", "All is well."),
        Entry(
            "3",
            "The command did its work, and found that something is not as it should be, if the description names this code.",
        ),
        Entry(
            "1",
            "The command failed. A line on standard error says what happened, to what, and what to do about it.",
        ),
    ],
};

const EXIT_OF_PROGRAM: &[Section] = &[Section {
    title: "EXIT STATUS",
    parts: &[Text(
        "The exit code of the program that was run; 128 and the signal's number if a signal ended it; 1 if it could not be run.",
    )],
}];

const SEND: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text(
                "Send to the first receiver that comes within a minute. The receiver types the code that this prints, or the ticket:",
            ),
            Lines("treecast send --code image.iso"),
            Text(
                "Send to 300 machines by a session that can be restarted, and begin at ten in the evening with those that are there:",
            ),
            Lines(
                "treecast send --session image.session --start-at 22:00 --wait 300 --wait-at-least 1 image.iso",
            ),
            Text("Send a disk. Zeros are not sent, and zstd makes less of the rest:"),
            Lines("treecast send --wait 20 --compress zstd /dev/sdb"),
            Text("Send what a program writes:"),
            Lines("tar c photos | treecast send --wait 3 -"),
            Text("Send where some receivers are slow, or where none can reach the sender:"),
            Lines(
                "treecast send --rates 500M,100M,20M --wait 20 image.iso\ntreecast send --repair carousel --rate 500M image.iso",
            ),
            Text("Send without multicast, or by the cheapest way that reaches each receiver:"),
            Lines(
                "treecast send --fanout unicast image.iso\ntreecast send --fanout auto --wait 20 image.iso",
            ),
            Text("Send only to receivers whose keys are in a file, by treecast-keys(1):"),
            Lines("treecast send --allow receivers.keys image.iso"),
            Text("Send to the standing receivers lab1 and lab2, who trust this user's key:"),
            Lines("treecast send --key default --to-standing lab1,lab2 image.iso"),
            Text("Send with the options of the table [profile.lab] of the configuration:"),
            Lines("treecast send --profile lab image.iso"),
        ],
    },
    FILES,
    EXIT_OF_TRANSFERS,
];

const RECEIVE: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text(
                "Receive by a code from a sender on the same network, or by a ticket from anywhere. The first line that the sender \
                  prints is the ticket. A ticket can also be in a file:",
            ),
            Lines(
                "treecast receive --into /srv/images acorn-pony-walrus\n\
                   treecast receive --into /srv/images TICKET\n\
                   treecast receive --into /srv/images @ticket",
            ),
            Text("Write an image to a disk, which must not be mounted. What was on the disk is lost:"),
            Lines("treecast receive --to /dev/sda @ticket"),
            Text("Hand a stream to a program. It gets verified bytes only:"),
            Lines("treecast receive --stdout TICKET | tar x"),
            Text("Run a command for each file, take only some files, and not more than 20 GB:"),
            Lines("treecast receive --exec 'install-update {}' --only '*.img' --max-bytes 20G TICKET"),
            Text("Take all that trusted senders announce, as a service:"),
            Lines("treecast receive --standing /etc/treecast/standing.toml"),
        ],
    },
    FILES,
    EXIT_OF_TRANSFERS,
];

const DISCOVER: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text(
                "Show the sessions that are announced on this network. The second command waits long enough for those on other networks:",
            ),
            Lines("treecast discover\ntreecast discover --time 7m"),
            Text("A session is announced if its sender was told to:"),
            Lines("treecast send --announce image.iso"),
        ],
    },
    EXIT,
];

const KEYS: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text("Let only certain receivers have a file. On each receiver:"),
            Lines("treecast keys new\ntreecast keys show"),
            Text(
                "Put the lines that this prints into a file on the sender. Then send, and receive with the key:",
            ),
            Lines(
                "treecast send --allow receivers.keys --code image.iso\ntreecast receive --key default acorn-pony-walrus",
            ),
            Text(
                "Let standing receivers trust a sender. On the sender, make a key, and put the public half that is printed into \
                  /etc/treecast/standing.toml on the receivers:",
            ),
            Lines("treecast keys new\ntreecast send --key default --announce image.iso"),
        ],
    },
    EXIT,
];

const STATUS: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text("Show the sessions that run on this host, and what the standing receiver has done:"),
            Lines("treecast status\ntreecast status --history"),
        ],
    },
    FILES,
    EXIT,
];

const MROUTE: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text("Route multicast between all networks of this host, which must forward packets:"),
            Lines("sysctl net.ipv6.conf.all.forwarding=1 net.ipv4.ip_forward=1\ntreecast mroute"),
            Text("Show who listens to what:"),
            Lines("treecast mroute show"),
            Text("As a service, whose options are in /etc/treecast/mroute.env:"),
            Lines("systemctl enable --now treecast-mroute"),
        ],
    },
    FILES,
    EXIT,
];

const MEAD: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text(
                "Make the address fd15::1 stand for UDP port 5000 of three hosts. Any program can then send to it:",
            ),
            Lines("treecast mead fd00:3::2 fd00:3::3 fd00:4::2 5000"),
            Text(
                "Routers on the way turn one packet into several if they run treecast-router-run(1). Hosts without such a router on the way \
                  get unicast.",
            ),
        ],
    },
    EXIT,
];

const ROUTER_RUN: &[Section] = &[
    Section {
        title: "EXAMPLES",
        parts: &[
            Text("Serve all Ethernet interfaces of this host, which must forward IPv6:"),
            Lines("sysctl net.ipv6.conf.all.forwarding=1\ntreecast router run --all"),
            Text("Serve two interfaces, and only senders that have the domain's key:"),
            Lines("treecast router run --interface eth0 --interface eth1 --key /etc/treecast/domain.key"),
            Text("Show what it does:"),
            Lines("treecast router status"),
            Text("As a service, whose options are in /etc/treecast/router.env:"),
            Lines("systemctl enable --now treecast-router"),
        ],
    },
    FILES,
    EXIT,
];
