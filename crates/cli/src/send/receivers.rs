//! `--receivers`: addresses, or a file with an address a line.

use std::{net::IpAddr, path::Path};

use treecast_host::text;

/// The largest file that is read, in bytes. No list of receivers is longer.
const MAX_BYTES: u64 = 1 << 20;

/// The addresses that `text` names, in order.
pub(super) fn parse(text: &str) -> Result<Vec<IpAddr>, String> {
    let named: Result<Vec<IpAddr>, _> = text.split(',').map(|word| word.trim().parse()).collect();
    named.or_else(|_| read(Path::new(text)))
}

fn read(path: &Path) -> Result<Vec<IpAddr>, String> {
    let shown = path.display();
    let text = text::read_written(path, MAX_BYTES).map_err(|error| {
        format!(
            "cannot read receivers from {shown}: {error}; name addresses with commas between them, or a file with an address \
             a line"
        )
    })?;
    let mut addresses = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let address =
                line.parse().map_err(|_| format!("line {number} of {shown}: {line:?} is no address"))?;
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err(format!("there is no receiver in {shown}: name an address a line")),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_named_or_stand_in_a_file() {
        let addresses = |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(parse("fd00::1, fd00::2"), Ok(addresses(&["fd00::1", "fd00::2"])));
        let path = std::env::temp_dir().join(format!("treecast-receivers-{}", std::process::id()));
        let with = |text: &str| {
            std::fs::write(&path, text).unwrap();
            parse(path.to_str().unwrap())
        };
        assert_eq!(with("# all\n fd00::3 # one\n\n10.0.0.1\n"), Ok(addresses(&["fd00::3", "10.0.0.1"])));
        assert!(with("fd00::3\nhost\n").unwrap_err().contains("line 2"));
        assert!(with("#\n").unwrap_err().contains("no receiver"));
        assert!(with(&"fd00::1\n".repeat(1 << 17)).is_ok(), "as long as it may be");
        assert!(with(&"fd00::1\n".repeat((1 << 17) + 1)).unwrap_err().contains("it is longer than 1 MiB"));
        assert!(parse("/dev/zero").unwrap_err().contains("it is longer than 1 MiB"));
        std::fs::remove_file(&path).unwrap();
        assert!(parse("fd00::1,host").unwrap_err().contains("fd00::1,host"));
    }
}
