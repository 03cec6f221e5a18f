#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the release tarball for Linux distributions without a package of sconce.

    bundle.py NAME WORK OUT

WORK is a directory that libraries.py has filled. OUT gets NAME.tar.gz. Its directory NAME contains the programs,
units, manual pages and completions of the packages libinfer0 and sconce, the libraries that the programs need, with
their licences, and install.sh. The programs find the libraries through a run path that begins with $ORIGIN, the
directory of the program, so the directory may have any place. All files have the time SOURCE_DATE_EPOCH.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from libraries import dynamic, run

HERE = pathlib.Path(__file__).resolve().parent
# Directories of the packages, and their names in the tarball. A star stands for the name of the architecture.
FOLDERS = (("usr/bin", "bin"), ("usr/libexec/sconce", "libexec/sconce"), ("usr/share/sconce", "share/sconce"),
           ("usr/share/man", "share/man"), ("usr/share/bash-completion", "share/bash-completion"),
           ("usr/share/fish", "share/fish"), ("usr/share/zsh/vendor-completions", "share/zsh/site-functions"),
           ("usr/lib/systemd/user", "share/systemd/user"), ("usr/share/doc/sconce", "share/doc/sconce"))
# The directory of the libraries, seen from the directories with programs and libraries.
RUN_PATHS = (("bin", "$ORIGIN/../lib"), ("libexec/sconce", "$ORIGIN/../../lib"), ("lib", "$ORIGIN"))


def copy_own(own, top):
    for source, target in FOLDERS:
        if (own / source).is_dir():
            shutil.copytree(own / source, top / target, symlinks=True, dirs_exist_ok=True)
    shutil.copy(own / "etc/sconce/sconce.yaml", top / "share/doc/sconce/sconce.yaml")
    for path in sorted(own.glob("usr/lib/*/libinfer.so.*")):
        if not path.is_symlink():
            shutil.copy(path, top / "lib" / dynamic(path)[0])


def copy_libraries(work, top):
    licences = top / "share/doc/sconce/licences"
    licences.mkdir(parents=True)
    for row in json.loads((work / "libraries.json").read_text()):
        if not row["files"]:
            continue
        for library in row["files"]:
            shutil.copy(work / "system" / library["path"], top / "lib" / library["soname"])
        documents = work / "system" / row["package"] / "usr/share/doc"
        # The directory of documents may be a link to that of another package of the same source.
        texts = [path for path in (documents / row["package"] / "copyright", *sorted(documents.glob("*/copyright")),
                                   *sorted(work.glob(f"system/{row['source']}*/usr/share/doc/*/copyright")),
                                   *(work / "system" / p / "usr/share/doc" / p / "copyright"
                                     for p in links(documents))) if path.is_file()]
        if not texts:
            raise SystemExit(f"bundle.py: {row['package']} has no file with its licence")
        shutil.copy(texts[0], licences / row["package"])


def links(documents):
    """Returns the names of packages to which directories of documents are links."""
    return [os.readlink(path).rpartition("/")[2] for path in sorted(documents.iterdir()) if path.is_symlink()]


def set_run_paths(top):
    for folder, run_path in RUN_PATHS:
        for path in sorted((top / folder).iterdir()):
            if path.is_file() and not path.is_symlink() and dynamic(path):
                path.chmod(0o755)
                subprocess.run(["patchelf", "--set-rpath", run_path, path], check=True)


def check_complete(top):
    """Fails if a program needs a library that is neither here nor a part of the C library."""
    there = {path.name for path in (top / "lib").iterdir()}
    missing = set()
    for folder, _ in RUN_PATHS:
        for path in (top / folder).iterdir():
            found = dynamic(path) if path.is_file() else None
            missing |= {n for n in (found[1] if found else ()) if n not in there}
    strange = {n for n in missing if n.split(".so")[0] not in (
        "libc", "libm", "libdl", "libpthread", "librt", "libresolv", "libanl", "libutil", "ld-linux-x86-64",
        "ld-linux-aarch64")}
    if strange:
        raise SystemExit("bundle.py: these libraries are missing: " + " ".join(sorted(strange)))


def write_needs(top):
    """Writes which system the programs need: processor and version of the C library."""
    newest, machines = 0, set()
    for folder, _ in RUN_PATHS:
        for path in (top / folder).iterdir():
            if path.is_file() and dynamic(path):
                newest = max([newest, *map(int, re.findall(r"GLIBC_2\.(\d+)", run("readelf", "-VW", path)))])
                machines.add(re.search(r"Machine: *.*?([\w-]+)$", run("readelf", "-h", path), re.M)[1].lower())
    (top / "share/doc/sconce/needs").write_text(
        f"Linux on {' and '.join(machines)} with the GNU C library 2.{newest} or newer.\n")


def pack(top, out):
    epoch = os.environ["SOURCE_DATE_EPOCH"]
    with open(out, "wb") as file:
        tar = subprocess.Popen(["tar", "-c", "--sort=name", "--format=gnu", "--mtime=@" + epoch,
                                "--mode=u=rwX,go=rX", "--owner=0", "--group=0", "--numeric-owner",
                                "-C", str(top.parent), top.name], stdout=subprocess.PIPE)
        subprocess.run(["gzip", "-n", "-9"], stdin=tar.stdout, stdout=file, check=True)
        if tar.wait():
            raise SystemExit("bundle.py: tar failed")


def main(name, work, out):
    work = pathlib.Path(work)
    top = work / name
    shutil.rmtree(top, ignore_errors=True)
    (top / "lib").mkdir(parents=True)
    copy_own(work / "own", top)
    # The audio service is not in the tarball, so nothing may offer its units.
    for path in (top / "share/systemd/user").glob("sconce-audio.*"):
        path.unlink()
    copy_libraries(work, top)
    set_run_paths(top)
    check_complete(top)
    write_needs(top)
    shutil.copy(HERE / "install.sh", top / "install.sh")
    pack(top, pathlib.Path(out) / f"{name}.tar.gz")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
