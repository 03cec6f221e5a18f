#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the libraries that the programs of the Debian packages link, with their packages and versions.

    libraries.py ARCH DEBS OUT

DEBS is a directory with the packages libinfer0, sconce and sconce-audio for the architecture ARCH. apt searches for
their dependencies in the Debian release of this system, also for another architecture, and installs nothing. OUT gets

    own/             the files of libinfer0 and sconce
    system/          the packages with the libraries that they need, unpacked
    libraries.json   a list with one object for each package of libraries:
        package, version, architecture, source, source_version: as apt reports them
        files        the libraries that the release tarball carries: path below system/, soname, needed (sonames)
        linked_by    the packages of sconce that link the library directly

Files of the C library are not carried: they belong to the loader of the system on which the programs run. Libraries
that only sconce-audio links have no files here, since the tarball does not contain the audio service.
"""
import json
import pathlib
import re
import subprocess
import sys

PACKAGES = ("libinfer0", "sconce", "sconce-audio")
CARRIED = ("libinfer0", "sconce")
# These packages belong to the loader. A program uses the copy of the system on which it runs.
LOADER = ("libc6",)


def run(*argv):
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if r.returncode:
        raise SystemExit("%s failed:\n%s" % (" ".join(map(str, argv[:3])), (r.stdout + r.stderr)[-3000:]))
    return r.stdout


class Apt:
    """Runs apt as if nothing were installed. It uses the sources of this system, or those in the text @sources (one
    line each). The latter may have expired."""

    def __init__(self, arch, place, sources=None):
        for name in ("state/lists/partial", "cache/archives/partial"):
            (place / name).mkdir(parents=True, exist_ok=True)
        (place / "status").touch()
        self.arch = arch
        self.archives = place / "cache/archives"
        self.options = []
        for option in (f"APT::Architecture={arch}", f"APT::Architectures::={arch}", "APT::Install-Recommends=0",
                       f"Dir::State={place}/state", f"Dir::State::status={place}/status",
                       f"Dir::Cache={place}/cache", "APT::Sandbox::User=root", "Acquire::Languages=none"):
            self.options += ["-o", option]
        if sources is not None:
            (place / "sources.list").write_text(sources)
            self.options += ["-o", f"Dir::Etc::sourcelist={place}/sources.list", "-o", "Dir::Etc::sourceparts=-",
                             "-o", "Acquire::Check-Valid-Until=false"]
        run("apt-get", *self.options, "-qq", "update")

    def closure(self, debs):
        """Returns the versions of all packages that an installation of @debs needs, by their names."""
        out = run("apt-get", *self.options, "-s", "-y", "install", *debs)
        return dict(re.findall(r"^Inst (\S+?)(?::\S+)? \((\S+) ", out, re.M))

    def sources(self, wanted):
        """Returns (source, source_version) of packages by their names; @wanted has their versions by name."""
        out = run("apt-cache", *self.options, "show", *(f"{name}={version}" for name, version in wanted.items()))
        found = {}
        for text in out.split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|Source): (.*)$", text, re.M))
            if wanted.get(fields.get("Package")) == fields.get("Version"):
                source, _, version = fields.get("Source", fields.get("Package", "")).partition(" ")
                found[fields.get("Package")] = (source, version.strip("()") or fields.get("Version"))
        return found

    def download(self, wanted):
        """Downloads packages; returns the paths of the archives by their names."""
        subprocess.run(["apt-get", *self.options, "-qq", "download", *("%s:%s=%s" % (name, self.arch, version)
                        for name, version in wanted.items())], cwd=self.archives, check=True)
        return {path.name.partition("_")[0]: path for path in self.archives.glob("*.deb")}


def dynamic(path):
    """Returns the soname of a library or program and the sonames that it needs; None for other files."""
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
    out = run("readelf", "-d", path)
    soname = re.search(r"\(SONAME\).*\[(.*)\]", out)
    return (soname and soname[1], re.findall(r"\(NEEDED\).*\[(.*)\]", out))


def elf_files(root):
    """Yields (path, soname, needed) of all regular ELF files below a directory."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            if found := dynamic(path):
                yield (path, *found)


def depends(deb):
    """Returns the names of the packages in the field Depends."""
    out = run("dpkg-deb", "-f", deb, "Depends")
    return {re.split(r"[ :|(]", part.strip())[0] for part in out.split(",") if part.strip()}


def follow(needed, libraries):
    """Returns the libraries of @needed and all that they need in turn, as far as @libraries has them. @libraries and
    the result have sonames as keys."""
    found, waiting = {}, list(needed)
    while waiting:
        soname = waiting.pop()
        if soname not in found and soname in libraries:
            found[soname] = libraries[soname]
            waiting += libraries[soname]["needed"]
    return found


def unpack(deb, place):
    place.mkdir(parents=True, exist_ok=True)
    run("dpkg-deb", "-x", deb, place)


def carried(apt, out, debs, versions):
    """Unpacks the packages; returns lists of the carried libraries by the names of their packages."""
    names = {name: version for name, version in versions.items()
             if re.match(r"lib|zlib", name) and name not in PACKAGES + LOADER}
    for name, path in apt.download(names).items():
        if name in names:
            unpack(path, out / "system" / name)
    for name in CARRIED:
        unpack(debs[name], out / "own")
    libraries = {}
    for path, soname, needed in elf_files(out / "system"):
        # Plugins have no soname, or lie below the directory of libraries.
        if soname and re.fullmatch(r"(usr/)?lib/[^/]+", str(path.parent.relative_to(out / "system").as_posix()
                                                            .partition("/")[2])):
            libraries[soname] = {"path": path.relative_to(out / "system").as_posix(), "soname": soname,
                                 "needed": needed}
    own = [needed for _, _, needed in elf_files(out / "own")]
    files = {}
    for library in follow((n for needed in own for n in needed), libraries).values():
        files.setdefault(library["path"].partition("/")[0], []).append(library)
    return files


def main(arch, debs, out):
    out = pathlib.Path(out)
    found = {}
    for name in PACKAGES:
        paths = sorted(pathlib.Path(debs).resolve().glob(f"{name}_*_{arch}.deb"))
        if len(paths) != 1:
            raise SystemExit(f"libraries.py: {debs} has {len(paths)} packages {name} for {arch} instead of one")
        found[name] = paths[0]
    apt = Apt(arch, out / "apt")
    everything = apt.closure(list(found.values()))
    files = carried(apt, out, found, apt.closure([found[name] for name in CARRIED]))
    linked = {}
    for name, deb in found.items():
        for package in depends(deb) & set(everything) - set(PACKAGES):
            if re.match(r"lib|zlib", package):
                linked.setdefault(package, []).append(name)
    sources = apt.sources({name: everything[name] for name in {*files, *linked}})
    rows = [{"package": name, "version": everything[name], "architecture": arch,
             "source": sources[name][0], "source_version": sources[name][1],
             "files": sorted(files.get(name, []), key=lambda f: f["soname"]), "linked_by": linked.get(name, [])}
            for name in sorted({*files, *linked})]
    (out / "libraries.json").write_text(json.dumps(rows, indent=1) + "\n")
    print("%s: %d packages of libraries; the tarball carries %d libraries" % (
        arch, len(rows), sum(len(row["files"]) for row in rows)))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
