//! `treecast lab`.

mod fault;
mod faults;
mod pace;
mod progress;
mod report;
mod run;
mod summary;

use std::process::{Command as Process, ExitCode};
use std::time::Instant;

use clap::Subcommand;
use serde_json::json;
use treecast_host::stop::Stop;
use treecast_lab::{Lab, LabNode, Options, Routing, Topology, Trees};

pub use run::{SimulateArgs, ThresholdArgs, simulate, threshold};

use crate::{Outcome, arguments::counted, output};

/// Build a network of namespaces on this machine, and run experiments in it
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(UpArgs),
    Exec(ExecArgs),
    List(ListArgs),
    Graph(GraphArgs),
    Fault(fault::FaultArgs),
    Faults(faults::FaultsArgs),
    Down(DownArgs),
    /// Delay packets on the cables of a lab (started by `lab up` if the kernel has no netem)
    #[command(hide = true)]
    Relay {
        lab: String,
    },
    /// Run a program in a namespace until the process that starts it ends (started by `lab run`)
    #[command(hide = true)]
    Enter {
        namespace: String,
        parent: u32,
        #[arg(last = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Send or count the traffic of a run on another host (started over a fleet by `lab run`)
    #[command(hide = true)]
    Traffic,
    Run(run::RunArgs),
    Report(run::ReportArgs),
}

/// Build a network
///
/// SPEC is a TOML file, or lan:clients=N[,KEY=VALUE...], or tree:levels=R,clients=L[,KEY=VALUE...] with the keys
/// servers, rate, queue, loss, delay and jitter, or shared:clients=N[,rivals=N][,KEY=VALUE...], or
/// interdomain:[stubs=N][,KEY=VALUE...] (routers speak BGP), or testbed (the one of the MEADcast thesis), or testbed:FILE.
#[derive(clap::Args)]
struct UpArgs {
    /// The network, as above
    spec: String,
    /// The network's name; its nodes are the namespaces NAME-NODE
    #[arg(long)]
    name: Option<String>,
    /// Route multicast between the LANs: start `treecast mroute` in every router. If there are loops, it gets
    /// --upstream towards the network of the first node, where the senders of any-source groups should be
    #[arg(long)]
    mroute: bool,
    /// Have routers find IPv6 routes by OSPFv3. They run the daemons of Debian's frr, in place of routes that are
    /// computed once
    #[arg(long)]
    ospf: bool,
    /// Describe the network as JSON
    #[arg(long)]
    json: bool,
}

/// Run a program in a node, and end with its exit code
#[derive(clap::Args)]
struct ExecArgs {
    /// The lab's name, as `lab list` shows it
    lab: String,
    /// The node's name, such as client0
    node: String,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

/// List the networks there are
#[derive(clap::Args)]
struct ListArgs {
    /// One JSON array instead of lines
    #[arg(long)]
    json: bool,
}

/// Print a picture of a network, as SVG
#[derive(clap::Args)]
struct GraphArgs {
    /// The lab's name, as `lab list` shows it
    lab: String,
}

/// Remove a network, its programs first
#[derive(clap::Args)]
struct DownArgs {
    /// The lab's name, as `lab list` shows it
    #[arg(conflicts_with = "all")]
    lab: Option<String>,
    /// Remove every network. Also the remains of commands that were killed
    #[arg(long)]
    all: bool,
}

pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Up(args) => up(args),
        Command::Exec(args) => exec(args),
        Command::List(args) => list(args),
        Command::Graph(args) => graph(args),
        Command::Fault(args) => fault::run(args),
        Command::Faults(args) => faults::run(args),
        Command::Down(args) => down(args),
        Command::Relay { lab } => {
            treecast_lab::relay(&lab, &Options::default())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Enter { namespace, parent, command } => enter(&namespace, parent, &command),
        Command::Traffic => {
            let input = std::io::BufReader::new(std::io::stdin());
            treecast_experiment::traffic(input, &mut std::io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(args) => run::run(args),
        Command::Report(args) => run::report(args),
    }
}

fn up(args: UpArgs) -> Outcome {
    let topology = Topology::parse(&args.spec)?;
    let name = args.name.unwrap_or_else(|| topology.name.clone());
    let stop = Stop::on_signals()?;
    let start = Instant::now();
    let routing = if args.ospf { Routing::Ospf } else { Routing::Computed };
    let lab = Lab::up(&topology, &name, &Options { routing, ..Options::default() })?;
    let seconds = start.elapsed().as_secs_f64();
    let routed = match args.mroute && !stop.is_requested() {
        true => lab.start_routers(&std::env::current_exe()?, Trees::Shared, |_| ()).map(drop),
        false => Ok(()),
    };
    if stop.is_requested() {
        lab.down()?;
        return Err(format!("interrupted: lab {name} is taken down again").into());
    }
    if let Err(error) = routed {
        lab.down()?;
        return Err(format!("{error}; lab {name} is taken down again").into());
    }
    for node in lab.nodes().iter().filter(|node| node.interfaces.is_empty()) {
        remark!("treecast: node {} is in no LAN and no link: it reaches nobody", node.name);
    }
    if args.json {
        say!("{}", describe(&lab, seconds));
    } else {
        let (nodes, networks) = (lab.nodes().len(), topology.networks.len());
        let (nodes, networks) = (counted(nodes, "node"), counted(networks, "network"));
        say!("lab {name} is up: {nodes}, {networks}, in {seconds:.2} s");
        if let Some(node) = lab.nodes().first() {
            say!("  treecast lab exec {name} {} -- ip address", node.name);
            say!("  treecast lab down {name}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(lab: &Lab, seconds: f64) -> serde_json::Value {
    let interface = |interface: &treecast_lab::Interface| {
        json!({
            "name": interface.name,
            "index": interface.index,
            "network": interface.network,
            "addresses": interface.addresses().map(|(address, length)| format!("{address}/{length}")),
        })
    };
    let node = |node: &LabNode| {
        json!({
            "name": node.name,
            "role": node.role,
            "namespace": node.namespace,
            "address": node.v6(),
            "interfaces": node.interfaces.iter().map(interface).collect::<Vec<_>>(),
        })
    };
    json!({
        "name": lab.name(),
        "seconds": seconds,
        "nodes": lab.nodes().iter().map(node).collect::<Vec<_>>(),
    })
}

fn exec(args: ExecArgs) -> Outcome {
    let lab = Lab::open(&args.lab, &Options::default())?;
    let [program, arguments @ ..] = &args.command[..] else { return Ok(ExitCode::FAILURE) };
    let mut command = Process::new(program);
    command.args(arguments);
    match lab.become_program(&args.node, command)? {}
}

fn enter(namespace: &str, parent: u32, command: &[std::ffi::OsString]) -> Outcome {
    let [program, arguments @ ..] = command else { return Ok(ExitCode::FAILURE) };
    let mut command = Process::new(program);
    command.args(arguments);
    let error = treecast_lab::become_inside(namespace, parent, command);
    Err(format!("could not start {} in {namespace}: {error}", program.display()).into())
}

fn list(args: ListArgs) -> Outcome {
    let labs = Lab::list(&Options::default())?;
    if args.json {
        say!("{}", serde_json::to_string(&labs)?);
        return Ok(ExitCode::SUCCESS);
    }
    let width = labs.iter().map(|lab| lab.name.len()).max().unwrap_or(0);
    for lab in labs {
        let state = lab.nodes.map_or("never finished".into(), |nodes| counted(nodes, "node"));
        say!("{:width$}  {state}", lab.name);
    }
    Ok(ExitCode::SUCCESS)
}

fn graph(args: GraphArgs) -> Outcome {
    let lab = Lab::open(&args.lab, &Options::default())?;
    output::to_stdout(format_args!("{}", treecast_experiment::svg(lab.topology(), lab.name())));
    Ok(ExitCode::SUCCESS)
}

fn down(args: DownArgs) -> Outcome {
    let options = Options::default();
    match args.lab {
        Some(lab) => {
            let start = Instant::now();
            Lab::remove(&lab, &options)?;
            say!("lab {lab} is down, in {:.2} s", start.elapsed().as_secs_f64());
        }
        None if !args.all => {
            return Err("no lab is named: name one that `treecast lab list` shows, or take --all down".into());
        }
        None => {
            for name in Lab::down_all(&options)? {
                say!("lab {name} is down");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
