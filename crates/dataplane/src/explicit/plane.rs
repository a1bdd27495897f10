//! The part of the router that forwards: the eBPF program, or the model in user space.

use std::os::fd::{AsFd, BorrowedFd};

use treecast_proto::explicit::mead::router::Router;

use super::{
    Config, Error, lease,
    program::Program,
    shared::{COUNTERS, Neighbour, NeighbourKey},
    user_space::UserSpace,
};
use treecast_host::interface::Interface;

/// Time, in nanoseconds, between two packets to a neighbour that go the kernel's own way, so that the kernel notices
/// when it has gone.
const REFRESH_NS: u64 = 10_000_000_000;

/// Requests answered before anything else is looked at.
const BATCH: usize = 256;

type Failure = Box<dyn std::error::Error>;

pub enum Plane {
    Program { program: Box<Program>, through_kernel: bool, as_filter: bool },
    UserSpace(Box<UserSpace>),
}

impl Plane {
    pub fn start(config: &Config, router: &Router) -> Result<Self, Error> {
        if config.user_space {
            let plane =
                UserSpace::start(router.clone()).map_err(|failure| Error::of_user_space(&*failure))?;
            return Ok(Self::UserSpace(Box::new(plane)));
        }
        let program = Program::load().map_err(|failure| Error::of_program(&*failure))?;
        let Config { through_kernel, as_filter, .. } = *config;
        Ok(Self::Program { program: Box::new(program), through_kernel, as_filter })
    }

    /// Tells the program that the daemon is running, so that it acts for the next while. In user space nothing
    /// acts without the daemon.
    pub fn live_on(&mut self) -> Result<(), Failure> {
        match self {
            Self::Program { program, .. } => program.act_until(lease::end_ns()),
            Self::UserSpace(_) => Ok(()),
        }
    }

    /// Sets the part that forwards to this router.
    pub fn configure(&mut self, router: &Router) -> Result<(), Failure> {
        match self {
            Self::Program { program, through_kernel, .. } => {
                program.configure(router, *through_kernel, REFRESH_NS)
            }
            Self::UserSpace(plane) => {
                plane.configure(router);
                Ok(())
            }
        }
    }

    pub fn attach(&mut self, interface: &Interface) -> Result<(), Failure> {
        match self {
            Self::Program { program, as_filter, .. } => {
                if let Some(mac) = interface.mac {
                    program.set_mac(interface.index, mac)?;
                }
                program.attach(interface, *as_filter)
            }
            Self::UserSpace(plane) => plane.attach(interface),
        }
    }

    /// Forgets an interface that has gone or is down. The program's filter stays or disappears with the
    /// interface.
    pub fn detach(&mut self, interface: u32) {
        if let Self::UserSpace(plane) = self {
            plane.detach(interface);
        }
    }

    /// Takes note that routes have changed. The program has nothing to forget, because it asks the kernel for
    /// each packet.
    pub fn forget_routes(&mut self) {
        if let Self::UserSpace(plane) = self {
            plane.forget_routes();
        }
    }

    /// Returns all counters, by their number in `bpf/mead.h`.
    pub fn counters(&self) -> Result<[u64; COUNTERS], Failure> {
        match self {
            Self::Program { program, .. } => program.counters(),
            Self::UserSpace(plane) => Ok(plane.counters()),
        }
    }

    /// Returns the neighbours to which copies went lately. In user space it returns none, because the kernel
    /// sends the copies.
    pub fn neighbours(&self) -> Vec<(NeighbourKey, Neighbour)> {
        match self {
            Self::Program { program, .. } => program.neighbours(),
            Self::UserSpace(_) => Vec::new(),
        }
    }

    /// Returns the next discovery requests, each from its IPv6 header on.
    pub fn requests(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        match self {
            Self::Program { program, .. } => {
                Ok(std::iter::from_fn(|| program.next_request()).take(BATCH).collect())
            }
            Self::UserSpace(plane) => {
                plane.work().map_err(Error::system("cannot take packets off an interface"))
            }
        }
    }
}

impl AsFd for Plane {
    /// Readable when there are requests, or, in user space, packets.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Program { program, .. } => program.requests_fd(),
            Self::UserSpace(plane) => plane.as_fd(),
        }
    }
}
