#!/bin/sh
# Builds a program for a kind of machine, with musl and without libraries: scripts/musl.sh x86_64|aarch64 treecast|treecast-endpoint
# Prints the path of the program.
# Needs what `scripts/setup.sh package` installs. Whatever this machine is, clang compiles and Rust's own lld links.
set -eu

machine=$1 program=$2
case $program in
    treecast) profile=release features=suite flags= ;;
    # A panic ends this program at once, so it needs no tables for unwinding. Instructions that repeat become functions, and functions
    # that are alike become one.
    treecast-endpoint)
        profile=endpoint features=
        flags="-Cforce-unwind-tables=no -Clink-arg=--no-eh-frame-hdr -Clink-arg=-Tscripts/endpoint.ld -Clink-arg=--icf=all"
        flags="$flags -Cllvm-args=-enable-machine-outliner=always -Cllvm-args=-machine-outliner-reruns=2"
        ;;
    *) echo "musl.sh: unknown program '$program': expected treecast or treecast-endpoint" >&2; exit 1 ;;
esac
cd "$(dirname "$0")/.."
headers=$(pwd)/target/musl/$machine/usr/include
[ -d "$headers" ] || { echo "musl.sh: no $headers: run scripts/setup.sh package" >&2; exit 1; }

c_flags="--target=$machine-linux-musl -nostdlibinc -isystem $headers/$machine-linux-musl -isystem $headers/$machine-linux-gnu -isystem $headers"
# Atomic operations that choose their instructions at run time are functions of a library that is not linked.
[ "$machine" != aarch64 ] || c_flags="$c_flags -mno-outline-atomics"

triple=$(echo "$machine" | tr a-z A-Z)_UNKNOWN_LINUX_MUSL
export "CC_${machine}_unknown_linux_musl=clang" "AR_${machine}_unknown_linux_musl=llvm-ar" "CFLAGS_${machine}_unknown_linux_musl=$c_flags"
export "CARGO_TARGET_${triple}_LINKER=rust-lld"
export "CARGO_TARGET_${triple}_RUSTFLAGS=-Clink-self-contained=yes -Clink-arg=-zpack-relative-relocs $flags"
cargo build --profile "$profile" --locked -p treecast-cli --no-default-features --features "$features" --target "$machine-unknown-linux-musl"
built=target/$machine-unknown-linux-musl/$profile
[ "$program" = treecast ] || ln -f "$built/treecast" "$built/$program"
echo "$built/$program"
