//! Keeps the kernel from forwarding MEADcast and Xcast itself, when this router forwards them in user space.
//! This needs no right to load eBPF.
//!
//! Where the kernel has nftables (from 5.12 on), a table drops such packets. The kernel removes the table when
//! this process ends, however it ends. On older kernels a filter of classic BPF on each interface does it. A
//! process that is killed leaves this filter behind: the next router removes it, and until then it drops the
//! packets that arrive there.

use std::{collections::BTreeSet, process::Command};

use super::PRIORITY;
use treecast_host::nftables::Table;
use treecast_wire::mead::ROUTING_TYPES;

/// Drops IPv6 (ethertype at 12) with a routing header (next header at 20) of type 253 or 254 (at 56).
const FILTER: &str =
    "9,40 0 0 12,21 0 6 34525,48 0 0 20,21 0 4 43,48 0 0 56,21 1 0 253,21 0 1 254,6 0 0 2,6 0 0 4294967295";

type Failure = Box<dyn std::error::Error>;

pub struct Blocking {
    table: Option<Table>,
    /// Interfaces with a filter.
    filtered: BTreeSet<String>,
}

impl Blocking {
    /// Creates a blocking that blocks nothing yet.
    pub fn new() -> Self {
        let table = Table::open(format!("treecast-router-{}", std::process::id())).ok();
        Self { table, filtered: BTreeSet::new() }
    }

    /// Blocks packets of MEADcast and Xcast that arrive at this interface.
    pub fn block(&mut self, interface: &str) -> Result<(), Failure> {
        self.unblock(interface);
        remove_filter(interface);
        let types = ROUTING_TYPES[0]..=ROUTING_TYPES[1];
        if self.table.as_mut().is_some_and(|table| table.block(interface, types.clone()).is_ok()) {
            return Ok(());
        }
        // There may be one already.
        let _ = tc(&["qdisc", "add", "dev", interface, "clsact"]);
        let priority = PRIORITY.to_string();
        let filter = ["filter", "add", "dev", interface, "ingress", "prio", &priority, "protocol", "all"];
        tc(&[&filter[..], &["bpf", "direct-action", "bytecode", FILTER]].concat())?;
        self.filtered.insert(interface.to_owned());
        Ok(())
    }

    pub fn unblock(&mut self, interface: &str) {
        if self.filtered.remove(interface) {
            remove_filter(interface);
        } else if let Some(table) = &mut self.table {
            // It is not there, or has gone with its interface.
            let _ = table.unblock(interface);
        }
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        self.filtered.iter().for_each(|interface| remove_filter(interface));
    }
}

/// Removes a router's filter from an interface, even the filter of a router that was killed.
pub fn remove_filter(interface: &str) {
    // Mostly there is none.
    let _ = tc(&["filter", "del", "dev", interface, "ingress", "prio", &PRIORITY.to_string()]);
}

fn tc(arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new("tc")
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run tc of iproute2 ({error}): apt install iproute2"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("tc: {}", String::from_utf8_lossy(&output.stderr).trim()).into()),
    }
}
