#!/bin/sh
# Installs what is missing to build and run treecast: Debian packages by apt, Rust by rustup where
# there is none (or one that is too old). Says what it does; does nothing when all is there.
# Usage: scripts/setup.sh [bench|endpoint|fuzz|initramfs|lint|package|style|test]...   extra tools for the make targets of these names
# MACHINE is the kind of machine that `endpoint` is for [default: this one's].
set -eu

RUST_NEEDED=1.88
LOCK_SECONDS=5
LOCK_TRIES=120

die() { echo "treecast: $*" >&2; exit 1; }
# why FILE: the last line of a log that says what went wrong, else its last line.
why() { { grep -E '^(E:|error|curl:)' "$1" || cat "$1"; } | tail -n 1; }

# apt_get LOG ARGUMENT...: runs apt-get. Another process that holds one of its locks, such as the system's own upgrade, is waited
# for; apt itself waits for dpkg's lock only, and not for that of its lists.
apt_get() {
    apt_log=$1
    shift
    tries=0
    until LC_ALL=C apt-get "$@" >"$apt_log" 2>&1; do
        grep -q -E '^E: (Could not get lock|Unable to (lock|acquire))' "$apt_log" || return 1
        holder=$(grep -o -E 'held by process [0-9]+ \(.*\)' "$apt_log" | head -n 1)
        [ $tries -gt 0 ] || echo "treecast: another apt or dpkg is at work${holder:+ (its lock is $holder)}: waiting for it"
        tries=$((tries + 1))
        [ $tries -lt $LOCK_TRIES ] ||
            die "another apt or dpkg is still at work after $((LOCK_TRIES * LOCK_SECONDS / 60)) minutes${holder:+ (its lock is $holder)}: let it end, and try again"
        sleep $LOCK_SECONDS
    done
}

[ "$(id -u)" = 0 ] || die "this needs root, for network namespaces and apt: run it as root, or with sudo"

packages=""
# need COMMAND PACKAGE: the package is installed when the command is not there.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    case "$packages " in *" $2 "*) ;; *) packages="$packages $2" ;; esac
}

PATH="$PATH:/usr/sbin:/sbin"
need ip iproute2
need tc iproute2
need cc gcc
[ -e /usr/include/stdio.h ] || packages="$packages libc6-dev"
need clang clang
need scp openssh-client
need sshd openssh-server
for extra in "$@"; do
    case $extra in
        bench)
            need uftp uftp
            need udp-sender udpcast
            need zstd zstd
            need iperf iperf
            need sockperf sockperf
            ;;
        endpoint) need llvm-ar llvm ;;
        fuzz) need c++ g++ ;;
        initramfs)
            need qemu-system-x86_64 qemu-system-x86
            need cpio cpio
            ;;
        lint | style) ;;
        package)
            need dpkg-shlibdeps dpkg-dev
            need llvm-ar llvm
            need xz xz-utils
            # Devices are updated by RAUC and by SWUpdate.
            need rauc rauc
            need mksquashfs squashfs-tools
            need swupdate swupdate
            need cpio cpio
            need openssl openssl
            need dbus-daemon dbus-daemon
            # Debian keeps what makes virtual environments apart from Python.
            "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
            ;;
        # Its daemons are in no PATH.
        test)
            [ -x /usr/lib/frr/ospf6d ] || packages="$packages frr"
            need nft nftables
            need python3 python3
            need dpkg-shlibdeps dpkg-dev
            need mmdebstrap mmdebstrap
            ;;
        *) die "setup.sh: unknown extra '$extra': expected bench, endpoint, fuzz, initramfs, lint, package, style or test" ;;
    esac
done

rust_is_new_enough() {
    command -v cargo >/dev/null 2>&1 || return 1
    version=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$version" ] && [ "$(printf '%s\n%s\n' "$RUST_NEEDED" "$version" | sort -V | head -n1)" = "$RUST_NEEDED" ]
}
[ -d "${CARGO_HOME:-$HOME/.cargo}/bin" ] && PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
rust_is_new_enough || command -v rustup >/dev/null 2>&1 || need curl "curl ca-certificates"

if [ -n "$packages" ]; then
    command -v apt-get >/dev/null 2>&1 ||
        die "this is no Debian (no apt-get): install what these packages of Debian's hold, and try again:$packages"
    echo "treecast: installing$packages"
    # A daemon that comes with a package (sshd, uftpd, frr) must neither start now nor at the next boot:
    # the lab starts its own, in its own namespaces.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' > $policy
        chmod +x $policy
        trap 'rm -f $policy' EXIT INT TERM
    fi
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    # shellcheck disable=SC2086 # one word a package
    { apt_get "$log" update && apt_get "$log" install -y --no-install-recommends $packages; } ||
        die "apt-get could not install$packages ($(why "$log")): see $log, mend the network or apt's sources, and try again"
    rm -f "$log"
    case $packages in *openssh-server*) systemctl disable ssh >/dev/null 2>&1 || true ;; esac
    case $packages in *uftp*) systemctl disable uftpd >/dev/null 2>&1 || true ;; esac
    case $packages in *frr*) systemctl disable frr >/dev/null 2>&1 || true ;; esac
fi

if ! rust_is_new_enough; then
    if ! command -v rustup >/dev/null 2>&1; then
        echo "treecast: installing Rust by rustup"
        # From the host that the toolchains come from: one that a firewall has to let through less.
        installer=$(mktemp)
        log=$(mktemp)
        curl --proto '=https' --tlsv1.2 -sSf -o "$installer" https://static.rust-lang.org/rustup/rustup-init.sh 2>"$log" ||
            die "rustup could not be fetched ($(why "$log")): mend the network, or install Rust $RUST_NEEDED or newer yourself"
        sh "$installer" -y --profile minimal --component clippy,rustfmt >"$log" 2>&1 ||
            die "rustup could not install Rust ($(why "$log")): see $log, or install Rust $RUST_NEEDED or newer yourself"
        rm -f "$installer" "$log"
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    else
        log=$(mktemp)
        rustup update stable >"$log" 2>&1 ||
            die "rustup could not update Rust ($(why "$log")): mend the network, $RUST_NEEDED or newer is needed"
        rm -f "$log"
    fi
    rust_is_new_enough || die "rustc is older than $RUST_NEEDED: run 'rustup default stable'"
fi

# without_an_os: a target that has no operating system. A test builds the protocols for it. A Rust that a distribution has
# packaged may lack it.
without_an_os() {
    command -v rustup >/dev/null 2>&1 || return 0
    [ ! -d "$(rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown" ] || return 0
    log=$(mktemp)
    rustup target add wasm32-unknown-unknown >"$log" 2>&1 ||
        die "rustup could not install the target wasm32-unknown-unknown ($(why "$log")): mend the network, and try again"
    rm -f "$log"
}

# style_tools: what checks the form of the code. Rust that is there already may have been installed without them.
style_tools() {
    ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1 || return 0
    command -v rustup >/dev/null 2>&1 ||
        die "cargo fmt and cargo clippy are missing: install rustfmt and clippy of the same version as rustc"
    echo "treecast: installing rustfmt and clippy"
    log=$(mktemp)
    rustup component add rustfmt clippy >"$log" 2>&1 ||
        die "rustup could not install rustfmt and clippy ($(why "$log")): mend the network, and try again"
    rm -f "$log"
}

# cargo_tool NAME: builds a tool of cargo's when it is not there.
cargo_tool() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "treecast: building $1 (once, a few minutes)"
    log=$(mktemp)
    cargo install --quiet --locked "$1" >"$log" 2>&1 ||
        die "$1 could not be built ($(why "$log")): see $log, mend that and try again"
    rm -f "$log"
}

# musl_target MACHINE: what scripts/musl.sh builds with for a kind of machine: Rust's target, and the headers of musl and the kernel.
# Their packages are of that machine. So apt gets lists and a status of its own, and dpkg learns of no foreign architecture.
musl_target() {
    rustup target add "$1-unknown-linux-musl" >/dev/null 2>&1 ||
        die "a program without libraries needs Rust's target $1-unknown-linux-musl: install it, by rustup target add $1-unknown-linux-musl"
    [ ! -e "$target/musl/$1" ] || return 0
    echo "treecast: fetching the headers of musl and the kernel for $1"
    part=$target/musl/$1.part
    rm -rf "$part"
    mkdir -p "$part/apt/state/lists/partial" "$part/apt/cache/archives/partial" "$part/root"
    : >"$part/apt/status"
    case $1 in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) die "setup.sh: unknown machine '$1'" ;; esac
    cat >"$part/apt/configuration" <<EOF
#clear APT::Architectures;
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
Dir::State "$part/apt/state";
Dir::State::status "$part/apt/status";
Dir::Cache "$part/apt/cache";
APT::Sandbox::User "root";
EOF
    log=$(mktemp)
    {
        APT_CONFIG=$part/apt/configuration apt_get "$log" update &&
            (cd "$part" && APT_CONFIG=$part/apt/configuration apt_get "$log" download musl-dev linux-libc-dev)
    } || die "apt-get could not fetch musl-dev and linux-libc-dev of $architecture ($(why "$log")): see $log, mend the network or apt's sources, and try again"
    for package in "$part"/*.deb; do dpkg-deb -x "$package" "$part/root"; done
    mv "$part/root" "$target/musl/$1"
    rm -rf "$part" "$log"
}

# What scripts/initramfs.sh starts a program with: the kernel of Debian's cloud images, and a busybox that needs no libraries.
kernel_and_busybox() {
    [ ! -e "$target/initramfs" ] || return 0
    echo "treecast: fetching a kernel and busybox"
    part=$target/initramfs.part
    rm -rf "$part"
    mkdir -p "$part/root"
    log=$(mktemp)
    {
        apt_get "$log" update &&
            image=$(LC_ALL=C apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -n 1) &&
            (cd "$part" && apt_get "$log" download "$image" busybox-static)
    } || die "apt-get could not fetch linux-image-cloud-amd64 and busybox-static ($(why "$log")): see $log, mend the network or apt's sources, and try again"
    for package in "$part"/*.deb; do dpkg-deb -x "$package" "$part/root"; done
    mv "$part/root" "$target/initramfs"
    rm -rf "$part" "$log"
}

# What makes a wheel and checks the types of its package, in a folder of its own.
python_tools() {
    venv=$target/venv
    [ ! -x "$venv/bin/maturin" ] || [ ! -x "$venv/bin/mypy" ] || return 0
    echo "treecast: installing maturin and mypy into $venv"
    log=$(mktemp)
    { "${PYTHON:-python3}" -m venv "$venv" && "$venv/bin/pip" install --quiet 'maturin>=1.7,<2' mypy; } >"$log" 2>&1 ||
        die "maturin and mypy could not be installed ($(why "$log")): see $log, mend the network or pip's settings, and try again"
    rm -f "$log"
}

for extra in "$@"; do
    case $extra in endpoint | initramfs | package) target=$(realpath "$(dirname "$0")/..")/target ;; esac
    case $extra in
        lint) cargo_tool cargo-deny ;;
        style) style_tools ;;
        test) without_an_os ;;
        endpoint) musl_target "${MACHINE:-$(uname -m)}" ;;
        initramfs) kernel_and_busybox ;;
        package)
            musl_target x86_64
            musl_target aarch64
            python_tools
            ;;
        fuzz)
            cargo_tool cargo-fuzz
            cargo +nightly --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal >/dev/null ||
                die "fuzzing needs a nightly compiler: rustup toolchain install nightly"
            ;;
    esac
done
