//! Writes to stream sockets that raise no SIGPIPE.

use std::{
    io::{self, IoSlice, Write},
    os::fd::AsFd,
};

use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};

/// A stream socket whose writes fail with [`io::ErrorKind::BrokenPipe`] when the other side is gone, and raise no SIGPIPE.
///
/// The default action of SIGPIPE ends the process. The start of a Rust program ignores the signal, but a program of C that uses the
/// library has no such start. The standard library writes a single buffer with `MSG_NOSIGNAL`, but several buffers with `writev`,
/// which raises the signal.
#[derive(Debug)]
pub struct Quiet<S>(pub S);

impl<S: AsFd> Write for Quiet<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        /// The largest number of parts in one call, well below IOV_MAX.
        const MOST_PARTS: usize = 64;
        let parts = &parts[..parts.len().min(MOST_PARTS)];
        Ok(sendmsg(&self.0, parts, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Shutdown, TcpListener, TcpStream},
        os::unix::net::UnixStream,
        sync::atomic::{AtomicU32, Ordering},
    };

    use super::*;

    /// The number of SIGPIPE that have come.
    static CAME: AtomicU32 = AtomicU32::new(0);

    extern "C" fn count(_: libc::c_int) {
        CAME.fetch_add(1, Ordering::SeqCst);
    }

    fn broken(socket: impl AsFd) {
        let mut quiet = Quiet(socket);
        assert_eq!(quiet.write(b"one").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let parts = [IoSlice::new(b"one"), IoSlice::new(b"two")];
        assert_eq!(quiet.write_vectored(&parts).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_write_to_a_closed_stream_fails_and_raises_no_signal() {
        // SAFETY: the handler only counts.
        unsafe { libc::signal(libc::SIGPIPE, count as extern "C" fn(libc::c_int) as usize) };
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        broken(&near);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        broken(&stream);
        assert_eq!(CAME.load(Ordering::SeqCst), 0);
        // The same write without the flag raises it, so the handler works.
        assert!(rustix::io::write(&near, b"x").is_err());
        assert_eq!(CAME.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn several_parts_come_one_behind_the_other() {
        use std::io::Read;
        let (near, mut far) = UnixStream::pair().unwrap();
        let parts = [IoSlice::new(b"one "), IoSlice::new(b"two")];
        assert_eq!(Quiet(&near).write_vectored(&parts).unwrap(), 7);
        drop(near);
        let mut came = String::new();
        far.read_to_string(&mut came).unwrap();
        assert_eq!(came, "one two");
    }
}
