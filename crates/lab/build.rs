//! Compiles the lab's eBPF programs with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    for file in ["loss.h", "loss.bpf.c"] {
        println!("cargo::rerun-if-changed={}", folder.join(file).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    if let Err(error) = compile(&folder.join("loss.bpf.c"), "loss.bpf.o") {
        println!("cargo::error={error}");
    }
}

/// `-g` also makes the type information by which the map is described.
fn compile(source: &Path, object: &str) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let object = PathBuf::from(std::env::var("OUT_DIR").map_err(|error| error.to_string())?).join(object);
    // The kernel's own headers are in a folder named after the machine on Debian.
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let mut command = Command::new(&clang);
    command.args(["-target", "bpf", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-idirafter").arg(format!("/usr/include/{machine}-linux-gnu"));
    command.arg("-c").arg(source).arg("-o").arg(&object);
    let ended = command.status().map_err(|error| {
        format!("{clang} cannot be started ({error}), but the lab's loss program needs it: apt install clang, or set CLANG")
    })?;
    let failed =
        || format!("{clang} could not compile {}: apt install clang linux-libc-dev", source.display());
    ended.success().then_some(()).ok_or_else(failed)
}
