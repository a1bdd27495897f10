#!/bin/sh
# Runs every fuzz target for a while (60 seconds each; FUZZ_SECONDS=N for another time), starting from the
# golden packets. Ends at the first finding, which lies in fuzz/artifacts/.
set -eu
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
corpora=$(mktemp -d)
trap 'rm -rf "$corpora"' EXIT
for target in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$target" .rs)
    mkdir -p "$corpora/$target"
    echo "fuzzing $target for $seconds s"
    log=$corpora/$target.log
    cargo +nightly fuzz run "$target" "$corpora/$target" vectors -- \
        -max_total_time="$seconds" -print_final_stats=1 >"$log" 2>&1 ||
        { tail -n 30 "$log"; echo "treecast: fuzzing $target found something: see fuzz/artifacts/$target" >&2; exit 1; }
    grep -E 'number_of_executed_units' "$log"
done
