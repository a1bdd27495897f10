#!/bin/sh
# Builds treecast for a kind of machine, with musl and without libraries: scripts/musl.sh x86_64|aarch64
# Needs what `scripts/setup.sh package` installs. Whatever this machine is, clang compiles and Rust's own lld links.
set -eu

machine=$1
cd "$(dirname "$0")/.."
headers=$(pwd)/target/musl/$machine/usr/include
[ -d "$headers" ] || { echo "musl.sh: no $headers: run scripts/setup.sh package" >&2; exit 1; }

flags="--target=$machine-linux-musl -nostdlibinc -isystem $headers/$machine-linux-musl -isystem $headers/$machine-linux-gnu -isystem $headers"
# Atomic operations that choose their instructions at run time are functions of a library that is not linked.
[ "$machine" != aarch64 ] || flags="$flags -mno-outline-atomics"

triple=$(echo "$machine" | tr a-z A-Z)_UNKNOWN_LINUX_MUSL
export "CC_${machine}_unknown_linux_musl=clang" "AR_${machine}_unknown_linux_musl=llvm-ar" "CFLAGS_${machine}_unknown_linux_musl=$flags"
export "CARGO_TARGET_${triple}_LINKER=rust-lld" "CARGO_TARGET_${triple}_RUSTFLAGS=-Clink-self-contained=yes"
exec cargo build --release --locked -p treecast-cli --target "$machine-unknown-linux-musl"
