//! Sessions with local groups (LGMP) of many receivers.

use std::{num::NonZeroUsize, time::Duration};

use treecast_proto::local::{MAX_CHILDREN, MAX_MEMBERS, Mode, Tuning};
use treecast_sim::crowd::{self, Crowd, CrowdFigures};

fn crowd(receivers: usize, threads: usize) -> Crowd {
    Crowd {
        seed: 1,
        receivers,
        mode: Mode::Local,
        tuning: Tuning::default(),
        loss: 0.01,
        delay: Duration::from_millis(40),
        size_bytes: 64 * 1_000,
        block_len: 1_000,
        max_run_len: 8_000,
        rate_bps: 1_000_000,
        threads: NonZeroUsize::new(threads).unwrap(),
        timeout: Duration::from_secs(60),
    }
}

#[test]
fn a_crowd_gets_everything_and_the_same_seed_gives_the_same_counts() {
    let figures = crowd::run(&crowd(1_000, 1));
    println!("{figures:?}");
    assert_eq!(figures.whole, 1_000);
    assert!(figures.most_clients <= MAX_MEMBERS + MAX_CHILDREN);
    assert_eq!(crowd::run(&crowd(1_000, 3)), figures, "the number of threads changes nothing");
}

/// The table of the sender's load, for as many receivers as the environment says.
#[test]
#[ignore]
fn table() {
    println!("whole {}", std::mem::size_of::<treecast_proto::local::Receiver>());
    let most = std::env::var("CROWD").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    for receivers in (1..=6).map(|power| 10_usize.pow(power)).filter(|count| *count <= most) {
        let begin = std::time::Instant::now();
        let figures: CrowdFigures = crowd::run(&crowd(receivers, 2));
        println!("{receivers} {:?} {figures:?}", begin.elapsed());
    }
}
