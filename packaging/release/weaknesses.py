#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the libraries of a release with the known weaknesses (CVEs) in Debian's list.

    weaknesses.py LIST ACCEPTED BILL...

LIST is the JSON file of Debian's security tracker: it has an object for each source package, and in
it an object for each CVE. This object says for each Debian release whether the CVE is "open" or
"resolved", and in which version it is fixed. BILL is a file that sbom.py wrote. ACCEPTED names
weaknesses that do not concern sconce, one a line: CVE, source package, reason. The program prints
each weakness of a library, and fails if one of them is not accepted. Weaknesses that Debian calls
unimportant, since no program can be attacked through them, are only counted.
"""
import json
import pathlib
import re
import subprocess
import sys


def read_list(path):
    try:
        found = json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as e:
        raise SystemExit(f"weaknesses.py: the list of weaknesses {path} cannot be read: {e}") from None
    if not isinstance(found, dict) or not all(isinstance(cves, dict) for cves in found.values()):
        raise SystemExit(f"weaknesses.py: {path} is not a list of Debian's security tracker")
    return found


def read_accepted(path):
    """Returns the reasons by pairs of CVE and source package."""
    accepted = {}
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split(None, 2)
        if len(words) < 3 or not re.fullmatch(r"CVE-\d{4}-\d{4,}", words[0]):
            raise SystemExit(f"{path}:{number}: a line has a CVE, a source package and a reason")
        accepted[words[0], words[1]] = words[2]
    return accepted


def sources(bills):
    """Returns the sorted triples (release, source package, version) of all libraries in the bills."""
    found = set()
    for path in bills:
        for component in json.loads(pathlib.Path(path).read_text())["components"]:
            about = {p["name"]: p["value"] for p in component.get("properties", ())}
            if "debian:source" in about:
                found.add(tuple(about["debian:" + key] for key in ("release", "source", "source-version")))
    return sorted(found)


def is_older(version, fixed):
    return subprocess.run(["dpkg", "--compare-versions", version, "lt", fixed], check=False).returncode == 0


def weakness(about, release, version):
    """Returns (urgency, state in words) if a version in a release has the weakness, or None."""
    state = about.get("releases", {}).get(release)
    if state is None:
        return None
    fixed = state.get("fixed_version")
    if state.get("status") == "resolved":
        # The version 0 says that the release never had the weakness.
        if not fixed or fixed == "0" or not is_older(version, fixed):
            return None
        return state.get("urgency", ""), f"fixed in {fixed}"
    return state.get("urgency", ""), "not fixed in " + release


def main(path, accepted, *bills):
    known, accepted = read_list(path), read_accepted(accepted)
    bad = unimportant = fine = 0
    rows = sources(bills)
    for release, source, version in rows:
        for cve, about in sorted(known.get(source, {}).items()):
            found = weakness(about, release, version)
            if not found:
                continue
            if (cve, source) in accepted:
                fine += 1
                print(f"  accepted: {cve} {source} {version}: {accepted[cve, source]}")
            elif found[0] == "unimportant":
                unimportant += 1
            else:
                bad += 1
                print(f"  {cve} {source} {version}: {found[1]}"
                      f"{', urgency ' + found[0] if found[0] else ''}")
    print(f"{len(rows)} source packages of libraries: {bad} known weaknesses, "
          f"{fine} accepted, {unimportant} unimportant")
    return bad > 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
