//! `treecast doctor beacon`: a beacon, and the matrix of what all beacons hear.

mod figures;
mod table;

use std::{
    borrow::Cow,
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use serde::Serialize;
use treecast_beacon::{Change, Key, Matrix, News, Options, Seen, State};
use treecast_driver::metrics;
use treecast_host::stop::Stop;

use crate::{
    Outcome, arguments, domain_key,
    output::{self, Lines},
};

/// The exit code if a beacon does not hear another one as it should.
const WRONG: u8 = 3;

/// Send to a group and listen, and show what each beacon hears of each other one
///
/// Start one on each host. Every beacon shows the whole matrix: loss, latency, routers on the way and duplicates, over
/// the last two seconds. A failed link shows within two seconds. Beacons run until Ctrl-C or SIGTERM. Exit code 3: at the
/// end, a beacon did not hear another one, or lost 5 % of its packets or more.
#[derive(clap::Args)]
pub struct Args {
    /// The group and UDP port. The same for all beacons, like [ff15::42]:5000
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address_and_port)]
    group: SocketAddr,
    /// The interface [default: the one of the default route]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// The name that the others show, up to 40 bytes [default: this host's name]
    #[arg(long)]
    name: Option<String>,
    /// Packets in a second. From 1 to 100
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rate: u16,
    /// The hop limit of packets. With 1, no router forwards them
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u8).range(1..))]
    ttl: u8,
    /// A file with the key of all beacons. It has 64 hexadecimal digits. Packets without it do not count
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Answer Prometheus at this address with the matrix
    #[arg(long, value_name = "ADDR:PORT", value_parser = arguments::address_and_port)]
    metrics: Option<SocketAddr>,
    /// End after this many seconds [default: never]
    #[arg(long, value_name = "S", value_parser = arguments::seconds, allow_hyphen_values = true)]
    seconds: Option<u64>,
    /// One JSON object a line: changes, and the matrix
    #[arg(long)]
    json: bool,
    /// Tell only what this beacon hears itself. With --json, and without changes
    #[arg(long, requires = "json")]
    own: bool,
    /// The time between two matrices. With --json, from 1s on
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = arguments::duration, allow_hyphen_values = true)]
    matrix_every: Duration,
}

pub fn run(args: Args) -> Outcome {
    let key = args.key.as_deref().map(|path| domain_key::read_with(path, Key::from_hex)).transpose()?;
    let name = args.name.clone().unwrap_or_else(host_name);
    let options = Options {
        group: args.group,
        interface: args.interface.clone(),
        name,
        interval: Duration::from_secs(1) / u32::from(args.rate),
        hop_limit: args.ttl,
        key,
    };
    let page = Arc::new(Mutex::new(figures::page(None)));
    let shown = Arc::clone(&page);
    let read = move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let server = args.metrics.map(|address| metrics::serve_page(address, read)).transpose();
    let server = server.map_err(|line| format!("{line}; --metrics names it"))?;
    let stop = Stop::on_signals()?;
    if let Some(seconds) = args.seconds {
        stop.request_after(Duration::from_secs(seconds))?;
    }
    let mut view = View::new(&args);
    let matrix = treecast_beacon::run(&options, &stop, &mut |news| {
        if let (News::Matrix(matrix), Some(_)) = (&news, &server) {
            *page.lock().unwrap_or_else(PoisonError::into_inner) = figures::page(Some(matrix));
        }
        view.show(news);
    })?;
    view.end(&matrix);
    Ok(if matrix.seen.iter().any(Seen::is_bad) { ExitCode::from(WRONG) } else { ExitCode::SUCCESS })
}

/// What a person or a program sees.
struct View {
    lines: Option<Lines>,
    bar: ProgressBar,
    every: Duration,
    is_own: bool,
    shown: Option<Instant>,
    started: Instant,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Ready {
        group: SocketAddr,
    },
    Change {
        seconds: f64,
        from: &'a str,
        to: &'a str,
        state: State,
        loss_permille: u16,
    },
    Matrix {
        seconds: f64,
        #[serde(flatten)]
        matrix: &'a Matrix,
    },
}

impl View {
    fn new(args: &Args) -> Self {
        let lines = args.json.then(Lines::default);
        let mut view = Self {
            bar: output::waiting_bar(args.json, "waiting for other beacons"),
            lines,
            every: args.matrix_every,
            is_own: args.own,
            shown: None,
            started: Instant::now(),
        };
        view.add(&Event::Ready { group: args.group });
        view
    }

    fn show(&mut self, news: News<'_>) {
        match news {
            News::Ready => {}
            News::Change(_) if self.is_own => {}
            News::Change(change) => self.change(change),
            News::Matrix(matrix) if self.lines.is_some() => {
                if self.shown.is_none_or(|at| at.elapsed() >= self.every) {
                    self.shown = Some(Instant::now());
                    self.add(&Event::Matrix { seconds: self.seconds(), matrix: &self.told(matrix) });
                }
            }
            News::Matrix(matrix) => self.bar.set_message(table::text(matrix)),
        }
    }

    fn change(&mut self, change: &Change) {
        let Change { from, to, state, loss_permille } = change;
        if self.lines.is_some() {
            let (seconds, loss_permille) = (self.seconds(), *loss_permille);
            return self.add(&Event::Change { seconds, from, to, state: *state, loss_permille });
        }
        let what = match state {
            State::Well => "hears".to_owned(),
            State::Lossy => format!("loses {:.1} % of", f64::from(*loss_permille) / 10.0),
            State::Silent => "no longer hears".to_owned(),
            State::Unknown => return,
        };
        output::above(&self.bar, &format!("{:7.1} s  {to} {what} {from}", self.seconds()));
    }

    fn end(&mut self, matrix: &Matrix) {
        self.bar.finish_and_clear();
        let told = self.told(matrix);
        let event = Event::Matrix { seconds: self.seconds(), matrix: &told };
        match &mut self.lines {
            Some(lines) => lines.end(&event),
            None => say!("{}", table::text(matrix)),
        }
    }

    /// Returns the part of a matrix that is told.
    fn told<'m>(&self, matrix: &'m Matrix) -> Cow<'m, Matrix> {
        if !self.is_own {
            return Cow::Borrowed(matrix);
        }
        let own = &matrix.beacons[0].name;
        let seen = matrix.seen.iter().filter(|seen| seen.to == *own).cloned().collect();
        Cow::Owned(Matrix { seen, ..matrix.clone() })
    }

    fn seconds(&self) -> f64 {
        (self.started.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
    }

    fn add(&mut self, event: &Event<'_>) {
        if let Some(lines) = &mut self.lines {
            lines.add(event, false);
        }
    }
}

/// This host's name, cut to what a beacon's name may be.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(|letter| !letter.is_control()).collect();
    let end = (0..=name.len().min(40)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    if end == 0 { "beacon".to_owned() } else { name[..end].to_owned() }
}
