#!/bin/sh
# Compares the figures that contrib/spark/rib.py computes, in Spark's local mode, with those of `treecast rib`: of a synthetic internet, and of the
# routing tables that are named. Usage: scripts/check-spark.sh [FILE...]   with TREECAST=the command, PYTHON=a Python with pyspark
set -eu
TREECAST=${TREECAST:-target/release/treecast}
PYTHON=${PYTHON:-python3}
die() { echo "treecast: $*" >&2; exit 1; }
command -v java >/dev/null || die "there is no Java: apt-get install openjdk-17-jre-headless"
"$PYTHON" -c 'import pyspark' 2>/dev/null || die "$PYTHON has no pyspark: python3 -m venv venv; venv/bin/pip install pyspark; PYTHON=venv/bin/python"
export PYSPARK_PYTHON="$PYTHON"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$(dirname "$0")/.."

spark() { "$PYTHON" contrib/spark/rib.py "$1" >"$folder/spark.json" 2>"$folder/log" || { tail -n 20 "$folder/log" >&2; die "Spark failed"; }; }

echo "a synthetic internet of 3,000 ASes:"
"$TREECAST" rib synth --out "$folder/synthetic" --ases 3000 --stubs 2500 --prefixes 20000 --peers 30 >/dev/null
"$TREECAST" rib read "$folder"/synthetic/*.mrt "$folder/synthetic/synthetic-delegations.txt" --out "$folder/archive/" >/dev/null
spark "$folder/archive"
"$TREECAST" rib report --json "$folder/archive" >"$folder/report.json"
"$TREECAST" rib compare --json "$folder/archive@2012-12-01" "$folder/archive@2013-01-01" >"$folder/compare.json"
"$PYTHON" contrib/spark/check.py "$folder/spark.json" "$folder/report.json" "$folder/compare.json"

for file in "$@"; do
    echo "$file:"
    rm -rf "$folder/archive"
    "$TREECAST" rib read "$file" --out "$folder/archive/" >/dev/null
    spark "$folder/archive"
    "$TREECAST" rib report --json "$folder/archive" >"$folder/report.json"
    "$PYTHON" contrib/spark/check.py "$folder/spark.json" "$folder/report.json"
done
