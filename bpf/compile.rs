//! For the build scripts of the crates that load programs: compiles one with clang.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `bpf/NAME.bpf.c` to `NAME.bpf.o` in `OUT_DIR`. `purpose` is what needs it, for who has no clang.
pub fn compile(name: &str, purpose: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let source = folder.join(format!("{name}.bpf.c"));
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-env-changed=CLANG");
    if let Err(error) = run_clang(&source, &format!("{name}.bpf.o"), purpose) {
        println!("cargo::error={error}");
    }
}

/// `-g` also makes the type information by which maps are described.
fn run_clang(source: &Path, object: &str, purpose: &str) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let object = PathBuf::from(std::env::var("OUT_DIR").map_err(|error| error.to_string())?).join(object);
    // The kernel's own headers are in a folder named after this machine on Debian. They are alike for those that we build for.
    let host = std::env::var("HOST").unwrap_or_default();
    let machine = host.split('-').next().unwrap_or_default();
    let mut command = Command::new(&clang);
    command.args(["-target", "bpf", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-idirafter").arg(format!("/usr/include/{machine}-linux-gnu"));
    command.arg("-c").arg(source).arg("-o").arg(&object);
    let ended = command.status().map_err(|error| {
        format!(
            "{clang} cannot be started ({error}), but {purpose} needs it: apt install clang, or set CLANG"
        )
    })?;
    let failed =
        || format!("{clang} could not compile {}: apt install clang linux-libc-dev", source.display());
    ended.success().then_some(()).ok_or_else(failed)
}
