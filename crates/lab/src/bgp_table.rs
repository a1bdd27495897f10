//! The BGP table of a router's bgpd.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{Error, Result};
use crate::frr;
use crate::lab::Lab;

/// The routes to one prefix in a router's BGP table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BgpRoutes {
    /// The prefix as bgpd writes it, such as `2001:db8:4000::/36`.
    pub prefix: String,
    /// The number of routes to it, one a neighbour at most.
    pub routes: usize,
}

impl Lab {
    /// The folder with the sockets of a router's frr daemons, for `vtysh --vty_socket`.
    pub fn frr_folder(&self, router: &str) -> PathBuf {
        frr::folder(&self.state_directory().join(self.name()), router)
    }

    /// The IPv6 table of a router's bgpd, in the order of prefixes.
    ///
    /// # Errors
    /// If the router runs no bgpd.
    pub fn bgp_table(&self, router: &str) -> Result<Vec<BgpRoutes>> {
        self.node(router)?;
        let mut command = Command::new("vtysh");
        command.arg("--vty_socket").arg(self.frr_folder(router));
        command.args(["-d", "bgpd", "-c", "show bgp ipv6 unicast json"]);
        let mut ask = || -> io::Result<Vec<BgpRoutes>> {
            let output = command.output()?;
            if !output.status.success() {
                return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
            }
            parse(&output.stdout).ok_or_else(|| io::Error::other("its answer is no table"))
        };
        ask().map_err(Error::system(format!("read the BGP table of {router}")))
    }
}

/// Reads the table as JSON.
fn parse(text: &[u8]) -> Option<Vec<BgpRoutes>> {
    let answer: serde_json::Value = serde_json::from_slice(text).ok()?;
    let routes = answer.get("routes")?.as_object()?;
    let of = |(prefix, routes): (&String, &serde_json::Value)| {
        Some(BgpRoutes { prefix: prefix.clone(), routes: routes.as_array()?.len() })
    };
    routes.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_number_of_routes_to_each_prefix() {
        let text = br#"{"vrfId":0,"routes":{"2001:db8:4000::/36":[{"valid":true},{"valid":true}],"2001:db8:8000::/36":[{}]}}"#;
        let table = parse(text).unwrap();
        let told: Vec<(&str, usize)> = table.iter().map(|of| (of.prefix.as_str(), of.routes)).collect();
        assert_eq!(told, [("2001:db8:4000::/36", 2), ("2001:db8:8000::/36", 1)]);
        assert!(parse(b"% BGP is not running").is_none());
    }
}
