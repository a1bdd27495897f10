//! A receiver that hears none of the session's UDP packets: the user is told, because everything comes over TCP then.

use treecast_wire::{header::FileId, ticket::Fanout};

use super::{super::ReceiveEvent, Session};
use crate::remedies::{Advised, Remedy};

/// The bytes that come over the connection before a receiver that has not heard one packet takes its network for the reason. A
/// smaller session is judged by all of it.
const UNHEARD_BYTES: u64 = 64 * 1024;

impl Session<'_> {
    /// Bytes of an object have come over the connection. Those of objects that the sender began before this receiver came were not
    /// lost, because it could not hear them.
    pub(super) fn note_again(&mut self, file: FileId, bytes: u64) {
        self.delivery.figures.retransmitted_bytes += bytes;
        if file.index() >= self.delivery.line.first {
            self.delivery.figures.missed_bytes += bytes;
        }
        let is_news = self.hears_nothing() && !self.lacks_family();
        if is_news && !std::mem::replace(&mut self.delivery.figures.has_told_unheard, true) {
            let line = self.told_unheard();
            (self.delivery.on_event)(ReceiveEvent::Warning(line));
        }
    }

    /// Whether everything comes over the connection, although the sender has sent it as UDP packets as well.
    pub(super) fn hears_nothing(&self) -> bool {
        let enough = self.delivery.figures.announced_bytes.clamp(1, UNHEARD_BYTES);
        self.delivery.figures.heard_at.is_none() && self.delivery.figures.missed_bytes >= enough
    }

    fn lacks_family(&self) -> bool {
        self.hearing.fanout == Fanout::Multicast && self.hearing.groups.lacks_family()
    }

    fn told_unheard(&self) -> Advised {
        let what = match self.hearing.fanout {
            Fanout::Multicast => {
                format!("nothing of the session's group has come on {}", self.hearing.groups.interface_name())
            }
            Fanout::Unicast | Fanout::Mead | Fanout::Xcast | Fanout::Auto => {
                "no UDP packet of the session has come".to_owned()
            }
        };
        let line = format!(
            "{what}: a firewall, a router or a switch drops them on the way. Everything comes over TCP"
        );
        Advised::by(Remedy::FindLoss, line)
    }
}
