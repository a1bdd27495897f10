//! Managers and agents end and connections break at random, by schedules that a seed draws. Each order is carried out once, and each
//! result comes once.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::Mutex,
};
use treecast_fleet::{manager::Manager, message::Work};

use crate::support::{Agent, Folder, any_port, code, manager_known_as, until};

const AGENTS: usize = 4;
const ORDERS: usize = 12;

/// Random numbers of a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Passes connections on to a manager, and cuts each after a number of bytes that the seed draws.
async fn cutting(listener: TcpListener, to: Arc<Mutex<SocketAddr>>, draw: Arc<Mutex<Draw>>) {
    loop {
        let Ok((mut near, _)) = listener.accept().await else { return };
        let to = *to.lock().await;
        let bytes = {
            let mut draw = draw.lock().await;
            // One connection in three lasts.
            (draw.below(3) > 0).then(|| 500 + draw.below(20_000))
        };
        tokio::spawn(async move {
            let Ok(mut far) = TcpStream::connect(to).await else { return };
            let Some(bytes) = bytes else {
                _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                return;
            };
            let (mut near_in, mut near_out) = near.split();
            let (far_in, mut far_out) = far.split();
            let mut limited = tokio::io::AsyncReadExt::take(far_in, bytes);
            tokio::select! {
                _ = tokio::io::copy(&mut near_in, &mut far_out) => {}
                _ = tokio::io::copy(&mut limited, &mut near_out) => {}
            }
            _ = near_out.shutdown().await;
        });
    }
}

/// Plays one schedule.
async fn play(seed: u64) {
    let folder = Folder::new();
    let state = folder.0.join("manager");
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let mut draw = Draw(seed);
    let mut manager = manager_known_as(&state, any_port(), vec![proxy.to_string()]).await;
    let to = Arc::new(Mutex::new(manager.agents));
    let cuts = Arc::new(Mutex::new(Draw(seed ^ 1)));
    let proxying = tokio::spawn(cutting(listener, Arc::clone(&to), cuts));
    let joining = code(&state, AGENTS as u32).await;
    let name = |agent: usize| format!("a{agent}");
    let start =
        |agent: usize, code: Option<&str>| Agent::start(&folder.0.join(name(agent)), &name(agent), code);
    let mut agents: Vec<Option<Agent>> = Vec::new();
    for agent in 0..AGENTS {
        let mut started = start(agent, Some(&joining));
        started.connected().await;
        agents.push(Some(started));
    }
    let mut given = Vec::new();
    for number in 0..ORDERS {
        let agent = draw.below(AGENTS as u64) as usize;
        let host = manager.hub.host(&name(agent)).await.unwrap().id;
        let work = Work::Folder { name: format!("order{number}") };
        given.push((host, manager.hub.order(host, work).await.unwrap()));
        match draw.below(6) {
            0 => {
                // The manager ends in the middle of whatever it does, and starts again on another port.
                drop(manager);
                manager = again(&state, proxy).await;
                *to.lock().await = manager.agents;
            }
            1 | 2 => {
                let agent = draw.below(AGENTS as u64) as usize;
                if let Some(running) = agents[agent].take() {
                    running.kill().await;
                }
                agents[agent] = Some(start(agent, None));
            }
            3 => tokio::time::sleep(Duration::from_millis(draw.below(30))).await,
            _ => {}
        }
    }
    let hub = Arc::clone(&manager.hub);
    for (host, order) in &given {
        let ended = || async {
            let (host, order) = (*host, *order);
            let query = "SELECT count(*) FROM orders WHERE host = ?1 AND number = ?2 AND ended IS NOT NULL";
            hub.store
                .with(move |of| of.query_row(query, (host, order), |row| row.get::<_, u32>(0)))
                .await
                .unwrap()
                == 1
        };
        until(&format!("seed {seed}: order {order} of host {host} ends"), ended).await;
    }
    // Twice as many reports would be a host that has carried an order out twice.
    let query =
        "SELECT host, order_number, count(*) FROM reports GROUP BY host, order_number HAVING count(*) > 1";
    let doubled: Vec<(i64, u64, u32)> = hub
        .store
        .with(move |of| {
            of.prepare(query)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
        .await
        .unwrap();
    assert_eq!(doubled, [], "seed {seed}");
    for agent in agents.into_iter().flatten() {
        agent.kill().await;
    }
    proxying.abort();
}

/// Starts the manager again as soon as the earlier one has let go of its folder.
async fn again(state: &std::path::Path, proxy: SocketAddr) -> Manager {
    until("the folder is free", || async {
        let folder = std::fs::File::open(state).unwrap();
        let is_free = matches!(treecast_host::folder::lock(&folder), treecast_host::folder::Lock::Ours);
        if is_free {
            treecast_host::folder::unlock(&folder);
        }
        is_free
    })
    .await;
    manager_known_as(state, any_port(), vec![proxy.to_string()]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_order_is_carried_out_once_whatever_ends() {
    for seed in 0..8 {
        play(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "200 schedules take minutes: `make test-all` plays them"]
async fn each_order_is_carried_out_once_in_two_hundred_schedules() {
    for seed in 100..300 {
        play(seed).await;
    }
}
