//! Receives packets and hands them to the account.

use std::{io, net::UdpSocket, time::Duration};

use treecast_host::{
    clock,
    messages::{MAX_RECEIVED, Scatter},
    option,
    poller::Poller,
    stop::Stop,
};

use crate::{
    account::{Account, Rules, Times},
    clock_watch::ClockWatch,
    packet::OWN_LEN,
    report::ReceiverReport,
};

const SOCKET: u64 = 0;
const STOP: u64 = 1;

/// The longest time between two looks at the clock.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A socket in the group, and the counts of what it hears.
pub struct Receiver {
    socket: UdpSocket,
    account: Account,
    scatter: Scatter,
    /// Room for the beginnings of the packets of one call.
    buffers: Vec<[u8; OWN_LEN]>,
    /// The drop counter of the last packet that had one.
    dropped: u32,
}

impl Receiver {
    pub fn new(socket: UdpSocket, rules: Rules) -> Self {
        let buffers = vec![[0; OWN_LEN]; MAX_RECEIVED];
        Self { socket, account: Account::new(rules), scatter: Scatter::default(), buffers, dropped: 0 }
    }

    /// Receives until `end` (monotonic clock; `None`: for ever) or until it is stopped. Lines about invalid packets go to `tell`.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn listen(
        &mut self,
        end: impl Fn() -> Option<Duration>,
        watch: &mut ClockWatch,
        stop: &Stop,
        tell: &mut dyn FnMut(&str),
    ) -> io::Result<()> {
        let mut poller = Poller::new()?;
        poller.watch(&self.socket, SOCKET)?;
        poller.watch(stop, STOP)?;
        while !stop.is_requested() {
            watch.look();
            let now = clock::monotonic();
            let left = end().map_or(LOOK_EVERY, |end| end.saturating_sub(now)).min(LOOK_EVERY);
            if left.is_zero() {
                break;
            }
            if poller.tokens(Some(left))?.contains(&SOCKET) {
                self.take_arrived()?;
            }
            while let Some(line) = self.account.next_line() {
                tell(&line);
            }
        }
        Ok(())
    }

    /// The counts until now.
    pub fn report(&self) -> ReceiverReport {
        // Before Linux 4.12 only the packets themselves tell.
        let dropped = option::dropped(&self.socket).unwrap_or(0).max(self.dropped);
        self.account.report(clock::monotonic(), dropped.into())
    }

    /// Takes the packets of a few calls, and not more, so that the clock is looked at while packets keep coming.
    fn take_arrived(&mut self) -> io::Result<()> {
        const CALLS: usize = 64;
        for _ in 0..CALLS {
            match self.take_batch() {
                Ok(MAX_RECEIVED) => {}
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take_batch(&mut self) -> io::Result<usize> {
        let Self { socket, account, scatter, buffers, dropped } = self;
        let mut arrived = [None; MAX_RECEIVED];
        let parts = buffers.iter_mut().map(|buffer| &mut buffer[..]);
        let count =
            scatter.receive_many_from(socket, parts, |index, received| arrived[index] = Some(received))?;
        let (steady, now) = (clock::monotonic(), clock::since_1970());
        for (buffer, received) in buffers.iter().zip(arrived.iter().flatten()) {
            let at = received.ancillary.arrived.unwrap_or(now);
            // The kernel tells arrivals by the clock that may jump.
            let times = Times { steady: steady.saturating_sub(now.saturating_sub(at)), clock: at };
            *dropped = received.ancillary.dropped.unwrap_or(*dropped);
            if let Some(from) = received.from {
                account.take(&buffer[..received.len.min(OWN_LEN)], received.len, from, times);
            }
        }
        Ok(count)
    }
}
