# SPDX-License-Identifier: Apache-2.0
"""Builds the packages under test from the last commit, unless they exist already.

SCONCE_DEBS       a directory with packages that are already built
SCONCE_BUILD_USR  a build directory with the prefix /usr: `meson install` of it replaces the
                  packages, for a quick test of work in progress
"""
import hashlib
import os
import pathlib
import shutil
import subprocess

from possible import missing
from roots import BUILD_ROOT, TREE, make_base, make_layer, say, suite

RUNTIME = {
    "bookworm": ("libh2o-evloop0.13", "libjansson4", "libyaml-0-2", "libpcre2-8-0", "libutf8proc2",
                 "libedit2", "libssl3", "libseccomp2", "libsqlite3-0", "libavformat59", "libavcodec59",
                 "libavutil57", "libswresample4"),
}


def state():
    """Returns a hash of the source of the packages: the last commit without its tests."""
    git = ["git", "-c", "safe.directory=*", "ls-tree", "HEAD"]
    try:
        lines = subprocess.run(git, cwd=TREE, capture_output=True, text=True,
                               check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    lines = [line for line in lines if not line.endswith("\ttests")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def other_cpus():
    """Returns the build option that saves time on kernels for other CPUs, unless all tests run."""
    return "" if os.environ.get("SCONCE_TEST_FULL") else " noothercpus"


def built():
    """Returns the directory with the packages, which are rebuilt if the source has changed."""
    if os.environ.get("SCONCE_DEBS"):
        return pathlib.Path(os.environ["SCONCE_DEBS"])
    out = BUILD_ROOT / ("debs-" + suite())
    stamp = out / "state"
    now = state()
    now = now and now + other_cpus()
    if now and stamp.exists() and stamp.read_text() == now:
        return out
    shutil.rmtree(out, ignore_errors=True)
    build(TREE, out)
    stamp.write_text(now or "")
    return out


def build(tree, out):
    say("building the packages")
    out.mkdir(parents=True)
    with open(str(out) + ".log", "wb") as log:
        r = subprocess.run(["sh", str(tree / "packaging/build-deb.sh"), str(out)], cwd=tree,
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                           env={**os.environ, "DEB_BUILD_OPTIONS": "nocheck noautodbgsym" + other_cpus(),
                                "DEB_BUILD_PROFILES": "nocheck"})
    if r.returncode:
        text = pathlib.Path(str(out) + ".log").read_text(errors="replace")
        raise RuntimeError("the packages do not build:\n" + text[-3000:])


def runtime(directory):
    """Returns the packages of a complete installation."""
    return [next(iter(sorted(directory.glob(name + "_*.deb"))))
            for name in ("libinfer0", "sconce", "sconce-audio")]


def install_build(machine, build):
    """Runs `meson install` of a build directory into a machine, instead of installing packages."""
    env = {**os.environ, "DESTDIR": str(machine.path("/"))}
    subprocess.run(["meson", "install", "-C", str(build), "--no-rebuild", "--quiet"], env=env,
                   check=True)
    machine.run("ldconfig; systemd-sysusers; systemd-tmpfiles --create; systemctl daemon-reload;"
                "sconce setup access keys; systemctl enable --now sconce.target")


def layers(base, debs):
    """Returns @base with the archives of the packages' dependencies in apt's cache, not installed.
    If there are no packages, the result has the libraries that an installation by `meson install`
    needs."""
    if not debs:
        return make_layer(base, "", "install", *RUNTIME[suite()])
    files = runtime(debs)
    return make_layer(base, "\n".join(map(dependencies, files)), "--download-only", "install",
                      *("/var/cache/sconce-files/" + deb.name for deb in files), files=files)


def dependencies(deb):
    return subprocess.run(["dpkg-deb", "-f", str(deb), "Package", "Depends", "Pre-Depends"],
                          check=True, capture_output=True, text=True).stdout


def ready(layer):
    """Returns @layer, a result of layers(), with the dependencies installed: only the packages are
    missing."""
    archives = (layer[0] / "var/cache/apt/archives").glob("*.deb")
    return make_layer(layer, "", "install", *sorted({a.name.partition("_")[0] for a in archives}))


if __name__ == "__main__":
    # Builds the roots before the tests, if the tests can use machines.
    debs = built()
    if not missing():
        ready(layers(make_base(), debs))
