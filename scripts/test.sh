#!/usr/bin/env bash
# Builds all tests and runs them: scripts/test.sh [ARGUMENT]...   arguments for the test programs
# The tests of the command mostly wait for packets, so all others run beside them, and then the check of the source (`make style`).
set -euo pipefail

cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo test --workspace --locked --no-run

log=target/other-tests.log
others() {
    failed=0
    cargo test --workspace --locked --no-fail-fast --lib --bins --test '[!c]*' --test c -- "$@" || failed=1
    cargo test --workspace --locked --no-fail-fast --doc || failed=1
    nice make style || failed=1
    return $failed
}
# A process group of its own, which can be ended as a whole.
set -m
others "$@" >"$log" 2>&1 &
pid=$!
set +m
trap 'kill -- -$pid' EXIT
trap 'exit 1' INT TERM

failed=0
cargo test --workspace --locked --no-fail-fast --test cli -- "$@" || failed=1
wait $pid || failed=1
trap - EXIT
cat "$log"
exit $failed
