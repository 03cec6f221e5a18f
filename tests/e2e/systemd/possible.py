# SPDX-License-Identifier: Apache-2.0
"""Finds out whether machines can run on this system, by starting a small one.

As a program, this file prints the reason and exits with 1 if they cannot run; otherwise it prints
nothing and exits with 0.
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
# systemd's first actions in a machine. A system that is itself a chroot may not be allowed to do
# them.
TRIAL = "mount -t tmpfs tmpfs /mnt && mkdir /sys/fs/cgroup/trial && rmdir /sys/fs/cgroup/trial"


@functools.cache
def missing():
    """Returns the reason why no machine can run here; None if one can."""
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
    """Returns the error of systemd-nspawn if it cannot run a program; None if it can. The program
    is one of this system, whose /usr is visible in the container."""
    name = "trial" + uuid.uuid4().hex[:8]  # tempfile makes names that a machine cannot have
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
    """Creates the directories and links that a root needs beside the /usr of this system."""
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
