#!/usr/bin/env bash
# Builds all tests and runs them: scripts/test.sh [ARGUMENT]...   arguments for the test programs
# The tests of the command mostly wait for packets, so all others run beside them, and then the check of the source (`make style`).
set -euo pipefail

cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo test --workspace --locked --no-run

log=$(mktemp)
others() {
    failed=
    cargo test --workspace --locked --no-fail-fast --lib --bins --test '[!c]*' --test c -- "$@" || failed="$failed tests"
    cargo test --workspace --locked --no-fail-fast --doc || failed="$failed examples"
    # What `make` was told for this run, such as -i, is not for that one.
    nice env -u MAKEFLAGS make style || failed="$failed style"
    echo
    [ -z "$failed" ] || { echo "treecast: failed beside the tests of the command:$failed" && return 1; }
}
# A process group of its own, which can be ended as a whole.
set -m
others "$@" >"$log" 2>&1 &
pid=$!
set +m
end() {
    kill -- -$pid 2>/dev/null || true
    wait $pid || true
    rm -f "$log"
}
trap end EXIT
trap 'exit 1' INT TERM

failed=
cargo test --workspace --locked --no-fail-fast --test cli -- "$@" || failed="tests of the command"
beside=0
wait $pid || beside=1
cat "$log"
[ -z "$failed" ] || echo "treecast: failed: $failed"
[ -z "$failed" ] && [ $beside = 0 ]
