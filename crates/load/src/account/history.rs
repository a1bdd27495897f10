//! Notes which of the last packet numbers were received.

/// The number of packet numbers, up to the highest one, of which it is known whether they were received.
pub const HISTORY: u64 = 32_768;

const WORDS: usize = HISTORY as usize / 64;

/// The state of a packet number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    New,
    Received,
    /// The number is too far below the highest one to be remembered.
    Forgotten,
}

/// The last [`HISTORY`] packet numbers.
#[derive(Debug, Clone)]
pub struct History {
    /// One bit for each number, at the place `number % HISTORY`.
    bits: Box<[u64; WORDS]>,
    highest: u64,
    /// The lowest number that has not been handed out yet ([`History::advance`]).
    lowest: u64,
}

/// Consecutive packet numbers that leave the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    pub first: u64,
    pub last: u64,
    pub is_received: bool,
}

impl History {
    pub fn new() -> Self {
        Self { bits: Box::new([0; WORDS]), highest: 0, lowest: 1 }
    }

    /// Leaves out the numbers up to `last`, as if they had been handed out. Nothing was marked yet.
    pub fn begin_behind(&mut self, last: u64) {
        self.lowest = self.lowest.max(last + 1);
    }

    /// The highest number. 0: none yet.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    pub fn look(&self, number: u64) -> Known {
        match number {
            _ if number > self.highest => Known::New,
            _ if number < self.lowest => Known::Forgotten,
            _ if self.bit(number) => Known::Received,
            _ => Known::New,
        }
    }

    /// Marks a number, not above the highest one and not forgotten, as received.
    pub fn mark(&mut self, number: u64) {
        self.bits[place(number)] |= 1 << (number % 64);
    }

    /// Raises the highest number. The numbers that are forgotten thereby are handed to `leave`, in order.
    pub fn advance(&mut self, highest: u64, leave: &mut impl FnMut(Leaving)) {
        let end = highest.saturating_sub(HISTORY) + 1;
        self.forget(end, leave);
        for number in (self.highest + 1).max(end)..=highest {
            self.bits[place(number)] &= !(1 << (number % 64));
        }
        self.highest = highest;
    }

    /// Hands all numbers up to `last` that are still remembered to `leave`. Numbers above the highest one were not received.
    pub fn drain(mut self, last: u64, mut leave: impl FnMut(Leaving)) {
        self.forget(last.max(self.highest) + 1, &mut leave);
    }

    /// The number of received numbers above `number`.
    pub fn count_above(&self, number: u64) -> u64 {
        let mut count = 0;
        let mut at = number + 1;
        while at <= self.highest {
            // The rest of the word that `at` is in, up to the highest number.
            let last = (at | 63).min(self.highest);
            let mask = (u64::MAX << (at % 64)) & (u64::MAX >> (63 - last % 64));
            count += u64::from((self.bits[place(at)] & mask).count_ones());
            at = last + 1;
        }
        count
    }

    fn forget(&mut self, end: u64, leave: &mut impl FnMut(Leaving)) {
        while self.lowest < end.min(self.highest + 1) {
            let first = self.lowest;
            let is_received = self.bit(first);
            leave(Leaving { first, last: first, is_received });
            self.lowest += 1;
        }
        if self.lowest < end {
            leave(Leaving { first: self.lowest, last: end - 1, is_received: false });
            self.lowest = end;
        }
    }

    fn bit(&self, number: u64) -> bool {
        self.bits[place(number)] >> (number % 64) & 1 == 1
    }
}

fn place(number: u64) -> usize {
    (number / 64) as usize % WORDS
}
