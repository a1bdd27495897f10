//! Packets of small objects wait for each other, so that a super-packet carries several objects. They leave
//! when they fill a super-packet, before anything else leaves, and when there is nothing more for now.

use std::ops::Range;

use treecast_proto::Instant;
use treecast_wire::header::{Header, PacketType};

use super::{SendError, Session};

impl Session<'_> {
    /// Takes a message for the group; false when it is to leave at once.
    pub(super) fn gather_message(&mut self, now: Instant, packet: &[u8]) -> Result<bool, SendError> {
        let is_pace = Header::parse(packet).is_ok_and(|header| header.kind == PacketType::Pace);
        if is_pace || !self.lanes.group.gathers() || !self.lanes.gather.push(packet) {
            return Ok(false);
        }
        self.flush_full(now)?;
        Ok(true)
    }

    /// Takes blocks for the group; false when they fill super-packets by themselves.
    pub(super) fn gather_blocks(
        &mut self,
        now: Instant,
        first: Header,
        range: Range<u64>,
    ) -> Result<bool, SendError> {
        let file = first.file_id;
        let is_short =
            range.end - range.start < self.datagrams_a_run() as u64 * u64::from(self.plan.block_len);
        if !is_short || !self.lanes.group.gathers() {
            return Ok(false);
        }
        match self.objects.sources.read_in_order(file, range.clone()) {
            Ok(run) => self.lanes.gather.push_blocks(first, run),
            Err(error) => {
                self.withdraw(now, file, &error);
                return Ok(true);
            }
        }
        self.flush_full(now)?;
        self.note_read(now, file, range.end);
        Ok(true)
    }

    /// Sends all that is gathered.
    pub(super) fn flush_gathered(&mut self, now: Instant) -> Result<(), SendError> {
        while self.lanes.gather.datagrams() > 0 {
            self.send_gathered(now)?;
        }
        Ok(())
    }

    /// The number of the first of so many packets that leave now for a group, the first one's behind what is gathered.
    pub(super) fn number_packets(&mut self, now: Instant, group: u8, packets: u64) -> Result<u32, SendError> {
        if group == 0 {
            self.flush_gathered(now)?;
        }
        Ok(self.take_numbers(now, group, packets)?)
    }

    /// Sends what fills super-packets.
    fn flush_full(&mut self, now: Instant) -> Result<(), SendError> {
        while self.lanes.gather.datagrams() > self.datagrams_a_run() {
            self.send_gathered(now)?;
        }
        Ok(())
    }

    fn send_gathered(&mut self, now: Instant) -> Result<(), SendError> {
        let count = self.lanes.gather.datagrams().min(self.datagrams_a_run());
        let number = self.take_numbers(now, 0, count as u64)?;
        let (datagram_len, datagrams) =
            (self.lanes.gather.datagram_len(), self.lanes.gather.take(count, number));
        let sent = self.lanes.group.send_gathered(now, datagram_len, &datagrams)?;
        self.lanes.runs += 1;
        self.note_multicast(now, sent);
        Ok(())
    }

    fn datagrams_a_run(&self) -> usize {
        (self.lanes.run_bytes / self.plan.packet_bytes()).max(1) as usize
    }
}
