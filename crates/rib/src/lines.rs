//! The lines of a text whose length nobody vouches for.

use std::io::{self, BufRead, Read};

use super::fault::{Fault, Faults, is_damage};

/// The longest line, in bytes, that is read. Lines of registries and of relations are shorter than a tenth of it.
const MAX_LINE_BYTES: u64 = 4096;

/// Hands each line to `take`, without its end and the spaces around it. A line that is too long is counted in `faults`, and
/// passed over without being kept. A packed file that is damaged ends there, and is counted.
///
/// # Errors
/// If the file cannot be read, and whatever `take` fails with.
pub(super) fn each(
    mut file: impl BufRead,
    faults: &mut Faults,
    mut take: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        match next(&mut file, &mut line) {
            Ok(Length::None) => return Ok(()),
            Ok(Length::Right) => take(String::from_utf8_lossy(&line).trim())?,
            Ok(Length::TooLong) => faults.add(Fault::LineMalformed),
            Err(error) if is_damage(&error) => {
                faults.add(Fault::FileEnds);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

/// The length of a line that was read.
enum Length {
    /// The file is at its end.
    None,
    Right,
    TooLong,
}

fn next(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Length> {
    if file.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line)? == 0 {
        return Ok(Length::None);
    }
    if line.len() as u64 == MAX_LINE_BYTES && !line.ends_with(b"\n") {
        file.skip_until(b'\n')?;
        return Ok(Length::TooLong);
    }
    Ok(Length::Right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_never_ends_is_passed_over_and_takes_no_memory() {
        let endless = io::repeat(b'x').take(1 << 30);
        let text = io::Cursor::new("one\r\n").chain(endless).chain(&b"\n two \n\nthree"[..]);
        let (mut lines, mut faults) = (Vec::new(), Faults::default());
        each(io::BufReader::new(text), &mut faults, |line| {
            lines.push(line.to_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(lines, ["one", "two", "", "three"]);
        assert_eq!((faults.count(Fault::LineMalformed), faults.errors()), (1, 1));
    }
}
