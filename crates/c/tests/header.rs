//! `include/treecast.h` is what cbindgen makes of the sources.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(folder.join("src/error.rs"))
        .with_src(folder.join("src/options.rs"))
        .with_src(folder.join("src/group.rs"))
        .with_src(folder.join("src/receiver.rs"))
        .with_src(folder.join("src/discovery.rs"))
        .with_src(folder.join("src/standing.rs"))
        .generate()
        .unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let path = folder.join("include/treecast.h");
    let is_same = std::fs::read(&path).is_ok_and(|kept| kept == made);
    if !is_same && std::env::var_os("TREECAST_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
        return;
    }
    assert!(is_same, "{} is old: run this test once with TREECAST_BLESS=1", path.display());
}
