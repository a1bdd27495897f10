//! The words by which a person names a topology.

use std::path::Path;

use super::{
    Topology,
    error::SpecError,
    file,
    generate::{self, Keys},
    interdomain, testbed,
};
use treecast_host::text;

/// See [`Topology::parse`].
pub(super) fn parse(spec: &str) -> Result<Topology, SpecError> {
    match spec.split_once(':') {
        Some(("lan", keys)) => generate::lan(&Keys::parse(spec, keys)?),
        Some(("tree", keys)) => generate::tree(&Keys::parse(spec, keys)?),
        Some(("shared", keys)) => generate::shared(&Keys::parse(spec, keys)?),
        Some(("switches", keys)) => generate::switches(&Keys::parse(spec, keys)?),
        Some(("interdomain", keys)) => interdomain::parse(&Keys::parse(spec, keys)?),
        Some(("testbed", path)) => testbed::parse(&read(path)?, path),
        None if spec == "testbed" => testbed::parse(testbed::OF_THESIS, "testbed.json"),
        _ => file::parse(&read(spec)?, spec),
    }
}

fn read(path: &str) -> Result<String, SpecError> {
    const MAX_BYTES: u64 = 4 << 20;
    let explain = |error: std::io::Error| {
        let hint = "give a TOML file, lan:clients=N, tree:levels=R,clients=L, shared:clients=N, switches:clients=N+N, interdomain:stubs=N, testbed or testbed:FILE";
        SpecError::new(path, None, format!("cannot be read as a topology ({error}): {hint}"))
    };
    text::read(Path::new(path), MAX_BYTES).map_err(explain)
}
