//! The leases: which client has which interface identifier.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// The attempts to find an identifier that nobody has.
const ATTEMPTS: u32 = 16;
/// The time for which an identifier is not given to anybody, after a client found that another host has it.
const DECLINED_FOR: Duration = Duration::from_secs(3_600);
/// The most identifiers that are remembered so.
const MAX_DECLINED: usize = 1_024;

/// A client's interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Client {
    pub duid: Vec<u8>,
    /// The number of the interface's group of addresses (IAID).
    pub group: u32,
}

struct Lease {
    ifid: u64,
    until: Duration,
}

/// A lease in a form that outlives a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLease {
    pub client: Client,
    pub ifid: u64,
    /// The time that is left of it, in seconds.
    pub left_s: u64,
}

impl KeptLease {
    /// The lease after a time in which nobody has counted.
    #[must_use]
    pub fn after(self, seconds: u64) -> Self {
        Self { left_s: self.left_s.saturating_sub(seconds), ..self }
    }
}

/// The leases of a link, no more than a fixed number.
pub struct Leases {
    most: usize,
    secret: [u8; 32],
    by_client: BTreeMap<Client, Lease>,
    by_ifid: HashMap<u64, Client>,
    declined: HashMap<u64, Duration>,
    /// Identifiers of hosts that have them without a lease.
    reserved: Vec<u64>,
    /// Identifiers that only the client with a DUID gets.
    kept_for: BTreeMap<u64, Vec<u8>>,
}

impl Leases {
    /// Identifiers are hashes under a secret, so nobody can tell one from a client's DUID. The same client gets the same
    /// one after the server was started again.
    pub fn new(most: usize, secret: &[u8; 32], reserved: Vec<u64>, kept_for: BTreeMap<u64, Vec<u8>>) -> Self {
        let secret = blake3::derive_key("treecast 2026-11 MAST interface identifiers", secret);
        Self {
            most,
            secret,
            by_client: BTreeMap::new(),
            by_ifid: HashMap::new(),
            declined: HashMap::new(),
            reserved,
            kept_for,
        }
    }

    pub fn len(&self) -> usize {
        self.by_client.len()
    }

    /// All leases that are not over.
    pub fn kept(&self, now: Duration) -> Vec<KeptLease> {
        let kept = self.by_client.iter().map(|(client, lease)| KeptLease {
            client: client.clone(),
            ifid: lease.ifid,
            left_s: lease.until.saturating_sub(now).as_secs(),
        });
        kept.filter(|lease| lease.left_s > 0).collect()
    }

    /// Takes up the leases of an earlier run, as far as there is room and nobody else has their identifiers.
    pub fn restore(&mut self, leases: Vec<KeptLease>, now: Duration) {
        for KeptLease { client, ifid, left_s } in leases {
            if left_s > 0 {
                self.give(client, Some(ifid), now, Some(now.saturating_add(Duration::from_secs(left_s))));
            }
        }
    }

    /// The identifier of a client: the one that is kept for it, the one that it has, the one that it wishes if nobody has it, or
    /// another. It is the client's only if there is a time `until` when the lease ends. `None` if all leases are taken.
    pub fn give(
        &mut self,
        client: Client,
        wish: Option<u64>,
        now: Duration,
        until: Option<Duration>,
    ) -> Option<u64> {
        let own = self.kept_for.iter().find(|(_, duid)| **duid == client.duid).map(|(ifid, _)| *ifid);
        let own = own.filter(|ifid| self.is_free(*ifid, &client, now));
        if own.is_some() && until.is_some() {
            // It had another one before this one was kept for it.
            self.end(&client, false, now);
        }
        if let Some(lease) = self.by_client.get_mut(&client) {
            lease.until = until.unwrap_or(lease.until).max(lease.until);
            return Some(lease.ifid);
        }
        if self.by_client.len() >= self.most {
            self.end_old(now);
        }
        if self.by_client.len() >= self.most {
            return None;
        }
        let made = (0..ATTEMPTS).map(|attempt| self.hash(&client, attempt));
        let wished = own.into_iter().chain(wish);
        let ifid = wished.chain(made).find(|ifid| self.is_free(*ifid, &client, now))?;
        if let Some(until) = until {
            self.by_ifid.insert(ifid, client.clone());
            self.by_client.insert(client, Lease { ifid, until });
        }
        Some(ifid)
    }

    /// Ends a client's lease. Its identifier is not given away for a time if the client has found another host with it.
    pub fn end(&mut self, client: &Client, is_declined: bool, now: Duration) {
        let Some(lease) = self.by_client.remove(client) else { return };
        self.by_ifid.remove(&lease.ifid);
        self.declined.retain(|_, until| *until > now);
        if is_declined && self.declined.len() < MAX_DECLINED {
            self.declined.insert(lease.ifid, now + DECLINED_FOR);
        }
    }

    fn end_old(&mut self, now: Duration) {
        let by_ifid = &mut self.by_ifid;
        self.by_client.retain(|_, lease| {
            let is_valid = lease.until > now;
            if !is_valid {
                by_ifid.remove(&lease.ifid);
            }
            is_valid
        });
    }

    /// Whether nobody has an identifier, so that a client can get it.
    fn is_free(&self, ifid: u64, client: &Client, now: Duration) -> bool {
        let is_declined = self.declined.get(&ifid).is_some_and(|until| *until > now);
        !is_reserved(ifid)
            && !self.reserved.contains(&ifid)
            && self.kept_for.get(&ifid).is_none_or(|duid| *duid == client.duid)
            && !is_declined
            && !self.by_ifid.contains_key(&ifid)
    }

    fn hash(&self, client: &Client, attempt: u32) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&client.group.to_be_bytes()).update(&attempt.to_be_bytes()).update(&client.duid);
        u64::from_be_bytes(*hasher.finalize().as_bytes().first_chunk().expect("32 bytes"))
    }
}

/// Identifiers with a meaning of their own (RFC 5453): routers' anycast, and subnet anycast.
fn is_reserved(ifid: u64) -> bool {
    matches!(ifid, 0 | 0x0200_5eff_fe00_0000..=0x0200_5eff_feff_ffff | 0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff)
}
