#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the software bill of materials of a release as CycloneDX 1.5 (ECMA-424) in JSON.

    sbom.py NAME VERSION RELEASE WORK OUT

RELEASE is the code name of the Debian release whose libraries the programs link, and WORK a directory that
libraries.py has filled. The bill lists the packages of libraries that a program of sconce links or
that the tarball carries, with versions and source packages. It lists each carried library as a file
with its SHA-256. It also lists the copy of libh2o, if it is built in, and the bundled model. OUT is
the file. Equal input gives equal bytes: the time is SOURCE_DATE_EPOCH, and the serial number
follows from the name.
"""
import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import urllib.parse
import uuid

TREE = pathlib.Path(__file__).resolve().parents[2]
SPACE = uuid.UUID("6f0c1ec5-6a0f-4d1c-9a53-5c5b0a1f7d11")  # for serial numbers; drawn at random, once


def digest(path):
    return [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}]


def purl(row, release):
    """Returns the package URL of a binary package of Debian."""
    quote = urllib.parse.quote
    upstream = quote(f"{row['source']}@{row['source_version']}", safe="")
    return (f"pkg:deb/debian/{quote(row['package'])}@{quote(row['version'], safe='')}"
            f"?arch={row['architecture']}&distro={release}&upstream={upstream}")


def library(row, release, work):
    """Returns the component of a package of libraries, with the carried files in it."""
    component = {
        "type": "library", "bom-ref": purl(row, release), "name": row["package"], "version": row["version"],
        "purl": purl(row, release),
        "properties": [{"name": "debian:release", "value": release},
                       {"name": "debian:source", "value": row["source"]},
                       {"name": "debian:source-version", "value": row["source_version"]},
                       *({"name": "sconce:linked-by", "value": name} for name in row["linked_by"])]}
    files = [{"type": "file", "name": file["soname"], "hashes": digest(work / "system" / file["path"])}
             for file in row["files"]]
    return {**component, **({"components": files} if files else {})}


def built_in(rows, release):
    """Returns the component of libh2o if its source is built into the programs; then no package of
    it is linked."""
    if any(row["package"].startswith("libh2o") for row in rows):
        return []
    wrap = (TREE / "packaging/subprojects/libh2o.wrap").read_text()
    version = re.search(r"^source_filename *= *h2o_(.*)\.orig", wrap, re.M)[1]
    ref = f"pkg:generic/h2o@{urllib.parse.quote(version, safe='')}"
    return [{"type": "library", "bom-ref": ref, "name": "libh2o", "version": version, "purl": ref,
             "hashes": [{"alg": "SHA-256", "content": re.search(r"^source_hash *= *(\w+)", wrap, re.M)[1]}],
             "properties": [{"name": "debian:release", "value": release},
                            {"name": "debian:source", "value": "h2o"},
                            {"name": "debian:source-version", "value": version}]}]


def models(work, version):
    return [{"type": "machine-learning-model", "bom-ref": "model:" + path.stem, "name": path.stem,
             "version": version, "hashes": digest(path)}
            for path in sorted((work / "own/usr/share/sconce/models").glob("*.gguf"))]


def dependencies(top, rows, components, release):
    """Returns which component needs which others: sconce needs the linked ones, and libraries need
    each other."""
    owner = {file["soname"]: purl(row, release) for row in rows for file in row["files"]}
    direct = [purl(row, release) for row in rows if row["linked_by"]]
    known = {purl(row, release) for row in rows}
    direct += [c["bom-ref"] for c in components if c["bom-ref"] not in known]
    result = [{"ref": top, "dependsOn": sorted(direct)}]
    for row in rows:
        needed = {owner[n] for file in row["files"] for n in file["needed"] if n in owner} - {purl(row, release)}
        result.append({"ref": purl(row, release), "dependsOn": sorted(needed)})
    return result


def bill(name, version, release, work):
    rows = json.loads((work / "libraries.json").read_text())
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    top = f"pkg:generic/sconce@{version}"
    components = [*(library(row, release, work) for row in rows), *built_in(rows, release),
                  *models(work, version)]
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": "urn:uuid:" + str(uuid.uuid5(SPACE, name)),
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": top, "name": "sconce", "version": version, "purl": top,
                          "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components,
        "dependencies": dependencies(top, rows, components, release)}


def main(name, version, release, work, out):
    text = json.dumps(bill(name, version, release, pathlib.Path(work)), indent=2, sort_keys=True)
    pathlib.Path(out).write_text(text + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
