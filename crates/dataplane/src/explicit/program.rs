//! The program of `bpf/mead.bpf.c` and its tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
    os::fd::{AsFd, BorrowedFd},
};

use aya::{
    Ebpf, EbpfLoader, include_bytes_aligned,
    maps::{
        Array, HashMap, MapData, PerCpuArray, RingBuf,
        lpm_trie::{Key, LpmTrie},
    },
    programs::{
        ProgramInfo, SchedClassifier, TcAttachType, TestRun, TestRunOptions,
        tc::{self, NlOptions, SchedClassifierLink, SchedClassifierLinkId, TcAttachOptions, TcHandle},
    },
};
use treecast_proto::explicit::mead::router::{Prefix, Router};

use super::{
    PRIORITY,
    left::{Left, NAME},
    shared::{
        COUNTERS, Config, GroupEntry, Lan, MAX_LANS, Mac, Neighbour, NeighbourKey, REQUEST_PACKET,
        dialect_number, mode_number, prefix_parts,
    },
};
use treecast_host::{
    interface::Interface,
    netlink::BpfFilter,
    tcx::{self, Place},
};

/// `bpf/mead.bpf.c`, compiled by the build script.
static PROGRAM: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/mead.bpf.o"));

type Failure = Box<dyn std::error::Error>;

/// The loaded program. It is detached from its interfaces when this value is dropped.
pub struct Program {
    objects: Ebpf,
    config: Array<MapData, Config>,
    acts_until: Array<MapData, u64>,
    own: HashMap<MapData, [u8; 16], u8>,
    counters: PerCpuArray<MapData, u64>,
    groups: HashMap<MapData, [u8; 16], GroupEntry>,
    allowed: LpmTrie<MapData, [u8; 16], u8>,
    /// Interfaces' Ethernet addresses, here and as the program knows them.
    macs: BTreeMap<u32, [u8; 6]>,
    known_macs: HashMap<MapData, u32, Mac>,
    neighbours: HashMap<MapData, NeighbourKey, Neighbour>,
    requests: RingBuf<MapData>,
    settings: Config,
    /// Attachments where the program is a filter of `tc`, by the name of the interface. Interfaces that are down are included.
    filters: BTreeMap<String, SchedClassifierLinkId>,
    /// Interfaces, by number, at which it stands before all filters, and not as one of them.
    before_filters: BTreeSet<u32>,
}

impl Program {
    /// Loads the program, switched off. It acts once it has been configured, for as long as [`Self::act_until`]
    /// says.
    pub fn load() -> Result<Self, Failure> {
        let mut objects = EbpfLoader::new().load(PROGRAM)?;
        let mut table = |name: &str| objects.take_map(name).ok_or_else(|| format!("it has no table {name}"));
        let config = Array::try_from(table("config")?)?;
        let acts_until = Array::try_from(table("acts_until")?)?;
        let own = HashMap::try_from(table("own")?)?;
        let counters = PerCpuArray::try_from(table("counters")?)?;
        let groups = HashMap::try_from(table("groups")?)?;
        let allowed = LpmTrie::try_from(table("allowed")?)?;
        let known_macs = HashMap::try_from(table("macs")?)?;
        let neighbours = HashMap::try_from(table("neighbours")?)?;
        let requests = RingBuf::try_from(table("requests")?)?;
        let (settings, filters, before_filters) = (Config::default(), BTreeMap::new(), BTreeSet::new());
        let macs = BTreeMap::new();
        let mut program = Self {
            objects,
            config,
            acts_until,
            own,
            counters,
            groups,
            allowed,
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

    /// Attaches the program to this interface, in place of one that a killed router has left there. It comes
    /// before all filters, unless it is to be a filter itself (after those of others) or the kernel is older
    /// than 6.6. Where it takes the very place of the other program, no packet passes between the two.
    pub fn attach(&mut self, interface: &Interface, as_filter: bool) -> Result<(), Failure> {
        let mut left = Left::at(interface);
        left.unblock(interface);
        if !as_filter && self.attach_first(interface, &mut left)? {
            return Ok(());
        }
        let _ = left.leave_first_place(interface);
        self.attach_filter(&interface.name, left.filter)
    }

    /// Attaches the program before all filters. Returns whether this kernel has such a place.
    fn attach_first(&mut self, interface: &Interface, left: &mut Left) -> Result<bool, Failure> {
        if left.before.is_none() {
            let _ = left.leave_filters(interface);
        }
        let before = left.before.as_ref().map(ProgramInfo::fd).transpose()?;
        let place = before.as_ref().map_or(Place::Last, |before| Place::InsteadOf(before.as_fd()));
        let is_there = tcx::attach(self.classifier()?.fd()?.as_fd(), interface.index, place)?;
        if is_there {
            self.before_filters.insert(interface.index);
        }
        Ok(is_there)
    }

    fn attach_filter(&mut self, name: &str, left: Option<BpfFilter>) -> Result<(), Failure> {
        let own = self.filters.remove(name);
        let program = self.classifier()?;
        // Its own, when the interface was down meanwhile.
        let before = match own {
            Some(own) => Some(program.take_link(own)?),
            None => left.and_then(|BpfFilter { priority, handle, .. }| {
                let handle = TcHandle::from(handle);
                SchedClassifierLink::attached(name, TcAttachType::Ingress, priority, handle, None).ok()
            }),
        };
        let replaced = before.and_then(|before| program.attach_to_link(before).ok());
        let filter = match replaced {
            Some(filter) => filter,
            // There was none, or it has gone with its interface.
            None => {
                // What hangs there already has a queue to hang at; if there is none, the filter says so.
                let _ = tc::qdisc_add_clsact(name);
                let options = NlOptions { priority: PRIORITY, ..NlOptions::default() };
                let options = TcAttachOptions::Netlink(options);
                program.attach_with_options(name, TcAttachType::Ingress, options)?
            }
        };
        self.filters.insert(name.to_owned(), filter);
        Ok(())
    }

    /// Sets the Ethernet address of this interface. Packets that the program sends to groups come from it, and
    /// a packet that came for a group goes to it where the kernel is to forward the packet. To be called before
    /// [`Self::configure`].
    pub fn set_mac(&mut self, interface: u32, mac: [u8; 6]) -> Result<(), Failure> {
        self.macs.insert(interface, mac);
        Ok(self.known_macs.insert(interface, Mac { octets: mac, unused: 0 }, 0)?)
    }

    fn classifier(&mut self) -> Result<&mut SchedClassifier, Failure> {
        Ok(self.objects.program_mut(NAME).ok_or("it has no function mead_router")?.try_into()?)
    }

    /// Sets the program to this router.
    pub fn configure(
        &mut self,
        router: &Router,
        through_kernel: bool,
        refresh_ns: u64,
    ) -> Result<(), Failure> {
        self.set_own(&router.own)?;
        self.set_groups(&router.groups)?;
        self.set_allowed(&router.guard.allowed)?;
        let settings = Config {
            mode: mode_number(router),
            min_dsts: router.min_dsts.into(),
            dialect: dialect_number(router.dialect),
            through_kernel: through_kernel.into(),
            refresh_ns,
            ..Config::default()
        };
        self.settings = settings.guarded(&router.guard);
        Ok(self.config.set(0, self.settings, 0)?)
    }

    /// Lets the program act until this time, in nanoseconds of CLOCK_MONOTONIC_COARSE.
    pub fn act_until(&mut self, end_ns: u64) -> Result<(), Failure> {
        Ok(self.acts_until.set(0, end_ns, 0)?)
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

    fn set_allowed(&mut self, allowed: &[Prefix]) -> Result<(), Failure> {
        let key = |(address, len): ([u8; 16], u32)| Key::new(len, address);
        let parts = |key: Key<[u8; 16]>| (key.data(), key.prefix_len());
        let before: BTreeSet<_> = self.allowed.keys().map(|key| key.map(parts)).collect::<Result<_, _>>()?;
        let wanted: BTreeSet<_> = allowed.iter().copied().map(prefix_parts).collect();
        for new in wanted.difference(&before) {
            self.allowed.insert(&key(*new), 1, 0)?;
        }
        for gone in before.difference(&wanted) {
            self.allowed.remove(&key(*gone))?;
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
            let mut entry = GroupEntry { count: 0, lans: [Lan::default(); MAX_LANS] };
            for (place, lan) in entry.lans.iter_mut().zip(interfaces.iter().filter_map(lan)) {
                *place = lan;
                entry.count += 1;
            }
            self.groups.insert(group.octets(), entry, 0)?;
        }
        Ok(())
    }

    /// Returns all counters, by their number in `bpf/mead.h`.
    pub fn counters(&self) -> Result<[u64; COUNTERS], Failure> {
        let mut sums = [0; COUNTERS];
        for (number, sum) in sums.iter_mut().enumerate() {
            *sum = self.counters.get(&(number as u32), 0)?.iter().sum();
        }
        Ok(sums)
    }

    /// Returns the interface and the address of each neighbour that copies went to lately, with counts of what
    /// it got.
    pub fn neighbours(&self) -> Vec<(NeighbourKey, Neighbour)> {
        self.neighbours.iter().filter_map(Result::ok).collect()
    }

    /// Returns the next discovery request, from its IPv6 header on.
    pub fn next_request(&mut self) -> Option<Vec<u8>> {
        let entry = self.requests.next()?;
        let len = u32::from_ne_bytes(*entry.get(4..)?.first_chunk()?) as usize;
        Some(entry.get(REQUEST_PACKET..REQUEST_PACKET + len)?.to_vec())
    }

    /// Returns the descriptor that becomes readable when there are discovery requests.
    pub fn requests_fd(&self) -> BorrowedFd<'_> {
        self.requests.as_fd()
    }

    /// Runs the program on one frame as if the frame had arrived at an interface. All copies but the last are
    /// really sent; the last one is returned, with the program's answer.
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
