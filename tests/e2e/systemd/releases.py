# SPDX-License-Identifier: Apache-2.0
"""Makes a release of the last commit with packaging/release.sh, signed with a key that is made for it.

SCONCE_RELEASE  a directory that packaging/release.sh made, which is used instead
"""
import os
import pathlib
import shutil
import subprocess

import packages
from roots import BUILD_ROOT, TREE, say, suite


def run(*argv, **options):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **options).stdout.strip()


def make_key(work):
    """Makes a key pair; returns the file with the secret key."""
    (work / "keys").mkdir(mode=0o700)
    env = {**os.environ, "GNUPGHOME": str(work / "keys")}
    run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", "release@sconce.example", "ed25519",
        env=env)
    with open(work / "key", "wb") as key:
        subprocess.run(["gpg", "--batch", "--export-secret-keys"], env=env, stdout=key, check=True)
    run("gpgconf", "--kill", "all", env=env)
    return work / "key"


def collect(debs, place):
    """Puts the packages of the last commit into a directory; returns the options for their architectures. The
    packages for arm64 are there if tests/build.sh has made them."""
    place.mkdir()
    options = []
    own = run("dpkg", "--print-architecture")
    for directory, arch in ((debs, own), (BUILD_ROOT / "debs-arm64", "arm64")):
        found = list(directory.glob("*.deb"))
        if found and arch not in options:
            options += ["--arch", arch]
            for deb in found:
                shutil.copy2(deb, place)
    return options


def made(debs):
    """Returns the directory of the release, which is made again if the sources have changed."""
    if os.environ.get("SCONCE_RELEASE"):
        return pathlib.Path(os.environ["SCONCE_RELEASE"]).resolve()
    work = BUILD_ROOT / ("release-" + suite())
    now = packages.state()
    if now and (work / "state").exists() and (work / "state").read_text() == now:
        return work / "out"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    say("making a release")
    git = ("git", "-c", "safe.directory=*")
    run(*git, "clone", "-q", "--shared", str(TREE), str(work / "tree"))
    tag = "v" + run("python3", "packaging/release/version.py", cwd=work / "tree")
    run(*git, "tag", "-f", tag, cwd=work / "tree")
    make_key(work)
    r = subprocess.run(["sh", "tree/packaging/release.sh", "--key", "key", "--debs", "debs",
                        *collect(debs, work / "debs"), "--out", "out", tag], cwd=work, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError("the release cannot be made:\n" + (r.stdout + r.stderr)[-3000:])
    (work / "state").write_text(now or "")
    return work / "out"
