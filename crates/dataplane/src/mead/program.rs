//! The program of `bpf/mead.bpf.c` and its tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
    os::fd::{AsFd, AsRawFd, RawFd},
};

use aya::{
    Ebpf, EbpfLoader, include_bytes_aligned,
    maps::{Array, HashMap, MapData, PerCpuArray, RingBuf},
    programs::{
        ProgramFd, SchedClassifier, TcAttachType, TestRun, TestRunOptions,
        tc::{self, NlOptions, SchedClassifierLinkId, TcAttachOptions},
    },
};
use treecast_proto::mead::router::Router;

use super::{
    PRIORITY,
    blocking::remove_filter,
    shared::{
        COUNTERS, Config, Group, Lan, MAX_LANS, Mac, Neighbour, NeighbourKey, REQUEST_PACKET, dialect_number,
    },
};
use crate::{
    netlink::Interface,
    tcx::{self, Place},
};

/// `bpf/mead.bpf.c`, compiled by the build script.
static PROGRAM: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/mead.bpf.o"));

const NAME: &str = "mead_router";

type Failure = Box<dyn std::error::Error>;

/// The program, loaded. It leaves its interfaces with this.
pub struct Program {
    objects: Ebpf,
    config: Array<MapData, Config>,
    own: HashMap<MapData, [u8; 16], u8>,
    counters: PerCpuArray<MapData, u64>,
    groups: HashMap<MapData, [u8; 16], Group>,
    /// Interfaces' Ethernet addresses, here and as the program knows them.
    macs: BTreeMap<u32, [u8; 6]>,
    known_macs: HashMap<MapData, u32, Mac>,
    neighbours: HashMap<MapData, NeighbourKey, Neighbour>,
    requests: RingBuf<MapData>,
    settings: Config,
    /// By interface, also of those that are down: where it is a filter.
    filters: BTreeMap<String, SchedClassifierLinkId>,
    /// Interfaces, by number, at which it stands before all filters, and not as one of them.
    before_filters: BTreeSet<u32>,
}

impl Program {
    /// Loads it, switched off.
    pub fn load() -> Result<Self, Failure> {
        let mut objects = EbpfLoader::new().load(PROGRAM)?;
        let mut table = |name: &str| objects.take_map(name).ok_or_else(|| format!("it has no table {name}"));
        let config = Array::try_from(table("config")?)?;
        let own = HashMap::try_from(table("own")?)?;
        let counters = PerCpuArray::try_from(table("counters")?)?;
        let groups = HashMap::try_from(table("groups")?)?;
        let known_macs = HashMap::try_from(table("macs")?)?;
        let neighbours = HashMap::try_from(table("neighbours")?)?;
        let requests = RingBuf::try_from(table("requests")?)?;
        let (settings, filters, before_filters) = (Config::default(), BTreeMap::new(), BTreeSet::new());
        let macs = BTreeMap::new();
        let mut program = Self {
            objects,
            config,
            own,
            counters,
            groups,
            macs,
            known_macs,
            neighbours,
            requests,
            settings,
            filters,
            before_filters,
        };
        program.classifier()?.load()?;
        Ok(program)
    }

    /// Has it look at what comes in by this interface, in place of one that a router which was killed has left there: before
    /// all filters, unless it is to be one, behind those of others, or the kernel is older than 6.6.
    pub fn attach(&mut self, interface: &Interface, as_filter: bool) -> Result<(), Failure> {
        let name = &interface.name;
        let _ = tc::qdisc_detach_program(name, TcAttachType::Ingress, NAME);
        remove_filter(name);
        let left = left_at(interface);
        if !as_filter {
            let place = left.as_ref().map_or(Place::Last, |left| Place::InsteadOf(left.as_fd()));
            if tcx::attach(self.classifier()?.fd()?.as_fd(), interface.index, place)? {
                self.before_filters.insert(interface.index);
                return Ok(());
            }
        }
        // What hangs there already has a queue to hang at; if there is none, the filter says so.
        let _ = tc::qdisc_add_clsact(name);
        if let Some(before) = self.filters.remove(name) {
            // It went with its interface, or just now; only the library still counts it.
            let _ = self.classifier()?.detach(before);
        }
        let options = TcAttachOptions::Netlink(NlOptions { priority: PRIORITY, ..NlOptions::default() });
        let filter = self.classifier()?.attach_with_options(name, TcAttachType::Ingress, options)?;
        self.filters.insert(name.clone(), filter);
        if let Some(left) = left {
            let _ = tcx::detach(left.as_fd(), interface.index);
        }
        Ok(())
    }

    /// What it sends to groups by this interface comes from this address, and what came for a group goes to it where the
    /// kernel is to forward it. To be told before [`Self::configure`].
    pub fn set_mac(&mut self, interface: u32, mac: [u8; 6]) -> Result<(), Failure> {
        self.macs.insert(interface, mac);
        Ok(self.known_macs.insert(interface, Mac { octets: mac, unused: 0 }, 0)?)
    }

    fn classifier(&mut self) -> Result<&mut SchedClassifier, Failure> {
        Ok(self.objects.program_mut(NAME).ok_or("it has no function mead_router")?.try_into()?)
    }

    /// Has it act like this router from now on.
    pub fn configure(
        &mut self,
        router: &Router,
        through_kernel: bool,
        refresh_ns: u64,
    ) -> Result<(), Failure> {
        self.set_own(&router.own)?;
        self.set_groups(&router.groups)?;
        self.settings = Config {
            is_enabled: router.is_enabled.into(),
            min_dsts: router.min_dsts.into(),
            dialect: dialect_number(router.dialect),
            through_kernel: through_kernel.into(),
            refresh_ns,
        };
        Ok(self.config.set(0, self.settings, 0)?)
    }

    fn set_own(&mut self, own: &BTreeSet<Ipv6Addr>) -> Result<(), Failure> {
        let before: BTreeSet<Ipv6Addr> =
            self.own.keys().map(|key| key.map(Ipv6Addr::from)).collect::<Result<_, _>>()?;
        for new in own.difference(&before) {
            self.own.insert(new.octets(), 1, 0)?;
        }
        for gone in before.difference(own) {
            self.own.remove(&gone.octets())?;
        }
        Ok(())
    }

    fn set_groups(&mut self, groups: &BTreeMap<Ipv6Addr, BTreeSet<u32>>) -> Result<(), Failure> {
        let before = self.groups.keys().map(|key| key.map(Ipv6Addr::from)).collect::<Result<Vec<_>, _>>()?;
        for gone in before.into_iter().filter(|group| !groups.contains_key(group)) {
            self.groups.remove(&gone.octets())?;
        }
        for (group, interfaces) in groups {
            let lan = |interface: &u32| {
                let mac = self.macs.get(interface)?;
                Some(Lan { interface: *interface, mac: *mac, unused: 0 })
            };
            let mut entry = Group { count: 0, lans: [Lan::default(); MAX_LANS] };
            for (place, lan) in entry.lans.iter_mut().zip(interfaces.iter().filter_map(lan)) {
                *place = lan;
                entry.count += 1;
            }
            self.groups.insert(group.octets(), entry, 0)?;
        }
        Ok(())
    }

    /// All counters, by their number in `bpf/mead.h`.
    pub fn counters(&self) -> Result<[u64; COUNTERS], Failure> {
        let mut sums = [0; COUNTERS];
        for (number, sum) in sums.iter_mut().enumerate() {
            *sum = self.counters.get(&(number as u32), 0)?.iter().sum();
        }
        Ok(sums)
    }

    /// Interface and address of each neighbour that copies went to lately, with what it got.
    pub fn neighbours(&self) -> Vec<(NeighbourKey, Neighbour)> {
        self.neighbours.iter().filter_map(Result::ok).collect()
    }

    /// The next discovery request, from its IPv6 header on.
    pub fn next_request(&mut self) -> Option<Vec<u8>> {
        let entry = self.requests.next()?;
        let len = u32::from_ne_bytes(*entry.get(4..)?.first_chunk()?) as usize;
        Some(entry.get(REQUEST_PACKET..REQUEST_PACKET + len)?.to_vec())
    }

    /// Readable when there are requests.
    pub fn requests_fd(&self) -> RawFd {
        self.requests.as_raw_fd()
    }

    /// Runs it on one frame as if that had come in by an interface. The redirects of all copies but the last are carried
    /// out; the last one is what is returned, with the program's answer.
    pub fn test(&mut self, interface: u32, frame: &[u8]) -> Result<(i32, Vec<u8>), Failure> {
        // struct __sk_buff, of which only the interface (the eleventh word) is set.
        let mut context = [0_u8; 192];
        context[40..44].copy_from_slice(&interface.to_ne_bytes());
        let mut out = vec![0; frame.len() + 64];
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ctx_in: Some(&context),
            ..TestRunOptions::new()
        };
        let result = self.classifier()?.test_run(options)?;
        out.truncate(result.data_size_out as usize);
        Ok((result.return_value as i32, out))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let interfaces = std::mem::take(&mut self.before_filters);
        let Ok(program) = self.classifier().and_then(|program| Ok(program.fd()?.try_clone()?)) else {
            return;
        };
        for interface in interfaces {
            // It may have gone with its interface.
            let _ = tcx::detach(program.as_fd(), interface);
        }
    }
}

/// The program that a router has left before an interface's filters, or still has there.
pub fn left_at(interface: &Interface) -> Option<ProgramFd> {
    let (_, programs) = SchedClassifier::query_tcx(&interface.name, TcAttachType::Ingress).ok()?;
    programs.into_iter().find(|program| program.name_as_str() == Some(NAME))?.fd().ok()
}
