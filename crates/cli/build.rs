//! Options of the linker for the program alone.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Addresses that the loader adjusts take 24 bytes each. Packed, they take a few bits. glibc 2.36 (Debian 12) reads the packed form.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
