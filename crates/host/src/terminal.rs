//! Lines that somebody types at a terminal.

use std::{
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    time::Timespec,
};

/// Waits for at most this time for a line at a terminal. Returns whether one can be read. A program in the background never has one:
/// the kernel would stop it if it read.
pub fn has_line(terminal: &impl AsFd, time: Duration) -> bool {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let mut asked = [PollFd::new(terminal, PollFlags::IN)];
    let is_readable = poll(&mut asked, Some(&time)).is_ok_and(|ready| ready > 0);
    if is_readable && !is_in_foreground(terminal) {
        std::thread::sleep(Duration::from_nanos(time.tv_nsec as u64));
        return false;
    }
    is_readable
}

/// Whether this process is in the terminal's foreground, so that what is typed there is for it.
fn is_in_foreground(terminal: &impl AsFd) -> bool {
    // SAFETY: the descriptor is open, and both calls touch no memory of ours.
    unsafe { libc::tcgetpgrp(terminal.as_fd().as_raw_fd()) == libc::getpgrp() }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_is_no_terminal_of_this_process_has_no_line() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(!has_line(&reader, Duration::from_millis(1)));
        writer.write_all(b"\n").unwrap();
        assert!(!has_line(&reader, Duration::from_millis(1)), "it is no terminal");
    }
}
