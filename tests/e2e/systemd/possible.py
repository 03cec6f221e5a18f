# SPDX-License-Identifier: Apache-2.0
"""Whether machines can run on this system, found out by starting a small one.

As a program it prints why they cannot, and exits 1; where they can, it says nothing and exits 0.
"""
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import uuid

from nspawn import container, enter, make_cgroups, remove_cgroup
from roots import own_suite, suite

PROGRAMS = ("systemd-nspawn", "mmdebstrap", "nsenter", "unshare", "dpkg-deb")
# What systemd does in a machine before anything else, and a chroot inside a chroot may not.
TRIAL = "mount -t tmpfs tmpfs /mnt && mkdir /sys/fs/cgroup/trial && rmdir /sys/fs/cgroup/trial"


@functools.cache
def missing():
    """Why no machine can run here; None: one can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in PROGRAMS:
        if not shutil.which(program):
            return "no " + program
    if not os.path.ismount("/sys/fs/cgroup"):
        return "no cgroups below /sys"
    if suite() != own_suite() and not os.environ.get("SCONCE_DEBS"):
        return "packages for %s cannot be built here: SCONCE_DEBS may name some" % suite()
    return refusal()


def refusal():
    """What systemd-nspawn says when it cannot run a program; None: it can. The program belongs to
    this system, whose /usr it sees."""
    name = "trial" + uuid.uuid4().hex[:8]  # tempfile's names are none that a machine may have
    with tempfile.TemporaryDirectory(prefix="sconce-trial-") as root:
        skeleton(pathlib.Path(root))
        cgroups = make_cgroups(name)
        argv, env = container(name, root)
        try:
            r = subprocess.run([*argv, "--bind-ro=/usr", "/usr/bin/sh", "-c", TRIAL],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=env, timeout=60,
                               preexec_fn=lambda: enter(cgroups), start_new_session=True)
        except (OSError, subprocess.SubprocessError) as e:
            return "systemd-nspawn cannot run a program here: %s" % e
        finally:
            for path in cgroups:
                remove_cgroup(path)
    if r.returncode == 0:
        return None
    return "systemd-nspawn cannot run a program here: %s" % (
        "; ".join(r.stdout.split("\n")).strip("; \n") or "status %d" % r.returncode)


def skeleton(root):
    """The directories and links that a root with the /usr of this system has beside it."""
    for name in ("usr", "etc", "mnt", "proc", "sys", "dev", "run", "tmp", "var"):
        (root / name).mkdir()
    for link in pathlib.Path("/").iterdir():
        if link.is_symlink() and os.readlink(link).lstrip("/").startswith("usr/"):
            (root / link.name).symlink_to(os.readlink(link))


if __name__ == "__main__":
    reason = missing()
    if reason:
        print(reason)
    sys.exit(1 if reason else 0)
