//! What tests send, and where they put it.

pub fn scratch(name: &str) -> tempfile::TempDir {
    tempfile::Builder::new().prefix(&format!("treecast-library-{name}-")).tempdir().unwrap()
}

pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let step = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(len).collect()
}
