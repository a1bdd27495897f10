//! The kernel's notifications about interfaces, addresses and routes.

use std::{
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd},
};

use rustix::net::{bind, netlink::SocketAddrNetlink};
use socket2::Socket;

use super::{BUFFER_LEN, messages, open};

/// The kinds of things that have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    pub interfaces: bool,
    pub routes: bool,
}

/// A socket that is notified of changes in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
}

impl Monitor {
    /// Opens a socket that is notified of changes from now on.
    pub fn open() -> io::Result<Self> {
        let socket = open(libc::NETLINK_ROUTE)?;
        let groups = libc::RTMGRP_LINK
            | libc::RTMGRP_IPV4_IFADDR
            | libc::RTMGRP_IPV6_IFADDR
            | libc::RTMGRP_IPV4_ROUTE
            | libc::RTMGRP_IPV6_ROUTE;
        bind(&socket, &SocketAddrNetlink::new(0, groups as u32))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// The changes since the last call. Everything counts as changed if notifications were lost for lack of
    /// room.
    pub fn changes(&self) -> io::Result<Changes> {
        let mut changes = Changes::default();
        let mut buffer = vec![0; BUFFER_LEN];
        loop {
            match (&self.socket).read(&mut buffer) {
                Ok(len) => messages(&buffer[..len]).for_each(|message| changes.add(message.kind)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(changes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    changes = Changes { interfaces: true, routes: true };
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Changes {
    fn add(&mut self, kind: u16) {
        match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                self.interfaces = true;
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => self.routes = true,
            _ => {}
        }
    }
}
