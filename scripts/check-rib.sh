#!/bin/sh
# Compares what `treecast rib report` counts in an MRT file with what other parsers count: Debian's bgpdump, and Python's
# mrtparse if PYTHON (python3) has it. Usage: scripts/check-rib.sh FILE...   with TREECAST=the command (target/release/treecast)
set -eu
TREECAST=${TREECAST:-target/release/treecast}
PYTHON=${PYTHON:-python3}
die() { echo "treecast: $*" >&2; exit 1; }
command -v bgpdump >/dev/null || die "there is no bgpdump: apt-get install bgpdump"
[ $# -gt 0 ] || die "which file? scripts/check-rib.sh FILE..."
export LC_ALL=C

# Counts of a table as `bgpdump -m` prints it: entries, prefixes, peers, origins, and ASNs that are in any path.
counts() {
    awk -F'|' '$3 == "B" || $3 == "A" {
        entries++; prefixes[$6]; peers[$4 "|" $5]
        n = split($7, path, / /)
        for (i = 1; i <= n; i++) { gsub(/[{}()\[\]]/, "", path[i]); m = split(path[i], set, /,/); for (j = 1; j <= m; j++) asns[set[j]] }
    } END { print entries + 0, length(prefixes), length(peers), length(asns) }'
}

for file in "$@"; do
    # bgpdump logs to syslog, and tells a broken file only there.
    theirs=$(bgpdump -m "$file" 2>/dev/null | counts)
    ours=$("$TREECAST" rib report --json "$file" | "$PYTHON" -c '
import json, sys
report = json.load(sys.stdin)
special = sum(family["private_asns"] + family["reserved_asns"] for family in report["families"])
print(report["entries"], report["prefixes"], report["peers"], report["ases"] + special)')
    echo "$file"
    echo "                 entries prefixes peers ASNs"
    echo "treecast         $ours"
    echo "bgpdump          $theirs"
    [ "$ours" = "$theirs" ] || die "$file: treecast and bgpdump count differently"
    "$PYTHON" -c 'import mrtparse' 2>/dev/null || continue
    theirs=$("$PYTHON" - "$file" <<'PYTHON_END'
import sys
from mrtparse import Reader
entries, prefixes, peers = 0, set(), set()
for record in Reader(sys.argv[1]):
    for entry in record.data.get("rib_entries", []):
        entries += 1
        prefixes.add((record.data["prefix"], record.data["length"] if "length" in record.data else record.data["prefix_length"]))
        peers.add(entry["peer_index"])
print(entries, len(prefixes), len(peers))
PYTHON_END
)
    echo "mrtparse         $theirs"
    [ "${ours% *}" = "$theirs" ] || die "$file: treecast and mrtparse count differently"
done
