//! Manifests wait for each other a moment, so that one signature is enough for many small objects. Checking a
//! signature costs each receiver as much as receiving a small object.

use std::time::Duration;

use treecast_proto::{Instant, object::SenderWait, vcmtp::Sender};
use treecast_wire::header::FileId;

use super::Session;
use crate::security::manifest::MAX_BATCH;

/// How long a manifest waits for others.
const MAX_AGE: Duration = Duration::from_millis(10);

/// Hashes of objects whose manifests are not signed yet.
#[derive(Debug, Default)]
pub(super) struct Unsigned {
    hashes: Vec<(FileId, [u8; 32])>,
    /// Since when the first has waited.
    since: Option<Instant>,
}

impl Unsigned {
    /// The time when the waiting manifests are signed.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + MAX_AGE)
    }
}

impl Session<'_> {
    /// An object has been read to its end.
    pub(super) fn read_to_end(&mut self, now: Instant, file: FileId, hash: [u8; 32]) {
        if self.objects.signer.is_none() {
            return self.hashed(now, file, hash);
        }
        self.objects.unsigned.since.get_or_insert(now);
        self.objects.unsigned.hashes.push((file, hash));
        // Repair symbols take time. Receivers of a feed that need none of them have the object when they have its manifest.
        let is_feed = self.plan.options.feed.is_some();
        let symbols_follow = is_feed && self.machine.vcmtp().is_some_and(Sender::has_symbols_due);
        if symbols_follow || self.objects.unsigned.hashes.len() >= MAX_BATCH {
            self.sign_all(now);
        }
    }

    /// Signs what has waited long enough.
    pub(super) fn sign_if_due(&mut self, now: Instant) {
        if self.objects.unsigned.deadline().is_some_and(|deadline| deadline <= now) {
            self.sign_all(now);
        }
    }

    /// The group's lane waits: nothing joins those that are there, unless it does so for receivers' buffers alone.
    pub(super) fn sign_before_waiting(&mut self, now: Instant, why: SenderWait) {
        if why != SenderWait::Credit && self.objects.unsigned.since.is_some() {
            self.sign_all(now);
        }
    }

    fn sign_all(&mut self, now: Instant) {
        let Unsigned { hashes, .. } = std::mem::take(&mut self.objects.unsigned);
        if let Some(signer) = &mut self.objects.signer {
            let announced =
                |(file, hash): &(FileId, [u8; 32])| Some((*file, self.machine.announced(*file)?, *hash));
            signer.sign_all(&hashes.iter().filter_map(announced).collect::<Vec<_>>());
        }
        for (file, hash) in hashes {
            self.hashed(now, file, hash);
        }
    }
}
