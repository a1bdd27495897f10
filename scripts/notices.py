#!/usr/bin/env python3
"""Prints the licence notices of the crates that a program is linked from, as paragraphs of Debian's copyright format.

Usage: scripts/notices.py PACKAGE TARGET [--whole]

The texts come from the folders of the crates. A licence that Debian has in /usr/share/common-licenses is only named, unless
--whole asks for all texts.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys

TEXT_NAMES = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)([-._].*)?$", re.IGNORECASE)
COMMON = {"Apache-2.0": re.compile(r"\s*Apache License\s+Version 2\.0, January 2004")}


def metadata(target):
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--locked", "--format-version=1", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def linked(data, name):
    """The packages that a package of the workspace is linked from, without those of its build and its tests."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    waiting = [one for one in data["workspace_members"] if packages[one]["name"] == name]
    if not waiting:
        sys.exit(f"notices.py: there is no package {name}")
    found = set()
    while waiting:
        one = waiting.pop()
        if one in found or any("proc-macro" in target["kind"] for target in packages[one]["targets"]):
            continue
        found.add(one)
        kinds = nodes[one]["deps"]
        waiting += [dep["pkg"] for dep in kinds if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    own = set(data["workspace_members"])
    return sorted((packages[one] for one in found - own), key=lambda package: (package["name"], package["version"]))


def texts(package, whole):
    """The texts of a crate's folder. One that Debian has is replaced by its place."""
    folder = pathlib.Path(package["manifest_path"]).parent
    paths = {path for path in folder.iterdir() if path.is_file() and TEXT_NAMES.match(path.name)}
    if package["license_file"]:
        paths.add(folder / package["license_file"])
    for path in sorted(paths):
        text = path.read_text(errors="replace").strip("\n")
        common = next((licence for licence, start in COMMON.items() if start.match(text)), None)
        if common and not whole:
            text = f"On Debian systems, the text is in /usr/share/common-licenses/{common}."
        yield text


def licence(package):
    expression = package["license"] or "see-below"
    return re.sub(r"\s*(/| OR )\s*", " or ", expression).replace(" AND ", " and ").replace(" WITH ", " with ")


def field(name, lines):
    """A field of several lines: an empty one is a dot."""
    return f"{name}:" + "".join("\n " + (line.rstrip() or ".") for line in lines)


def main():
    whole = "--whole" in sys.argv[3:]
    paragraphs = collections.defaultdict(list)
    for package in linked(metadata(sys.argv[2]), sys.argv[1]):
        paragraphs[licence(package), tuple(texts(package, whole))].append(package)
    for (expression, found), packages in sorted(paragraphs.items(), key=lambda item: item[1][0]["name"]):
        authors = {author for package in packages for author in package["authors"]}
        names = [f"{package['name']}-{package['version']}/*" for package in packages]
        print("\n" + field("Files", names))
        print(field("Copyright", sorted(authors) or ["the authors of these crates, and those named below"]))
        text = "\n\n".join(found) or f"The crates come without a text of {expression}. Its terms are in the SPDX list of licences."
        print(f"License: {expression}\n" + "\n".join(" " + (line.rstrip() or ".") for line in text.splitlines()))


main()
