//! The hashes by which the IoT updater's frames identify their file.

use std::fmt;

/// The kind of hash that identifies a frame's file: 256 bits, without a key. A frame does not say which kind it
/// has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FrameHash {
    /// BLAKE2b-256, libsodium's `crypto_generichash`. The updater's own programs use it by default.
    #[default]
    Blake2b,
    Blake3,
}

impl FrameHash {
    pub fn hasher(self) -> FrameHasher {
        match self {
            Self::Blake2b => FrameHasher::Blake2b(Box::new(blake2b_256())),
            Self::Blake3 => FrameHasher::Blake3(Box::default()),
        }
    }
}

/// A hasher of either kind.
pub enum FrameHasher {
    Blake2b(Box<blake2b_simd::State>),
    Blake3(Box<blake3::Hasher>),
}

impl FrameHasher {
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake2b(state) => _ = state.update(bytes),
            Self::Blake3(hasher) => _ = hasher.update(bytes),
        }
    }

    pub fn finish(&self) -> [u8; 32] {
        match self {
            Self::Blake2b(state) => {
                let hash = state.finalize();
                hash.as_bytes().try_into().expect("it was asked for 32 bytes")
            }
            Self::Blake3(hasher) => *hasher.finalize().as_bytes(),
        }
    }
}

impl fmt::Debug for FrameHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrameHasher")
    }
}

fn blake2b_256() -> blake2b_simd::State {
    blake2b_simd::Params::new().hash_length(32).to_state()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected hash is that of libsodium's `crypto_generichash(hash, 32, "abc", 3, NULL, 0)`, of Python's
    /// `hashlib.blake2b`, and of b3sum.
    #[test]
    fn hashes_are_those_of_the_updaters_library() {
        let hash = |kind: FrameHash, text: &str| {
            let mut hasher = kind.hasher();
            text.as_bytes().iter().for_each(|byte| hasher.update(&[*byte]));
            data_encoding::HEXLOWER.encode(&hasher.finish())
        };
        for (kind, text, expected) in [
            (FrameHash::Blake2b, "", "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"),
            (FrameHash::Blake2b, "abc", "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"),
            (FrameHash::Blake3, "", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        ] {
            assert_eq!(hash(kind, text), expected, "{kind:?} of {text:?}");
        }
    }
}
