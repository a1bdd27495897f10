use std::{num::NonZeroUsize, time::Duration};
use treecast_proto::local::{Mode, Tuning};
use treecast_sim::crowd::{self, Crowd};
fn main() {
    let arg = |n: usize, d: usize| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(d);
    let plan = Crowd {
        seed: arg(3, 1) as u64,
        receivers: arg(1, 10_000),
        mode: Mode::Local,
        tuning: Tuning::default(),
        loss: 0.01,
        delay: Duration::from_millis(40),
        size_bytes: 90_880,
        block_len: 1420,
        max_run_len: 8 * 1420,
        rate_bps: 946_666,
        threads: NonZeroUsize::new(arg(2, 2)).unwrap(),
        timeout: Duration::from_secs(120),
    };
    let began = std::time::Instant::now();
    let figures = crowd::run(&plan);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    println!("{figures:#?}\n{} s {peak}", began.elapsed().as_secs_f64());
}
