#!/bin/sh
# Makes packages of a program that is built.
# Usage: scripts/package.sh deb PROGRAM FOLDER               a Debian package for this kind of machine
#        scripts/package.sh tar PROGRAM FOLDER MACHINE       a tar file, such as treecast-0.1.0-x86_64-linux.tar.xz, of the program
#                                                            that scripts/musl.sh has built for that kind of machine
#        scripts/package.sh wheel PROGRAM FOLDER             Python's package for this kind of machine: types checked, built, tested
# PROGRAM runs on this machine, and writes the documentation.
set -eu

die() { echo "package.sh: $*" >&2; exit 1; }

case "${1:-} $#" in
    "deb 3" | "wheel 3" | "tar 4") ;;
    *) die "expected: deb PROGRAM FOLDER, tar PROGRAM FOLDER MACHINE, or wheel PROGRAM FOLDER" ;;
esac
kind=$1 program=$(realpath "$2") machine=${4:-}
mkdir -p "$3"
folder=$(realpath "$3")
here=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/stage
umask 022

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/Cargo.toml")
[ "$("$program" --version)" = "treecast $version" ] || die "$program is not treecast $version: build it anew"

# notices PACKAGE [--whole]: the licences of what one of our crates is linked from.
notices() { (cd "$here" && "${PYTHON:-python3}" scripts/notices.py "$1" "${machine:-$(uname -m)}-unknown-linux-${libc:-gnu}" ${2:+"$2"}); }

# The program must start where there is nothing else, and come to many machines.
make_tar() {
    name=treecast-$version-$machine-linux libc=musl
    built=$here/target/$machine-unknown-linux-musl/release/treecast
    [ -x "$built" ] || die "there is no $built: run scripts/musl.sh $machine"
    mkdir -p "$stage/$name/bin"
    # Binutils know this machine only.
    llvm-strip --strip-all -o "$stage/$name/bin/treecast" "$built"
    ! readelf -d "$stage/$name/bin/treecast" | grep NEEDED >&2 || die "$built needs libraries: build it by scripts/musl.sh"
    "$program" package-files "$stage/$name/share"
    install -m 644 "$here/README.md" "$here/LICENSE-MIT" "$here/LICENSE-APACHE" "$stage/$name"
    notices treecast-cli --whole > "$stage/$name/NOTICES"
    tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner -cJf "$folder/$name.tar.xz" "$name"
    [ "$(stat -c %s "$folder/$name.tar.xz")" -lt 12000000 ] || die "$folder/$name.tar.xz is larger than 12 MB"
    echo "$folder/$name.tar.xz"
}

# The module that was built must be what the types say, and pass its tests as it is installed.
make_wheel() {
    python=$here/crates/python venv=$here/target/venv/bin
    "$venv/mypy" --version >/dev/null || die "there is no mypy: run scripts/setup.sh package"
    trap 'rm -rf "$work" "$python/python/treecast/NOTICES"' EXIT
    notices treecast-python --whole > "$python/python/treecast/NOTICES"
    "$venv/maturin" build --quiet --release --locked -m "$python/Cargo.toml" -o "$work"
    wheel=$(echo "$work"/treecast-"$version"-*.whl)
    "$venv/pip" install --quiet --no-deps --no-index --target "$work/site" "$wheel"
    cd "$work"
    MYPYPATH=site "$venv/mypy" --strict --no-error-summary -p treecast
    MYPYPATH=site "$venv/mypy" --strict --no-error-summary "$python"/examples/*.py
    sed -n '/^```python$/,/^```$/ { /^```/!p }' "$here/docs/library.md" > page.py
    MYPYPATH=site "$venv/mypy" --strict --no-error-summary page.py
    PYTHONPATH=site MYPYPATH=site "$venv/python" -m mypy.stubtest --concise --ignore-disjoint-bases treecast
    PYTHONPATH=site "$venv/python" "$python/tests/package.py" >&2
    mv "$wheel" "$folder"
    echo "$folder/${wheel##*/}"
}

stage_deb() {
    documents=$stage/usr/share/doc/treecast
    install -Ds "$program" "$stage/usr/bin/treecast"
    "$program" package-files "$stage/usr/share"
    gzip -9n "$stage"/usr/share/man/man1/*
    install -m 644 -Dt "$stage/usr/lib/systemd/system" "$here"/contrib/systemd/*.service "$here"/contrib/standing/*.service "$here"/contrib/feed/*.service
    install -m 644 -Dt "$stage/etc/treecast" "$here"/contrib/systemd/*.env "$here/contrib/systemd/agent.toml" "$here/contrib/feed/feed.env" "$here/contrib/standing/standing.toml"
    install -m 644 -Dt "$documents" "$here/README.md"
    install -m 644 -Dt "$documents/docs" "$here"/docs/*.md "$here"/docs/*.svg
    mkdir "$documents/examples"
    cp -r "$here/contrib/imaging" "$here/contrib/config" "$documents/examples"
    gzip -9nc "$here/CHANGELOG.md" > "$documents/changelog.gz"
    gzip -9nc "$here/contrib/debian/changelog" > "$documents/changelog.Debian.gz"
    # The text of the licence ends the file, as the format wants it: indented, and with a dot for an empty line.
    { cat "$here/contrib/debian/copyright"; sed '1,/^$/d; s/^$/./; s/^/ /' "$here/LICENSE-MIT"; notices treecast-cli; } > "$documents/copyright"
}

# dpkg's own programs look for these two in a folder `debian`.
make_control() {
    mkdir -p "$work/debian" "$stage/DEBIAN"
    cp "$here/contrib/debian/control" "$here/contrib/debian/changelog" "$work/debian"
    install -t "$stage/DEBIAN" "$here/contrib/debian/postinst" "$here/contrib/debian/prerm" "$here/contrib/debian/postrm"
    install -m 644 -t "$stage/DEBIAN" "$here/contrib/debian/conffiles"
    (
        cd "$work"
        dpkg-shlibdeps -Tsubstvars "$stage/usr/bin/treecast"
        dpkg-gencontrol -ptreecast -Tsubstvars -fdebian/files "-P$stage"
    )
    (cd "$stage" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums)
}

make_deb() {
    debian_version=$(dpkg-parsechangelog -l "$here/contrib/debian/changelog" -S Version)
    [ "${debian_version%-*}" = "$version" ] || die "contrib/debian/changelog is of $debian_version, and Cargo.toml of $version: add an entry"
    stage_deb
    make_control
    SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l "$here/contrib/debian/changelog" -S Timestamp)
    export SOURCE_DATE_EPOCH
    dpkg-deb --root-owner-group --build "$stage" "$folder" >/dev/null
    echo "$folder/treecast_${debian_version}_$(dpkg --print-architecture).deb"
}

"make_$kind"
