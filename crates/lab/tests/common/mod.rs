//! Labs for tests.

// Each test program uses some of this.
#![allow(dead_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use treecast_lab::{Lab, Options, Topology};

/// A lab of this test alone, which is taken down when the test is over, however that ends.
pub struct TestLab {
    pub lab: Lab,
    pub options: Options,
}

impl TestLab {
    pub fn up(topology: &Topology, name: &str) -> Self {
        Self::with(topology, name, options(name))
    }

    pub fn with(topology: &Topology, name: &str, options: Options) -> Self {
        let name = format!("{name}{}", std::process::id());
        let lab = Lab::up(topology, &name, &options)
            .expect("these tests make namespaces: run them as root, behind scripts/setup.sh test");
        Self { lab, options }
    }

    pub fn parse(spec: &str, name: &str) -> Self {
        Self::up(&Topology::parse(spec).unwrap(), name)
    }

    /// Binds a socket in a node.
    pub fn socket(&self, node: &str, address: IpAddr) -> UdpSocket {
        self.lab.enter(node, || UdpSocket::bind((address, 4000))).unwrap().unwrap()
    }

    /// Sockets of `server0` and `client0`, and where the first one reaches the second.
    #[track_caller]
    pub fn pair(&self) -> (UdpSocket, UdpSocket, SocketAddr) {
        let address = self.v6("client0");
        let server = self.socket("server0", self.v6("server0").into());
        let client = self.socket("client0", address.into());
        assert!(reaches(&server, &client, (address, 4000).into(), 50));
        (server, client, (address, 4000).into())
    }

    pub fn v6(&self, node: &str) -> Ipv6Addr {
        self.lab.node(node).unwrap().v6().unwrap()
    }

    pub fn v4(&self, node: &str) -> Ipv4Addr {
        self.lab.node(node).unwrap().v4().unwrap()
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        let _ = Lab::remove(self.lab.name(), &self.options);
        let _ = std::fs::remove_dir_all(&self.options.state_directory);
    }
}

pub fn options(test: &str) -> Options {
    let folder = format!("treecast-lab-{test}-{}", std::process::id());
    Options { state_directory: std::env::temp_dir().join(folder), ..Options::default() }
}

/// Sends datagrams until one arrives; what is lost on the way is for the caller to say.
pub fn reaches(from: &UdpSocket, to: &UdpSocket, address: SocketAddr, tries: usize) -> bool {
    let mut buffer = [0; 64];
    // What an earlier question has left does not count.
    to.set_nonblocking(true).unwrap();
    while to.recv(&mut buffer).is_ok() {}
    to.set_nonblocking(false).unwrap();
    to.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut late = 0;
    let arrives = (0..tries).any(|_| {
        // A route that is not there, or a neighbour that does not answer, is an error here.
        let _ = from.send_to(b"are you there", address);
        let arrives = to.recv(&mut buffer).is_ok();
        late += usize::from(!arrives);
        arrives
    });
    // Nor does what was only late count for the next who listens.
    while late > 0 && to.recv(&mut buffer).is_ok() {
        late -= 1;
    }
    arrives
}
