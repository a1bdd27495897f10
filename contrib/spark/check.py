#!/usr/bin/env python3
"""Compares the figures of rib.py with those of treecast: check.py SPARK.json REPORT.json COMPARE.json

REPORT.json is what `treecast rib report --json` prints of the same folder, COMPARE.json what `rib compare --json` prints. Fails if a figure that both
have differs.
"""

import json
import sys


# The names of treecast's figures that Spark does not compute.
left_out = set()


def differ(name, theirs, ours, equal, different):
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            if key not in ours:
                different.append(f"{name} {key}: treecast has no such figure")
            else:
                differ(f"{name} {key}", value, ours[key], equal, different)
        # No row may be missing. Other figures that only treecast has are those that Spark does not compute.
        for key in ours.keys() - theirs.keys():
            if key.isdigit():
                different.append(f"{name} {key}: Spark has no such row")
            else:
                left_out.add(key)
    elif isinstance(theirs, list):
        if len(theirs) != len(ours):
            different.append(f"{name}: {len(theirs)} rows of Spark, {len(ours)} of treecast")
        for at, (one, other) in enumerate(zip(theirs, ours)):
            differ(f"{name} {at}", one, other, equal, different)
    elif theirs == ours:
        equal.append(name)
    else:
        different.append(f"{name}: Spark says {theirs}, treecast {ours}")


def load(path):
    """What treecast prints: a list, or its only item."""
    with open(path) as file:
        found = json.load(file)
    return found if isinstance(found, list) or "tables" in found else [found]


def main():
    spark = load(sys.argv[1])
    equal, different = [], []
    differ("tables", spark["tables"], load(sys.argv[2]), equal, different)
    if len(sys.argv) > 3:
        differ("comparisons", spark["comparisons"], load(sys.argv[3]), equal, different)
    for line in different[:50]:
        print(line)
    print(f"{len(equal):,} figures of Spark SQL are as treecast's, {len(different):,} differ")
    print(f"not computed by Spark: {', '.join(sorted(left_out))}")
    sys.exit(bool(different) or not equal)


main()
