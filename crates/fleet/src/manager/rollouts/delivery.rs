//! The delivery of a release to hosts by one session: made ready, sent, compared, activated.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    ACTIVATION_TIME, ANSWER_TIME, LOOK, Member, PINNED, RolloutError, Rollouts, Task, WITHDRAWN, activated,
    not_understood, ways::Way,
};
use crate::{
    agent::releases::{Activated, Later, Staged},
    manager::{
        hosts::{Host, HostId},
        hub::too_long,
        session,
    },
    message::{Program, Report, Start, What, Work},
};

/// The longest time that a sender waits for the receivers of a ring.
const GATHER_TIME: Duration = Duration::from_secs(60);
/// The slowest delivery that is waited for, in bytes a second.
const SLOWEST_BYTES: u64 = 10_000;
/// The time after which hosts are given up that lack something, as the sender reads it: four times what sending everything once takes.
/// So one slow or full host does not hold its ring up.
const GIVE_UP_AFTER: &str = "x4";
/// The time that a receiver waits for room on its disk, in seconds. The host has been asked for its room before.
const ROOM_SECONDS: &str = "5";

/// A host that gets a release in a session, and where it puts it.
type Getting = (Member, Staged);

/// The receiver of a host, by the order that has started it.
struct Receiver {
    host: HostId,
    order: u64,
    reports: mpsc::UnboundedReceiver<Report>,
}

/// Tells a delivery that it is to end, and why.
struct Interruption(watch::Receiver<Option<&'static str>>);

impl Interruption {
    /// Returns why the delivery is to end; `None` while it may go on.
    fn reason(&self) -> Option<&'static str> {
        *self.0.borrow()
    }

    /// Waits until the delivery is to end. Returns why.
    async fn comes(&self) -> &'static str {
        let mut heard = self.0.clone();
        let reason = heard.wait_for(Option::is_some).await.map(|reason| *reason);
        match reason {
            Ok(reason) => reason.unwrap_or_default(),
            // Nobody looks any more, so nothing interrupts it.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Rollouts {
    /// Delivers to hosts by one session, has them activate it, and writes down how each fared. When the release is withdrawn or the
    /// rollout is aborted meanwhile, the session ends, and hosts that have not begun to activate do not.
    pub(super) async fn deliver(&self, task: &Task, members: Vec<Member>) -> Result<(), RolloutError> {
        let (say, heard) = watch::channel(None);
        let interruption = Interruption(heard);
        tokio::select! {
            delivered = self.deliver_until(task, members, &interruption) => delivered,
            error = self.watch(task.id, say) => Err(error),
        }
    }

    /// Looks whether a rollout is ended from outside, again and again. Returns only if the database fails.
    async fn watch(&self, id: i64, say: watch::Sender<Option<&'static str>>) -> RolloutError {
        let query = "SELECT rollouts.state, withdrawn FROM rollouts JOIN releases ON releases.id = release WHERE rollouts.id = ?1";
        loop {
            let found = self
                .hub
                .store
                .with(move |of| of.query_row(query, [id], |row| Ok((row.get(0)?, row.get(1)?))));
            let (state, is_withdrawn): (String, bool) = match found.await {
                Ok(found) => found,
                Err(error) => return error.into(),
            };
            let reason = match (is_withdrawn, state.as_str()) {
                (true, _) => Some(WITHDRAWN),
                (false, "aborted") => Some("the rollout was aborted"),
                _ => None,
            };
            if reason.is_some() {
                // It counts until the delivery has ended, even if the rollout is taken up again at once.
                say.send_replace(reason);
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn deliver_until(
        &self,
        task: &Task,
        members: Vec<Member>,
        interruption: &Interruption,
    ) -> Result<(), RolloutError> {
        let mut working = Vec::new();
        for (host, ring) in members {
            let has_it = host.facts.releases.get(&task.release.name) == Some(&task.release.version);
            let (state, reason) = match () {
                () if host.tags.contains_key(PINNED) => ("pinned", Some("the host keeps its version")),
                () if has_it => ("done", None),
                () if !host.is_here => ("away", None),
                () => ("working", None),
            };
            self.set_host(task.id, &host, Some(ring), state, reason).await?;
            if state == "working" {
                working.push((host, ring));
            }
        }
        let (getting, having) = self.stage(task, working).await?;
        let complaints = match getting.is_empty() {
            true => BTreeMap::new(),
            false => self.send(task, &getting, interruption).await?,
        };
        let hosts = getting.iter().map(|((host, _), _)| host).chain(having.iter().map(|(host, _)| host));
        let finish = hosts
            .map(|host| self.finish(task, host, complaints.get(&host.id).map(String::as_str), interruption));
        for finished in futures_util::future::join_all(finish).await {
            finished?;
        }
        Ok(())
    }

    /// Has hosts make ready. Returns those that lack the files, and those that have them.
    async fn stage(
        &self,
        task: &Task,
        hosts: Vec<Member>,
    ) -> Result<(Vec<Getting>, Vec<Member>), RolloutError> {
        let stage = hosts
            .iter()
            .map(|(host, _)| self.ask(host, Work::Stage { signed: task.signed.clone() }, ANSWER_TIME));
        let answers = futures_util::future::join_all(stage).await;
        let (mut getting, mut having) = (Vec::new(), Vec::new());
        for (member, answer) in hosts.into_iter().zip(answers) {
            let staged = answer.and_then(|staged| {
                serde_json::from_value::<Option<Staged>>(staged).map_err(|error| not_understood(&error))
            });
            match staged {
                Ok(Some(staged)) => getting.push((member, staged)),
                Ok(None) => having.push(member),
                Err(reason) => self.set_host(task.id, &member.0, None, "failed", Some(&reason)).await?,
            }
        }
        Ok((getting, having))
    }

    /// Sends the release to all of these hosts by one session. Who did not get it is found by comparing. Returns what receivers that
    /// failed have said.
    async fn send(
        &self,
        task: &Task,
        hosts: &[Getting],
        interruption: &Interruption,
    ) -> Result<BTreeMap<HostId, String>, RolloutError> {
        let way = self.way(task, hosts).await?;
        let (mut sender, mut lines) = self.start_sender(task, hosts.len(), way.is_delta)?;
        let mut ticket = None;
        let mut sent_bytes = 0;
        let mut receivers = Vec::new();
        let longest = GATHER_TIME * 2 + Duration::from_secs(task.release.size_bytes() / SLOWEST_BYTES);
        let hear = async {
            loop {
                let line = tokio::select! {
                    line = lines.next_line() => line,
                    _ = interruption.comes() => break,
                };
                let Ok(Some(line)) = line else { break };
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                sent_bytes = left_bytes(&event).max(sent_bytes);
                if ticket.is_none() && event["event"] == "ticket" {
                    let text = event["ticket"].as_str().unwrap_or_default().to_owned();
                    receivers = self.start_receivers(hosts, &text, way.is_delta).await?;
                    ticket = Some(text);
                }
            }
            Ok::<_, RolloutError>(())
        };
        let heard = timeout(longest, hear).await;
        // One that is done has ended by itself.
        _ = sender.kill().await;
        heard.unwrap_or(Ok(()))?;
        let ended = receivers.into_iter().map(|receiver| self.await_receiver(receiver, interruption));
        let mut complaints = BTreeMap::new();
        for ended in futures_util::future::join_all(ended).await {
            complaints.extend(ended?);
        }
        let unicast_bytes = task.release.size_bytes() * hosts.len() as u64;
        let (id, ring, count) = (task.id, hosts.first().map_or(1, |of| of.0.1), hosts.len());
        let insert = "INSERT INTO rollout_sent (rollout, ring, hosts, sent_bytes, unicast_bytes, way, whole_bytes, delta_bytes)
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (word, whole, delta) = (way.word(), way.whole_bytes, way.delta_bytes);
        let row = (id, ring, count, sent_bytes, unicast_bytes, word, whole, delta);
        self.hub.store.with(move |of| of.execute(insert, row)).await?;
        Ok(complaints)
    }

    /// Chooses what a session sends.
    async fn way(&self, task: &Task, hosts: &[Getting]) -> Result<Way, RolloutError> {
        let versions: BTreeSet<Option<String>> =
            hosts.iter().map(|(_, staged)| staged.old.as_ref().map(|old| old.version.clone())).collect();
        let folder = self.state.join("releases").join(&task.release.name);
        let release = task.release.clone();
        let chosen = tokio::task::spawn_blocking(move || Way::choose(&release, &folder, &versions));
        chosen.await.map_err(|error| RolloutError::Wrong(error.to_string()))
    }

    fn start_sender(
        &self,
        task: &Task,
        receivers: usize,
        is_delta: bool,
    ) -> io::Result<(Child, Lines<BufReader<ChildStdout>>)> {
        let mut command = Command::new(&self.treecast);
        command.args(["send", "--json", "--fanout", "auto", "--wait", &receivers.to_string()]);
        command.args([
            "--wait-timeout",
            &format!("{}s", GATHER_TIME.as_secs()),
            "--give-up-after",
            GIVE_UP_AFTER,
        ]);
        // What is lost at the manager's own link is lost to all hosts. Symbols mend it for all of them; otherwise, each would be sent
        // it again over its own connection. They do not go with --delta.
        command.args(if is_delta { &["--delta"][..] } else { &["--fec", "auto"] });
        // With a slash at the end, what is in the folder.
        command.arg(task.folder.join(""));
        session::start(command.stderr(Stdio::null()))
    }

    async fn start_receivers(
        &self,
        hosts: &[Getting],
        ticket: &str,
        is_delta: bool,
    ) -> Result<Vec<Receiver>, RolloutError> {
        let mut receivers = Vec::new();
        for ((host, _), staged) in hosts {
            let mut arguments = session::receiving(host, &staged.into);
            arguments.extend(["--wait-for-space", ROOM_SECONDS].map(str::to_owned));
            if let Some(old) = staged.old.as_ref().filter(|_| is_delta) {
                arguments.extend(["--old".to_owned(), old.folder.to_string_lossy().into_owned()]);
            }
            arguments.push(ticket.to_owned());
            let limit = GATHER_TIME * 3 + Duration::from_secs(3600);
            let start = Start {
                program: Program::Treecast,
                arguments,
                folder: None,
                at_ns: None,
                limit_ms: limit.as_millis() as u64,
                has_input: false,
            };
            let (order, reports) = self.hub.order_and_hear(host.id, Work::Start(start)).await?;
            receivers.push(Receiver { host: host.id, order, reports });
        }
        Ok(receivers)
    }

    /// Waits for the end of a receiver whose sender has ended. One that goes on without it is ended. Returns what one that has failed
    /// has said.
    async fn await_receiver(
        &self,
        mut receiver: Receiver,
        interruption: &Interruption,
    ) -> Result<Option<(HostId, String)>, RolloutError> {
        let Receiver { host, order, .. } = receiver;
        tokio::select! {
            said = complaint(&mut receiver.reports) => return Ok(said.map(|said| (host, said))),
            _ = too_long(ANSWER_TIME) => {}
            _ = interruption.comes() => {}
        }
        self.hub.order(host, Work::Signal { order, signal: libc::SIGTERM }).await?;
        match timeout(ANSWER_TIME, complaint(&mut receiver.reports)).await {
            Ok(said) => Ok(said.map(|said| (host, said))),
            Err(_) => {
                let reason = "the session has ended without this host";
                self.hub.give_up(host, order, reason).await?;
                Ok(Some((host, reason.to_owned())))
            }
        }
    }

    /// Has a host compare what came and activate it, and waits until the host itself reports the version.
    /// `complaint` is what its receiver has said, if that has failed.
    async fn finish(
        &self,
        task: &Task,
        host: &Host,
        complaint: Option<&str>,
        interruption: &Interruption,
    ) -> Result<(), RolloutError> {
        let (state, reason) = match self.activate(task, host, interruption).await {
            Ok(None) => ("done", None),
            Ok(Some(later)) => {
                return Ok(self.set_later(task.id, host, "waiting", &later.says, later.opens_ms).await?);
            }
            // A host that has it in spite of that reports it with its facts.
            Err(_) if interruption.reason().is_some() => {
                ("waiting", interruption.reason().map(str::to_owned))
            }
            Err(reason) => {
                let said = complaint.map(|said| format!(" ({said})")).unwrap_or_default();
                ("failed", Some(format!("{reason}{said}")))
            }
        };
        Ok(self.set_host(task.id, host, None, state, reason.as_deref()).await?)
    }

    /// Has a host compare and activate a release. Returns when it will do so, if that is not now.
    async fn activate(
        &self,
        task: &Task,
        host: &Host,
        interruption: &Interruption,
    ) -> Result<Option<Later>, String> {
        let signed = || task.signed.clone();
        let patience = ANSWER_TIME + Duration::from_secs(task.release.size_bytes() / 10_000_000);
        let patience = async {
            tokio::select! {
                reason = too_long(patience) => reason,
                reason = interruption.comes() => reason,
            }
        };
        let found = self.hub.ask(host.id, Work::Verify { signed: signed() }, patience).await?;
        if let Some(reason) = interruption.reason() {
            return Err(reason.to_owned());
        }
        if let Some(how) = found.as_str() {
            return Err(format!("not all of it came: {how}"));
        }
        let patience = async {
            tokio::select! {
                reason = too_long(ACTIVATION_TIME) => reason,
                // A host that is here has begun, and tells how it went. One that is away has not, and is not to begin on coming.
                reason = self.leaves(host.id, interruption) => reason,
            }
        };
        let activate = self.hub.ask(host.id, Work::Activate { signed: signed() }, patience);
        if let Activated::Later(later) = activated(activate.await?)? {
            return Ok(Some(later));
        }
        match self.refresh(host).await?.get(&task.release.name) {
            Some(version) if *version == task.release.version => Ok(None),
            other => {
                Err(format!("after the activation it reports {}", other.map_or("no version", String::as_str)))
            }
        }
    }

    /// Waits until a delivery is interrupted and a host is away. Returns why it was interrupted.
    async fn leaves(&self, host: HostId, interruption: &Interruption) -> &'static str {
        let reason = interruption.comes().await;
        while self.hub.is_here(host).await {
            tokio::time::sleep(LOOK).await;
        }
        reason
    }
}

/// Returns what has left a sender by an event of it: IP packets by each fanout, and what receivers were sent again over their own
/// connections.
fn left_bytes(event: &Value) -> u64 {
    let of = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
    let fanouts = event["fanout"].as_object().into_iter().flatten();
    let receivers = event["receivers"].as_array().into_iter().flatten();
    let first: u64 = fanouts.map(|(_, fanout)| of(fanout, "left_bytes")).sum();
    first + receivers.map(|receiver| of(receiver, "retransmitted_bytes")).sum::<u64>()
}

/// Waits until a program has ended. Returns the last line of its errors if it has failed.
async fn complaint(reports: &mut mpsc::UnboundedReceiver<Report>) -> Option<String> {
    while let Some(report) = reports.recv().await {
        match report.what {
            What::Ended(end) if end.code == Some(0) => return None,
            What::Ended(end) => return end.errors.lines().last().map(|line| format!("{line:.300}")),
            What::Failed { reason } => return Some(reason),
            What::Done { .. } => return None,
            _ => {}
        }
    }
    None
}
