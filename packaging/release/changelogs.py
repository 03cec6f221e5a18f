#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the libraries of a release with the CVEs that Debian's changelogs name, with nothing but apt.

    changelogs.py ACCEPTED BILL...

BILL is a file that sbom.py wrote, and ACCEPTED the file that weaknesses.py reads. The program downloads, and does not
install, the newest packages of the libraries in the Debian release of this system, in the stable one, and in unstable,
and reads their changelogs. It prints

    missing  a CVE that a newer version in the same Debian release fixes: the release has to be made again
    ended    a source package whose security support has ended, from the package debian-security-support
    limited  a source package that gets security support for some uses only
    unclear  a CVE that a changelog of a newer Debian release names, and no changelog of this Debian release

A changelog names a CVE only if somebody has fixed it and wrote so. The program therefore finds no weakness that is not
fixed yet, and an unclear CVE may concern only newer versions, so somebody has to look at it. weaknesses.py answers both
questions, but needs the list of Debian's security tracker. The status is 1 if something is missing or ended, and 2 if
apt cannot get the changelogs.
"""
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from libraries import Apt, run
from weaknesses import is_older, read_accepted

SUPPORT = "debian-security-support"
KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Newer Debian releases, by the label of the repository.
NEWER = {"stable": {"Debian": "stable", "Debian-Security": "stable-security"}, "unstable": {"Debian": "unstable"}}


def libraries(bills):
    """Returns sets of package names by (source package, its version), for all libraries in the bills."""
    found = {}
    for path in bills:
        for component in json.loads(pathlib.Path(path).read_text())["components"]:
            about = {p["name"]: p["value"] for p in component.get("properties", ())}
            if "debian:source" in about:
                key = about["debian:source"], about["debian:source-version"]
                found.setdefault(key, set()).add(component["name"])
    return found


def repositories(apt):
    """Returns the addresses of the repositories of this system by their labels."""
    out = run("apt-get", *apt.options, "indextargets", "--format", "$(LABEL)|$(REPO_URI)", "Created-By: Packages")
    return dict(line.split("|", 1) for line in out.splitlines() if "|" in line)


def newer_sources(places, suites):
    signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    return "".join(f"deb {signed}{places[label]} {suite} main\n" for label, suite in suites.items() if label in places)


def packages(apt):
    """Returns lists of (size, package, version) by source package, the smallest package first."""
    found = {}
    for text in run("apt-cache", *apt.options, "dumpavail").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Source|Size): (.*)$", text, re.M))
        if len(fields) >= 3:
            source = fields.get("Source", fields["Package"]).partition(" ")[0]
            found.setdefault(source, []).append((int(fields["Size"]), fields["Package"], fields["Version"]))
    return {source: sorted(rows) for source, rows in found.items()}


def read_changelog(deb):
    """Returns the text of Debian's changelog in a package, or None."""
    files = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE, check=True).stdout
    for kind in ("changelog.Debian.gz", "changelog.gz"):
        r = subprocess.run(["tar", "-x", "-O", "--wildcards", f"./usr/share/doc/*/{kind}"], input=files,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if r.returncode == 0 and r.stdout:
            return gzip.decompress(r.stdout).decode(errors="replace")
    return None


def changelogs(apt, sources):
    """Returns the changelogs of the newest versions, by source package. Sources without a changelog are left out."""
    known, found = packages(apt), {}
    # The directory of documents of a package may be a link to that of another one, so up to three are tried.
    for attempt in range(3):
        wanted = {row[1]: (source, row[2]) for source in sources if source not in found
                  for row in known.get(source, [])[attempt:attempt + 1]}
        if not wanted:
            continue
        debs = apt.download({name: version for name, (_, version) in wanted.items()})
        for name, (source, _) in wanted.items():
            if name in debs and (text := read_changelog(debs[name])):
                found[source] = text
    return found


def first_fixes(text):
    """Returns, for each CVE in a changelog, the oldest version whose entry names it."""
    found, version = {}, None
    for line in text.splitlines():
        if head := re.match(r"[a-z0-9][a-z0-9+.-]* \(([^)\s]+)\)", line):
            version = head[1]
        for cve in re.findall(r"CVE-\d{4}-\d{4,}", line):
            if version:
                found[cve] = version
    return found


def support(apt, sources, release):
    """Yields (kind, source package, explanation) of sources without full security support."""
    about = packages(apt).get(SUPPORT)
    if not about:
        raise SystemExit(f"the repositories have no package {SUPPORT}")
    deb = apt.download({SUPPORT: about[0][2]})[SUPPORT]
    with tempfile.TemporaryDirectory() as place:
        run("dpkg-deb", "-x", deb, place)
        top = pathlib.Path(place) / "usr/share" / SUPPORT
        for kind, name in (("ended", f"security-support-ended.deb{release}"), ("limited", "security-support-limited")):
            for line in (top / name).read_text().splitlines() if (top / name).exists() else ():
                words = line.split()
                if words and not line.startswith("#"):
                    for source in sources:
                        if re.fullmatch(words[0], source):
                            yield kind, source, " ".join(words[1:])


def report(rows, own, newer, accepted):
    """Prints what the changelogs tell about the libraries; returns the numbers by kind. @own has the texts of this
    Debian release by source package, and @newer those of other releases by release."""
    counts = {"fixed": 0, "missing": 0, "unclear": 0, "accepted": 0}

    def say(kind, cve, source, version, text):
        kind = "accepted" if (cve, source) in accepted else kind
        counts[kind] += 1
        print(f"  {kind}: {cve} {source} {version}: {accepted.get((cve, source), text)}")

    for source, version in sorted(rows):
        fixes = first_fixes(own.get(source, ""))
        for cve, fixed in sorted(fixes.items()):
            if is_older(version, fixed):
                say("missing", cve, source, version, f"fixed in {fixed}")
            else:
                counts["fixed"] += 1
        seen = set(fixes)
        for name, texts in newer.items():
            for cve, fixed in sorted(first_fixes(texts.get(source, "")).items()):
                if cve not in seen:
                    seen.add(cve)
                    say("unclear", cve, source, version, f"{fixed} in {name} names it")
    return counts


def compare(accepted, bills):
    rows = libraries(bills)
    sources = {source for source, _ in rows}
    release = re.search(r'^VERSION_ID="?(\d+)', pathlib.Path("/etc/os-release").read_text(), re.M)
    arch = run("dpkg", "--print-architecture").strip()
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        apt = Apt(arch, place / "own")
        places = repositories(apt)
        if "Debian-Security" not in places:
            raise SystemExit("the sources of apt do not contain the repository of security updates")
        own = changelogs(apt, sources)
        newer = {name: changelogs(Apt(arch, place / name, newer_sources(places, suites)), sources)
                 for name, suites in NEWER.items()}
        limits = sorted(support(apt, sources, release[1] if release else ""))
    counts = report(rows, own, newer, accepted)
    for kind, source, text in limits:
        print(f"  {kind}: {source}: {text}")
    unread = sorted(sources - set(own))
    print(f"{len(sources)} source packages of libraries: {counts['missing']} missing fixes, {counts['unclear']} "
          f"unclear CVEs, {counts['accepted']} accepted; their changelogs name {counts['fixed']} CVEs as fixed"
          f"{'; without a changelog: ' + ' '.join(unread) if unread else ''}")
    return counts["missing"] > 0 or any(kind == "ended" for kind, _, _ in limits)


def main(accepted, *bills):
    accepted = read_accepted(accepted)
    try:
        return int(compare(accepted, bills))
    except (SystemExit, OSError, subprocess.SubprocessError) as e:
        print(f"changelogs.py: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
