//! A group that no receiver hears: the user is told, and receivers get everything over their own connections.

use std::ops::Range;

use treecast_proto::Instant;
use treecast_wire::{header::Header, ticket::Fanout};

use super::{super::SendEvent, SendError, Session};

impl Session<'_> {
    /// Whether no receiver hears the first group.
    pub(super) fn is_unheard(&self) -> bool {
        self.lanes.congestion.as_ref().is_some_and(|congestion| congestion.is_unheard)
    }

    /// Takes note of whether anybody hears a group. Slower groups follow the first one.
    pub(super) fn note_hearing(&mut self, now: Instant, group: u8) {
        let Some(congestion) = self.lanes.congestion.as_mut().filter(|_| group == 0) else { return };
        let is_unheard = congestion.machine().is_unheard(now);
        if std::mem::replace(&mut congestion.is_unheard, is_unheard) == is_unheard {
            return;
        }
        self.has_news = true;
        if let Some(machine) = self.machine.vcmtp_mut() {
            machine.set_unheard(is_unheard);
        }
        if is_unheard && !std::mem::replace(&mut self.figures.has_told_unheard, true) {
            let line = self.told_unheard();
            (self.on_event)(SendEvent::Warning(line));
        }
    }

    fn told_unheard(&self) -> String {
        let group = self.plan.group.group;
        match self.plan.options.fanout {
            Fanout::Multicast => format!(
                "no receiver hears the group {group}: a firewall, a router or a switch drops its UDP packets. All receivers get everything \
                 over TCP meanwhile"
            ),
            Fanout::Unicast | Fanout::Mead | Fanout::Xcast | Fanout::Auto => {
                "no receiver gets the UDP packets of this session: a firewall drops them. All receivers get everything over TCP meanwhile"
                    .into()
            }
        }
    }

    /// Reads blocks that receivers get over their connections. The group gets the first of them when its rate has room, so that
    /// receivers report if they hear it again.
    pub(super) fn pass_over(
        &mut self,
        now: Instant,
        first: Header,
        range: Range<u64>,
    ) -> Result<(), SendError> {
        let file = first.file_id;
        if let Err(error) = self.objects.sources.read_in_order(file, range.clone()) {
            self.withdraw(now, file, &error);
            return Ok(());
        }
        if !self.lanes.group.drops() {
            let first = Header { number: self.number_packets(now, 0, 1)?, ..first };
            // It has just been read, and is still there.
            if let Ok(run) = self.objects.sources.read_in_order(file, range.clone()) {
                let block = &run[..run.len().min(self.plan.block_len.into())];
                let sent = self.lanes.group.send_blocks(now, 0, first, block)?;
                self.note_multicast(now, sent);
            }
        }
        self.lanes.runs += 1;
        self.note_read(now, file, range.end);
        Ok(())
    }
}
