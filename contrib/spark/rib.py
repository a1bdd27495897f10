#!/usr/bin/env python3
"""Computes the figures of `treecast rib report` and `treecast rib compare` with Spark SQL, for archives beyond one machine.

    treecast rib read rib.*.bz2 --out archive/
    spark-submit contrib/spark/rib.py archive/ > figures.json

Prints JSON: `tables` are the routing tables, sorted by time, with the names that `treecast rib report --json` uses.
`comparisons` compares each table with the next one of the same collector and family, as `treecast rib compare --json` does.
The views below compute each step; docs/rib.md says what the words mean.
"""

import json
import os
import sys

from pyspark.sql import SparkSession


def kind(asn):
    """What an ASN stands for: RFC 6996, and RFCs 7607, 6793, 5398 and 7300."""
    return f"""CASE
        WHEN {asn} BETWEEN 64512 AND 65534 OR {asn} BETWEEN 4200000000 AND 4294967294 THEN 'private'
        WHEN {asn} IN (0, 23456, 4294967295) OR {asn} BETWEEN 64496 AND 64511 OR {asn} BETWEEN 65535 AND 65551 THEN 'reserved'
        ELSE 'public' END"""


VIEWS = {
    # The elements of a path: ASNs, and sets as {1,2}. A set of one AS is that AS. Confederations are left out.
    "elements": r"""
        SELECT dump, family, path, entries, regexp_extract_all(
            regexp_replace(regexp_replace(path, r'\([^)]*\)|\[[^\]]*\]', ' '), r'\{(\d+)\}', '$1'),
            r'\{[^}]*\}|\d+', 0) AS elements
        FROM paths""",
    "singles": """
        SELECT *, filter(elements, (x, i) -> i = 0 OR x LIKE '{%' OR x != get(elements, i - 1)) AS singles
        FROM elements""",
    # 0 is a hop that may be any AS. -1 is a private ASN, which is removed.
    "numbers": f"""
        SELECT *, filter(transform(singles, x -> CASE WHEN x LIKE '{{%' THEN 0L ELSE
            CASE {kind('bigint(x)')} WHEN 'private' THEN -1L WHEN 'reserved' THEN 0L ELSE bigint(x) END END), x -> x != -1) AS numbers
        FROM singles""",
    "hops": """
        SELECT *, filter(numbers, (x, i) -> i = 0 OR x = 0 OR x != get(numbers, i - 1)) AS hops,
            size(singles) < size(elements) AS is_prepended, exists(elements, x -> x LIKE '{%') AS has_set
        FROM numbers""",
    # Every ASN of a path once, also those in sets.
    "asns": rf"""
        SELECT *, {kind('asn')} AS kind FROM (
            SELECT dump, family, path, entries, bigint(text) AS asn FROM elements
            LATERAL VIEW explode(array_distinct(flatten(transform(elements, x -> regexp_extract_all(x, r'\d+', 0))))) AS text)""",
    "inside": """
        SELECT DISTINCT dump, family, asn FROM hops
        LATERAL VIEW explode(slice(hops, 2, greatest(size(hops) - 2, 0))) AS asn WHERE asn != 0""",
    "upstreams": """
        SELECT DISTINCT dump, family, pair.asn AS asn, pair.upstream AS upstream FROM hops
        LATERAL VIEW explode(transform(hops, (x, i) -> struct(x AS asn, coalesce(get(hops, i - 1), 0L) AS upstream))) AS pair
        WHERE pair.asn != 0 AND pair.upstream != 0""",
    "ases": """
        SELECT asns.dump, asns.family, asns.asn, inside.asn IS NOT NULL AS is_provider, coalesce(homing, 0) AS homing
        FROM (SELECT DISTINCT dump, family, asn FROM asns WHERE kind = 'public') AS asns
        LEFT JOIN inside USING (dump, family, asn)
        LEFT JOIN (SELECT dump, family, asn, count(*) AS homing FROM upstreams GROUP BY ALL) USING (dump, family, asn)""",
    # A prefix as one AS announces it. `bits` are the bits of the prefix, as text.
    "announced": """
        SELECT DISTINCT dump, family, origin AS asn, prefix, length, address, substr(array_join(transform(split(address, ''),
            x -> lpad(conv(x, 16, 2), 4, '0')), ''), 1, int(length)) AS bits
        FROM routes WHERE origin != 0""",
    # Prefixes of stubs that lie inside a provider's block: not inside one shorter than /8 (IPv4) or /16 (IPv6).
    "aggregatable": """
        SELECT DISTINCT stub.dump, stub.family, stub.asn, stub.prefix
        FROM (SELECT *, explode(sequence(int(if(family = 4, 8, 16)), int(length))) AS covering FROM announced
            WHERE length >= if(family = 4, 8, 16)) AS stub
        JOIN upstreams USING (dump, family, asn)
        JOIN announced AS block ON block.dump = stub.dump AND block.family = stub.family AND block.asn = upstream
            AND block.bits = substr(stub.bits, 1, covering) AND block.length = covering""",
    "stubs": """
        SELECT dump, family, asn, homing, coalesce(prefixes, 0) AS prefixes, largest_block,
            CASE WHEN prefixes IS NULL THEN NULL WHEN inner_prefixes IS NULL THEN 'pi'
                WHEN inner_prefixes = prefixes THEN 'pa' ELSE 'both' END AS addressing
        FROM ases
        LEFT JOIN (SELECT dump, family, asn, count(*) AS prefixes, min(length) AS largest_block FROM announced GROUP BY ALL)
            USING (dump, family, asn)
        LEFT JOIN (SELECT dump, family, asn, count(*) AS inner_prefixes FROM aggregatable GROUP BY ALL)
            USING (dump, family, asn)
        WHERE NOT is_provider""",
    # Equation 6.1. The bounds are without |GRT|, which is the same for all providers.
    "equation": """
        SELECT ases.dump, ases.family, ases.asn, coalesce(max(own.prefixes), 0) AS prefixes,
            count_if(stubs.homing = 1) AS single_homed, count_if(stubs.homing > 1) AS multi_homed,
            coalesce(sum(if(stubs.homing > 1, stubs.homing, 0)), 0) AS homings
        FROM ases
        LEFT JOIN (SELECT dump, family, asn, count(*) AS prefixes FROM announced GROUP BY ALL) AS own USING (dump, family, asn)
        LEFT JOIN upstreams ON upstreams.dump = ases.dump AND upstreams.family = ases.family AND upstreams.upstream = ases.asn
        LEFT JOIN stubs ON stubs.dump = ases.dump AND stubs.family = ases.family AND stubs.asn = upstreams.asn
        WHERE is_provider GROUP BY ases.dump, ases.family, ases.asn""",
    # Delegations that follow one another and have one holder are one.
    "held": """
        SELECT resource, min(first) AS first, max(last) AS last, registry, holder FROM (
            SELECT *, sum(is_new) OVER (PARTITION BY resource ORDER BY first, last, registry, country, time, status, holder) AS run FROM (
                SELECT DISTINCT resource, first, last, registry, country, time, status, holder,
                    int(NOT coalesce(lag(struct(registry, holder, country)) OVER ordered = struct(registry, holder, country)
                        AND conv(substr(lag(last) OVER ordered, 1, 16), 16, 10) + if(resource = 'asn', 0, 1)
                            = conv(substr(first, 1, 16), 16, 10)
                        AND (resource != 'asn' OR conv(substr(lag(last) OVER ordered, 17), 16, 10) + 1
                            = conv(substr(first, 17), 16, 10)), false)) AS is_new
                FROM delegations
                WINDOW ordered AS (PARTITION BY resource ORDER BY first, last, registry, country, time, status, holder)))
        GROUP BY resource, run, registry, holder""",
    # What providers announce and hold: figure 6.4, plot 1. The holder of a block is that of the last one that begins before it.
    "provider_prefixes": """
        SELECT announced.dump, announced.family, announced.asn, if(announced.family = 4, 'ipv4', 'ipv6') AS resource,
            if(announced.family = 4, rpad(address, 32, '0'), address) AS first,
            lower(rpad(array_join(transform(sequence(0, 31), i -> conv(
                rpad(substr(rpad(bits, 128, '1'), i * 4 + 1, 4), 4, '1'), 2, 16)), ''), 32, 'f')) AS last
        FROM announced JOIN ases USING (dump, family, asn) WHERE is_provider""",
    "holders": """
        SELECT dump, family, asn, around.registry, around.holder FROM (
            SELECT *, last_value(block, true) OVER (PARTITION BY resource ORDER BY first, is_prefix
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS around FROM (
                SELECT resource, first, 1 AS is_prefix, dump, family, asn, last AS ending, NULL AS block FROM provider_prefixes
                UNION ALL SELECT resource, first, 0, NULL, NULL, NULL, NULL, struct(registry, holder, last) FROM held))
        WHERE is_prefix = 1 AND around.last >= ending""",
    "own_prefixes": """
        SELECT holders.dump, holders.family, count_if(holders.registry = network.registry AND holders.holder = network.holder) AS held
        FROM holders JOIN held AS network
            ON network.resource = 'asn' AND lpad(lower(hex(asn)), 32, '0') BETWEEN network.first AND network.last
        WHERE holders.holder != '' AND network.holder != '' GROUP BY ALL""",
    # The next table of the same collector and view.
    "months": """
        SELECT dump AS earlier, later FROM (SELECT dump, lead(dump) OVER (PARTITION BY kind, collector, view ORDER BY time) AS later
            FROM dumps WHERE kind = 'table') WHERE later IS NOT NULL""",
    "providers_of": """
        SELECT dump, family, asn, is_provider, coalesce(collect_set(upstream), array()) AS upstreams FROM ases
        LEFT JOIN upstreams USING (dump, family, asn) GROUP BY ALL""",
    "pairs": """
        SELECT months.earlier, months.later, coalesce(before.family, after.family) AS family, before.asn AS before_asn, after.asn AS after_asn,
            before.is_provider AS was_provider, after.is_provider AS is_provider, largest_block,
            size(before.upstreams) > 0 AND size(after.upstreams) > 0 AS is_known,
            size(array_except(after.upstreams, before.upstreams)) AS additions,
            size(array_except(before.upstreams, after.upstreams)) AS deletions
        FROM months JOIN (SELECT earlier, later, family, asn FROM months JOIN providers_of ON dump IN (earlier, later) GROUP BY ALL) AS every
            USING (earlier, later)
        LEFT JOIN providers_of AS before ON before.dump = earlier AND before.family = every.family AND before.asn = every.asn
        LEFT JOIN providers_of AS after ON after.dump = later AND after.family = every.family AND after.asn = every.asn
        LEFT JOIN stubs ON stubs.dump = earlier AND stubs.family = every.family AND stubs.asn = every.asn""",
}

# One row for each table and family.
FIGURES = {
    "counts": """SELECT dump, family, sum(entries) AS entries, count(*) AS paths,
        sum(if(is_prepended, entries, 0)) AS prepended_entries, sum(if(has_set, entries, 0)) AS set_entries,
        sum(if(size(array_distinct(array_remove(hops, 0L))) < size(array_remove(hops, 0L)), entries, 0)) AS looped_entries
        FROM hops GROUP BY ALL""",
    "prefixes": "SELECT dump, family, count(DISTINCT prefix) AS prefixes FROM routes GROUP BY ALL",
    "special": """SELECT dump, family, count(DISTINCT if(kind = 'private', asn, NULL)) AS private_asns,
        count(DISTINCT if(kind = 'reserved', asn, NULL)) AS reserved_asns FROM asns GROUP BY ALL""",
    "private": """SELECT dump, family, sum(if(has_private, entries, 0)) AS private_entries, sum(if(has_reserved, entries, 0)) AS reserved_entries
        FROM (SELECT dump, family, path, entries, bool_or(kind = 'private') AS has_private, bool_or(kind = 'reserved') AS has_reserved
            FROM asns GROUP BY ALL) GROUP BY ALL""",
    "ases": "SELECT dump, family, count(*) AS ases, count_if(NOT is_provider) AS stubs, count_if(is_provider) AS providers FROM ases GROUP BY ALL",
}


def start(folder):
    spark = SparkSession.builder.appName("treecast-rib").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for table in ("dumps", "peers", "paths", "routes", "delegations"):
        path = os.path.join(folder, table)
        if table == "delegations" and not os.path.isdir(path):
            columns = "resource STRING, first STRING, last STRING, registry STRING, country STRING, time BIGINT, status STRING, holder STRING"
            spark.createDataFrame([], columns).createOrReplaceTempView(table)
        else:
            spark.read.parquet(path).createOrReplaceTempView(table)
    for name, sql in VIEWS.items():
        view = spark.sql(sql)
        # What several figures are computed from.
        if name in ("hops", "upstreams", "ases", "announced", "stubs"):
            view = view.cache()
        view.createOrReplaceTempView(name)
    return spark


def rows(spark, sql):
    return [row.asDict(recursive=True) for row in spark.sql(sql).collect()]


def families(spark):
    """The figures of each table and family, by (dump, family)."""
    found = {}
    for sql in FIGURES.values():
        for row in rows(spark, sql):
            found.setdefault((row.pop("dump"), row.pop("family")), {}).update(row)
    for figures in found.values():
        empty = {homing: {"pi": 0, "pa": 0, "both": 0} for homing in ("single_homed", "multi_homed")}
        figures["table_6_1"] = {**empty, "without_provider": 0, "without_prefix": 0, "by_upstreams": {}}
        figures["prefix_sizes"] = {}
        figures["equation_6_1"] = {"global_table_held": None, "global_table_today": figures["prefixes"], "providers": []}
    for row in rows(spark, "SELECT dump, family, homing, addressing, count(*) AS stubs FROM stubs GROUP BY ALL"):
        table = found[row["dump"], row["family"]]["table_6_1"]
        by_upstreams = table["by_upstreams"]
        by_upstreams[str(row["homing"])] = by_upstreams.get(str(row["homing"]), 0) + row["stubs"]
        if row["addressing"] is None:
            table["without_prefix"] += row["stubs"]
        elif row["homing"] == 0:
            table["without_provider"] += row["stubs"]
        else:
            table["single_homed" if row["homing"] == 1 else "multi_homed"][row["addressing"]] += row["stubs"]
    for row in rows(spark, """SELECT dump, family, length, count_if(NOT is_provider) AS of_stubs, count_if(is_provider) AS of_providers
            FROM announced JOIN ases USING (dump, family, asn) GROUP BY dump, family, length"""):
        sizes = found[row.pop("dump"), row.pop("family")]["prefix_sizes"]
        sizes[str(row.pop("length"))] = row
    for row in rows(spark, "SELECT * FROM equation ORDER BY single_homed + homings DESC, asn"):
        providers = found[row.pop("dump"), row.pop("family")]["equation_6_1"]["providers"]
        row["lower"] = row["single_homed"] + 2 * row["multi_homed"]
        row["upper"] = row["single_homed"] + row["homings"]
        providers.append(row)
    for row in rows(spark, "SELECT * FROM own_prefixes"):
        found[row["dump"], row["family"]]["equation_6_1"]["global_table_held"] = row["held"]
    for (_, family), figures in found.items():
        figures["family"] = f"IPv{family}"
        figures["equation_6_1"]["global_table_announced"] = sum(size["of_providers"] for size in figures["prefix_sizes"].values())
    return found


def tables(spark):
    found = families(spark)
    peers = {row["dump"]: row["peers"] for row in rows(spark, "SELECT dump, count_if(entries > 0) AS peers FROM peers GROUP BY dump")}
    every = {row.pop("dump"): row for row in rows(spark, """SELECT dump, count(*) AS ases, count_if(inside) AS providers
        FROM (SELECT dump, asn, bool_or(is_provider) AS inside FROM ases GROUP BY dump, asn) GROUP BY dump""")}
    reports = []
    for dump in rows(spark, "SELECT dump, file, kind FROM dumps WHERE kind IN ('table', 'updates') ORDER BY time, dump"):
        number = dump.pop("dump")
        of = [found[key] for key in sorted(found) if key[0] == number]
        counts = every.get(number, {"ases": 0, "providers": 0})
        reports.append({
            **dump, **counts, "stubs": counts["ases"] - counts["providers"], "peers": peers.get(number, 0),
            "entries": sum(family["entries"] for family in of), "prefixes": sum(family["prefixes"] for family in of), "families": of,
        })
    return reports


def comparisons(spark):
    stayed = "NOT was_provider AND NOT is_provider"
    changes = "count(*) AS stubs, sum(additions) AS additions, sum(deletions) AS deletions"
    reports = rows(spark, f"""SELECT earlier, later, family,
        count_if(before_asn IS NULL AND NOT is_provider) AS new_stubs, count_if(after_asn IS NULL AND NOT was_provider) AS gone_stubs,
        count_if(was_provider != is_provider) AS changed_roles, count_if({stayed} AND NOT is_known) AS without_provider
        FROM pairs GROUP BY ALL ORDER BY earlier, family""")
    blocks = rows(spark, f"SELECT earlier, family, largest_block, {changes} FROM pairs WHERE {stayed} AND is_known GROUP BY ALL")
    names = {row["dump"]: row["file"] for row in rows(spark, "SELECT dump, file FROM dumps")}
    for report in reports:
        of = [row for row in blocks if (row["earlier"], row["family"]) == (report["earlier"], report["family"])]
        figures = lambda row: {name: row[name] for name in ("stubs", "additions", "deletions")}
        report["all"] = {name: sum(row[name] for row in of) for name in ("stubs", "additions", "deletions")}
        report["by_block"] = {str(row["largest_block"]): figures(row) for row in of if row["largest_block"] is not None}
        report["family"] = f"IPv{report['family']}"
        report["earlier"], report["later"] = names[report["earlier"]], names[report["later"]]
    return reports


def main():
    if len(sys.argv) != 2:
        sys.exit("which folder of `treecast rib read --out FOLDER/`? rib.py FOLDER")
    spark = start(sys.argv[1])
    json.dump({"tables": tables(spark), "comparisons": comparisons(spark)}, sys.stdout)
    print()
    spark.stop()


if __name__ == "__main__":
    main()
