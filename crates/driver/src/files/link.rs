//! Symbolic links in a set: the check which of them may be sent.

/// The longest target in bytes: what Linux takes (PATH_MAX, with its zero byte).
pub(super) const MAX_LINK_LEN: u64 = 4095;

/// Whether a link of this name in a session may point to `target`: a relative path that stays in the folder that was
/// sent, the first component of `name`; or, if that is all of `name`, in the folder where names begin. Parent folders may stand at its beginning only. Behind a name, `..` leads to
/// wherever that name points, should it be a link itself; without it every step of a link leads to a place in the set.
///
/// # Errors
/// The fault of the link, in words.
pub(super) fn check_link(name: &str, target: &[u8]) -> Result<(), &'static str> {
    if target.is_empty() || target.len() as u64 > MAX_LINK_LEN || target.contains(&0) {
        return Err("it is no path");
    }
    if target.starts_with(b"/") {
        return Err("it is absolute");
    }
    let above = name.split('/').count() - 1;
    let (mut ups, mut has_name) = (0, false);
    for component in target.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if has_name => return Err("it leads up again behind a name"),
            b".." => ups += 1,
            _ => has_name = true,
        }
    }
    // A set without a folder of its own ends where its names begin.
    if ups >= above.max(1) { Err("it leads out of the folder that was sent") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_in_the_set_is_carried() {
        for (name, target) in [
            ("set/link", "file"),
            ("set/link", "."),
            ("set/link", "sub//deep/"),
            ("set/sub/link", "../file"),
            ("set/a/b/link", "./.././../x/..y"),
            ("link", "file"),
        ] {
            assert_eq!(check_link(name, target.as_bytes()), Ok(()), "{name} {target}");
        }
        for (name, target) in [
            ("set/link", "/etc/passwd"),
            ("set/link", ".."),
            ("set/link", "../other"),
            ("set/sub/link", "../../other"),
            ("set/sub/link", "a/../b"),
            ("link", "../file"),
            ("set/link", ""),
            ("set/link", "a\0b"),
        ] {
            assert!(check_link(name, target.as_bytes()).is_err(), "{name} {target}");
        }
        assert!(check_link("set/link", &[b'x'; 4096]).is_err());
    }
}
