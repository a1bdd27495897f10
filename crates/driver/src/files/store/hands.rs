//! The workers of the store: its thread, or another thread that would otherwise have to wait.

use std::{
    fmt,
    sync::{
        Mutex,
        mpsc::{Receiver, TryRecvError},
    },
};

use super::{Job, Worker};

/// The work, and what it is done with. Whoever holds it carries out the next job.
pub(super) struct Hands {
    pub worker: Worker,
    pub jobs: Receiver<Job>,
    pub buffer: Vec<u8>,
}

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hands")
    }
}

/// The result of [`Hands::step`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Worked,
    /// Nothing is to be done until the next job.
    Idle,
    /// No more jobs will come.
    Over,
}

impl Hands {
    /// Does one step: stores decoded blocks, or carries out the next job, hashes what is not hashed yet, or reads on in an older
    /// version.
    pub fn step(&mut self) -> Step {
        if self.worker.parts.take_decoded() {
            self.worker.parts.tell();
            return Step::Worked;
        }
        match self.jobs.try_recv() {
            Ok(job) => self.worker.carry_out(job, &mut self.buffer),
            Err(TryRecvError::Disconnected) => return Step::Over,
            Err(TryRecvError::Empty) if self.worker.parts.catch_up(&mut self.buffer) => {
                self.worker.parts.tell()
            }
            Err(TryRecvError::Empty) if self.worker.parts.seed_some(&mut self.buffer) => {
                self.worker.parts.tell()
            }
            Err(TryRecvError::Empty) if self.worker.parts.look_for_room() => self.worker.parts.tell(),
            Err(TryRecvError::Empty) => return Step::Idle,
        }
        Step::Worked
    }
}

/// The thread: carries out jobs whenever it is called.
pub(super) fn run(hands: &Mutex<Hands>, calls: &Receiver<()>) {
    while let Ok(mut held) = hands.lock() {
        match held.step() {
            Step::Worked => {}
            Step::Idle => {
                let next_look = held.worker.parts.full.until_next_look();
                drop(held);
                // Where nobody will call again, no jobs will come.
                _ = match next_look {
                    Some(time) => calls.recv_timeout(time).is_ok(),
                    None => calls.recv().is_ok(),
                };
            }
            Step::Over => return held.worker.finish(),
        }
    }
}
