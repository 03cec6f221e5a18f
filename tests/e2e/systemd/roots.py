# SPDX-License-Identifier: Apache-2.0
"""Makes root directories for machines. They are made once, kept, and stacked below each machine as
layers.

A base is a minimal Debian with systemd and apt's lists, made by mmdebstrap. A layer has the files
that one apt command adds to a base and to the layers on it; for tests of packages, the first layer
has the archives of their dependencies, so that a machine without network can install them. A root
is an overlay over layers and a base (or a copy, where that is requested or the kernel refuses
overlays), and belongs to one machine.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import uuid

TREE = pathlib.Path(__file__).resolve().parents[3]
BUILD_ROOT = pathlib.Path(os.environ.get("BUILD_ROOT", TREE / "build-tests")).resolve()
STORE = BUILD_ROOT / "machines"

PACKAGES = ("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd",
            "libnss-systemd", "procps", "curl", "ca-certificates", "iproute2", "strace",
            "python3-minimal")
# Units that a test machine does not need, and units that use the network or wait for it.
MASKED = ("console-getty.service", "getty.target", "systemd-networkd-wait-online.service",
          "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
          "fstrim.timer", "systemd-tmpfiles-clean.timer")


def suite():
    """Returns the Debian release of the machines: SCONCE_SUITE, or that of this system."""
    return os.environ.get("SCONCE_SUITE") or own_suite()


def own_suite():
    """Returns the Debian release of this system; Debian 12 if it is not Debian."""
    release = {}
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        release[name] = value.strip('"')
    if release.get("ID") == "debian":
        return release.get("VERSION_CODENAME", "bookworm")
    return "bookworm"


def say(text):
    print("machine: " + text, flush=True)


def apt_options():
    """Returns the apt configuration of this system (proxies, limits), for a root of the same
    kind."""
    r = subprocess.run(["apt-config", "dump"], capture_output=True, text=True)
    return "".join(line + "\n" for line in r.stdout.splitlines()
                   if line.startswith("Acquire::") and not line.endswith('"";'))


def apt_get(root, *args):
    """Runs apt-get in a root that is not booted, with this system's network."""
    r = subprocess.run(
        ["systemd-nspawn", "-q", "--register=no", "--console=pipe", "--link-journal=no",
         *([] if systemd_runs() else ["--keep-unit"]), "--machine=" + root.name,
         "--resolv-conf=replace-host", "-D", str(root.path), "apt-get", "-q", "-y",
         "--no-install-recommends", *args],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
    if r.returncode:
        raise RuntimeError("apt-get %s:\n%s" % (" ".join(args), r.stdout[-3000:]))


def systemd_runs():
    return os.path.isdir("/run/systemd/system")


def make_base(name=None, include=PACKAGES):
    """Returns a base as a tuple of one directory, which nothing writes to. Makes the base if it
    does not exist. @include are packages beside the essential ones."""
    name = name or suite()
    key = hashlib.sha256(" ".join((name, *include, *MASKED, "1")).encode()).hexdigest()[:12]
    base = STORE / ("base-%s-%s" % (name, key))
    if base.exists():
        return (base,)
    STORE.mkdir(parents=True, exist_ok=True)
    part = STORE / ("part-%s-%d" % (name, os.getpid()))
    shutil.rmtree(part, ignore_errors=True)
    options = STORE / ("apt-%d.conf" % os.getpid())
    options.write_text(apt_options())
    say("making a root of %s with mmdebstrap" % name)
    try:
        r = subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", "--format=directory", "--mode=root",
             "--skip=cleanup/apt/lists", *(["--include=" + ",".join(include)] if include else []),
             "--aptopt=" + str(options), name, str(part),
             *os.environ.get("SCONCE_MIRROR", "").split()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if r.returncode:
            raise RuntimeError("mmdebstrap failed:\n" + r.stdout[-3000:])
        for unit in MASKED if "systemd" in include else ():
            (part / "etc/systemd/system" / unit).symlink_to("/dev/null")
        (part / "etc/hostname").write_text("machine\n")
        (part / "etc/hosts").write_text("127.0.0.1 localhost machine\n")
        try:
            part.rename(base)
        except OSError:  # another test run has made it in the meantime
            if not base.exists():
                raise
    finally:
        options.unlink()
        shutil.rmtree(part, ignore_errors=True)
    return (base,)


def make_layer(base, key, *args, files=()):
    """Returns @base, a tuple of directories, preceded by a directory with the result of `apt-get
    @args`. @files are copied to /var/cache/sconce-files while it runs. @key must be different if the
    result would be different."""
    digest = hashlib.sha256(" ".join((*(str(b) for b in base), key, *args)).encode())
    layer = STORE / ("layer-%s" % digest.hexdigest()[:12])
    if not layer.exists():
        say("apt-get " + " ".join(args))
        root = Root(base)
        try:
            place = root.path / "var/cache/sconce-files"
            place.mkdir()
            for file in files:
                shutil.copy(file, place)
            apt_get(root, *args)
            shutil.rmtree(place)
            root.keep(layer)
        finally:
            root.free()
    return (layer, *base)


class Root:
    """Represents a writable root over @base, a tuple of directories with the topmost first. free()
    unmounts and removes it. With @copy the root is a single directory on a plain file system."""

    def __init__(self, base, copy=False):
        self.name = "m" + uuid.uuid4().hex[:8]
        self.place = STORE / "run" / self.name
        self.path = self.place / "root"
        self.path.mkdir(parents=True)
        (self.place / "owner").write_text(str(os.getpid()))
        for part in ("upper", "work"):
            (self.place / part).mkdir()
        options = "lowerdir=%s,upperdir=%s,workdir=%s" % (
            ":".join(map(str, base)), self.place / "upper", self.place / "work")
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(self.path)]
        self.mounted = not copy and subprocess.run(mount, capture_output=True).returncode == 0
        if not self.mounted:
            for layer in reversed(base):
                subprocess.run(["cp", "-a", "--reflink=auto", "%s/." % layer, str(self.path)],
                               check=True)
        # An empty machine-id would make this the first boot, which enables units by preset.
        (self.path / "etc/machine-id").write_text(uuid.uuid4().hex + "\n")

    def keep(self, layer):
        """Moves what was written to the root to a directory of its own, which becomes a layer."""
        if self.mounted:
            subprocess.run(["umount", str(self.path)], check=True)
        source = self.place / ("upper" if self.mounted else "root")
        try:
            source.rename(layer)
        except OSError:  # another test run has made it in the meantime
            if not layer.exists():
                raise

    def free(self):
        release(self.place)


def release(place):
    root = place / "root"
    for rest in pathlib.Path("/run/systemd/nspawn/propagate").glob(place.name):
        shutil.rmtree(rest, ignore_errors=True)
    if os.path.ismount(root):
        if subprocess.run(["umount", str(root)], capture_output=True).returncode:
            subprocess.run(["umount", "-l", str(root)], check=True)
    subprocess.run(["rm", "-rf", "--one-file-system", str(place)], check=True)


def release_abandoned():
    """Frees the roots of test runs that were killed, and returns the names of their machines."""
    names = []
    for place in (STORE / "run").glob("m*"):
        try:
            owner = int((place / "owner").read_text())
        except (OSError, ValueError):
            continue
        if not os.path.exists("/proc/%d" % owner):
            release(place)
            names.append(place.name)
    return names
