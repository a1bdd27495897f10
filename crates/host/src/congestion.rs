//! The congestion control of TCP connections.

use std::{fs, io, net::TcpListener, os::fd::AsFd};

use socket2::SockRef;

/// Sets the congestion control of a connection, or of all connections that a listener accepts from now on. The kernel must have
/// it, or be able to load it.
///
/// # Errors
/// `NotFound` if the kernel does not have it; `PermissionDenied` if only root may use it.
pub fn set(socket: &impl AsFd, name: &str) -> io::Result<()> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes())
}

/// Whether the kernel has this congestion control.
///
/// # Errors
/// Any other error of the kernel.
pub fn is_available(name: &str) -> io::Result<bool> {
    let socket = TcpListener::bind("127.0.0.1:0")?;
    match set(&socket, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

/// The names of the congestion controls that the kernel has, such as `reno, bbr, cubic`. Empty if it does not tell.
pub fn available() -> String {
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    known.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_connection_follows_the_congestion_control_that_it_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // Every kernel has Reno's.
        set(&stream, "reno").unwrap();
        assert_eq!(set(&stream, "nobodys").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!((is_available("reno").unwrap(), is_available("nobodys").unwrap()), (true, false));
        assert!(available().contains("reno"), "{}", available());
    }
}
