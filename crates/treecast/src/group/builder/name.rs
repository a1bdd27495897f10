//! The name under which a session is announced.

use std::path::PathBuf;

use treecast_wire::announcement::MAX_NAME_LEN;

use crate::{
    Error, ErrorKind,
    unstable::reason::{Advised, Remedy},
};

/// The name that was given, or if it is empty, that of the first file or folder.
///
/// # Errors
/// If it is too long or holds control characters.
pub(super) fn announced(given: &str, paths: &[PathBuf]) -> Result<String, Error> {
    if given.len() > MAX_NAME_LEN || given.chars().any(char::is_control) {
        let line = format!(
            "the session cannot be announced as {given:?}: expected a name of at most {MAX_NAME_LEN} bytes without control characters"
        );
        return Err(Error::new(ErrorKind::Options, Advised::by(Remedy::OtherName, line)));
    }
    if !given.is_empty() {
        return Ok(given.to_owned());
    }
    let first =
        paths.first().and_then(|path| path.canonicalize().ok()?.file_name().map(|name| name.to_owned()));
    let first = first.map_or_else(|| "feed".to_owned(), |name| name.to_string_lossy().into_owned());
    let mut name = String::new();
    for letter in first.chars().filter(|letter| !letter.is_control()) {
        if name.len() + letter.len_utf8() > MAX_NAME_LEN {
            break;
        }
        name.push(letter);
    }
    Ok(if name.is_empty() { "session".to_owned() } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_called_as_its_first_file_is_or_as_somebody_wants() {
        let name = |given, paths: &[PathBuf]| announced(given, paths).unwrap();
        assert_eq!(name("image", &["/".into()]), "image");
        assert_eq!(name("", &["/usr/bin/".into()]), "bin");
        assert_eq!(name("", &["/".into()]), "feed");
        assert_eq!(name("", &[]), "feed");
        assert!(announced(&"x".repeat(65), &[]).is_err() && announced("a\nb", &[]).is_err());
    }
}
