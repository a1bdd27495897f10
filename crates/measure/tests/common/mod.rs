//! A results database with made-up runs: as many copies at link rate as a delivery sends, and noise.

use std::{path::Path, time::Duration};

use treecast_measure::{
    Db,
    db::{Machine, NodeId, NodeInfo, Role, RunEnd, RunInfo, Sample, Status, Transfer},
};

pub const LINK_BPS: u64 = 1_000_000_000;
pub const DELIVERIES: [&str; 6] = ["tcp", "udp", "scp", "carousel", "after", "nack"];
pub const SCHEDULES: [&str; 3] = ["immediate", "random", "random2"];

/// A network: its name, clients and levels of routers.
pub type Network = (&'static str, u32, u32);

/// Opens a database at `path` and adds a run of every combination.
pub fn made_up(path: &Path, networks: &[Network], sizes_mib: &[u64], repeats: u32) -> Db {
    let mut db = Db::open(path).unwrap();
    let mut noise = Noise(7);
    for &(topology, clients, router_levels) in networks {
        for &size_mib in sizes_mib {
            for delivery in DELIVERIES {
                for schedule in SCHEDULES {
                    for repeat in 0..repeats {
                        let info = RunInfo {
                            repeat,
                            schedule: schedule.into(),
                            delivery: delivery.into(),
                            size_bytes: size_mib << 20,
                            ..info(topology, clients, router_levels)
                        };
                        add_run(&mut db, info, &mut noise);
                    }
                }
            }
        }
    }
    db
}

pub fn info(topology: &str, clients: u32, router_levels: u32) -> RunInfo {
    RunInfo {
        experiment: "made-up".into(),
        topology: topology.into(),
        clients,
        router_levels,
        link_bps: Some(LINK_BPS),
        server_bps: None,
        delivery: "nack".into(),
        schedule: "immediate".into(),
        size_bytes: 64 << 20,
        repeat: 0,
        seed: 4711,
        command: "treecast lab run labs/librecast/demo.toml".into(),
        machine: Machine {
            hostname: "host".into(),
            kernel: "Linux 6.1.0".into(),
            cpu_model: "An Imagined Processor @ 2.50GHz".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            treecast_version: "0.1.0".into(),
        },
    }
}

fn add_run(db: &mut Db, info: RunInfo, noise: &mut Noise) {
    let run = db.begin_run(&info).unwrap();
    let mut add = |name: String, role| db.add_node(run, &NodeInfo { name, role }).unwrap();
    let server = add("server0".into(), Role::Server);
    let routers: Vec<NodeId> =
        (0..(1 << info.router_levels) - 1).map(|n| add(format!("router{n}"), Role::Router)).collect();
    let clients: Vec<NodeId> = (0..info.clients).map(|n| add(format!("client{n}"), Role::Client)).collect();

    let last = add_transfers(db, &info, &clients, noise);
    let duration = last + 0.5;
    let sent_bps = info.size_bytes as f64 * copies(&info) / (last - 0.3);
    let mut samples = traffic(server, "if0", duration, last, 0.3, sent_bps, noise);
    samples.extend(traffic_of_process(server, duration, if is_unicast(&info) { 0.3 } else { 0.8 }));
    for (number, &router) in routers.iter().rev().enumerate() {
        let level = (number + 1).ilog2();
        let from = 0.3 + 0.1 * f64::from(level);
        samples.extend(traffic(router, "server", duration, last, from, sent_bps, noise));
        samples.extend(traffic(router, "client", duration, last, from + 0.05, sent_bps * 0.99, noise));
    }
    db.add_samples(&samples).unwrap();
    let end =
        RunEnd { status: Status::Complete, duration: Duration::from_secs_f64(duration), saturated: None };
    db.finish_run(run, &end).unwrap();
}

/// Adds what each client got; returns when the last had it, in seconds.
fn add_transfers(db: &mut Db, info: &RunInfo, clients: &[NodeId], noise: &mut Noise) -> f64 {
    let one_copy = info.size_bytes as f64 * 8.0 / LINK_BPS as f64;
    let (spread, busy) = (spread(info), one_copy * copies(info) * 1.05);
    let mut last = 0.0f64;
    for &client in clients {
        let start = 0.3 + noise.next() * spread * busy;
        let took = if is_unicast(info) {
            busy * (0.6 + 0.5 * noise.next()) / (1.0 + spread * 1.5)
        } else {
            one_copy * 1.05 * (1.0 + 0.08 * noise.next())
        };
        last = last.max(start + took);
        let transfer = Transfer {
            started: Duration::from_secs_f64(start),
            finished: Some(Duration::from_secs_f64(start + took)),
            received_bytes: info.size_bytes,
            verified: true,
            ..Transfer::default()
        };
        db.add_transfer(client, &transfer).unwrap();
    }
    last
}

fn is_unicast(info: &RunInfo) -> bool {
    matches!(&*info.delivery, "tcp" | "udp" | "scp")
}

/// Over how many times the duration of the immediate run clients begin.
fn spread(info: &RunInfo) -> f64 {
    match &*info.schedule {
        "random" => 1.0,
        "random2" => 2.0,
        _ => 0.0,
    }
}

/// How many copies the server sends.
fn copies(info: &RunInfo) -> f64 {
    if is_unicast(info) { f64::from(info.clients) } else { 1.06 + spread(info) }
}

/// Counters of an interface that carries `bytes_per_second` from `from` until `to`.
fn traffic(
    node: NodeId,
    label: &str,
    duration: f64,
    to: f64,
    from: f64,
    bytes_per_second: f64,
    noise: &mut Noise,
) -> Vec<Sample> {
    let step = 0.05;
    let mut sent = 0.0;
    (0..(duration / step) as u64)
        .flat_map(|tick| {
            let at = tick as f64 * step;
            if at > from && at <= to {
                sent += bytes_per_second * step * (0.9 + 0.2 * noise.next());
            }
            let sample = |counter: &str| Sample {
                node,
                series: format!("interface/{label}/{counter}").into(),
                at: Duration::from_secs_f64(at),
                value: sent as i64,
            };
            [sample("tx_bytes"), sample("rx_bytes")]
        })
        .collect()
}

fn traffic_of_process(node: NodeId, duration: f64, load: f64) -> Vec<Sample> {
    let sample = |tick: u64| Sample {
        node,
        series: "process/cpu_ns".into(),
        at: Duration::from_secs_f64(tick as f64 * 0.05),
        value: (tick as f64 * 0.05 * load * 1e9) as i64,
    };
    (0..(duration / 0.05) as u64).map(sample).collect()
}

/// Numbers from 0 to 1, the same in every run (a linear congruential generator).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1u64 << 24) as f64
    }
}
