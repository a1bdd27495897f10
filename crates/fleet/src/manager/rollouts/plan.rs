//! What a rollout will cost, ring by ring, before it begins.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use treecast_experiment::forecast::{Question, forecast};
use utoipa::ToSchema;

use super::{NewRollout, PINNED, RolloutError, Rollouts, ways::Way};
use crate::{manager::hosts::HostId, release::Release};

/// The rate of the manager's link that is assumed, in bits per second.
const RATE_BPS: u64 = 100_000_000;
/// The share of packets that each host is assumed to lose.
const LOSS: f64 = 0.001;

/// A rollout whose cost is asked for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NewPlan {
    #[serde(flatten)]
    pub rollout: NewRollout,
    /// The rate of the manager's link, in bits per second. `None`: 100 Mbit/s are assumed.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// The share of packets that each host loses, from 0 to 1. `None`: 0.1 % is assumed.
    #[serde(default)]
    pub loss: Option<f64>,
}

/// The cost of a rollout.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PlanView {
    pub name: String,
    pub version: String,
    pub rate_bps: u64,
    pub loss: f64,
    pub rings: Vec<RingPlan>,
}

/// The cost of a ring, and who is in it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RingPlan {
    pub ring: u32,
    pub hosts: usize,
    /// The hosts that are away, have the version already, or are pinned. The session is without them.
    pub away: usize,
    pub done: usize,
    pub pinned: usize,
    /// `whole` or `delta`, and the bytes that each way sends, before losses.
    pub way: String,
    pub whole_bytes: u64,
    pub delta_bytes: Option<u64>,
    pub forecasts: Vec<Forecast>,
}

/// The cost of a ring's session by one fanout, as the simulator finds it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// `multicast` or `unicast`. `--fanout auto` has the cost of multicast where the network has it, and of unicast where it has not.
    pub fanout: String,
    pub seconds: f64,
    pub sender_bytes: u64,
}

impl Rollouts {
    /// Tells who is in each ring of a rollout, what is sent, and how long that takes.
    ///
    /// # Errors
    /// What is wrong with the rollout.
    pub async fn plan(&self, new: NewPlan) -> Result<PlanView, RolloutError> {
        let release = self.signed(new.rollout.release).await?.check(None)?;
        let (rate_bps, loss) = (new.rate_bps.unwrap_or(RATE_BPS), new.loss.unwrap_or(LOSS));
        let mut seen = BTreeSet::new();
        let mut rings = Vec::new();
        for (number, ring) in (1..).zip(&new.rollout.rings) {
            let mut hosts = self.hub.select_some(&ring.select).await?;
            hosts.retain(|host| !seen.contains(&host.id));
            hosts.truncate(ring.most.map_or(usize::MAX, |most| most as usize));
            seen.extend(hosts.iter().map(|host| host.id));
            let mut count = BTreeMap::from([("away", 0), ("done", 0), ("pinned", 0)]);
            let mut versions: BTreeMap<HostId, Option<String>> = BTreeMap::new();
            for host in &hosts {
                let version = host.facts.releases.get(&release.name);
                let state = match () {
                    () if host.tags.contains_key(PINNED) => "pinned",
                    () if version == Some(&release.version) => "done",
                    () if !host.is_here => "away",
                    () => {
                        versions.insert(host.id, version.cloned());
                        continue;
                    }
                };
                *count.entry(state).or_default() += 1;
            }
            let (way, forecasts) = self.cost(&release, &versions, rate_bps, loss).await?;
            rings.push(RingPlan {
                ring: number,
                hosts: hosts.len(),
                away: count["away"],
                done: count["done"],
                pinned: count["pinned"],
                way: way.word().to_owned(),
                whole_bytes: way.whole_bytes,
                delta_bytes: way.delta_bytes,
                forecasts,
            });
        }
        Ok(PlanView { name: release.name, version: release.version, rate_bps, loss, rings })
    }

    /// Reckons the session for hosts that have these versions.
    async fn cost(
        &self,
        release: &Release,
        versions: &BTreeMap<HostId, Option<String>>,
        rate_bps: u64,
        loss: f64,
    ) -> Result<(Way, Vec<Forecast>), RolloutError> {
        let folder = self.state.join("releases").join(&release.name);
        let (release, receivers) = (release.clone(), versions.len() as u32);
        let versions = versions.values().cloned().collect();
        let reckoned = tokio::task::spawn_blocking(move || {
            let way = Way::choose(&release, &folder, &versions);
            let size_bytes = way.delta_bytes.filter(|_| way.is_delta).unwrap_or(way.whole_bytes);
            let question = Question { receivers, size_bytes, rate_bps, loss };
            (way, forecast(&question).map_err(|error| RolloutError::Wrong(error.to_string())))
        });
        let (way, answers) = reckoned.await.map_err(|error| RolloutError::Wrong(error.to_string()))?;
        let forecasts = answers?.into_iter().map(|answer| Forecast {
            fanout: answer.fanout.to_owned(),
            seconds: answer.time.as_secs_f64(),
            sender_bytes: answer.sender_bytes,
        });
        Ok((way, forecasts.collect()))
    }
}
