# SPDX-License-Identifier: Apache-2.0
"""Boots machines: each is a systemd in a container of systemd-nspawn, with a network of its own.

    with Machine(Root(make_base())) as machine:
        machine.boot()
        machine.run(["systemctl", "status"])           # as root
        machine.add_user("ada")                        # with a lingering `systemctl --user`
        machine.run(["systemctl", "--user", "start", "sconce.target"], user="ada")
        machine.show("sconce-chat.service", "MainPID", user="ada")
        machine.journal(_SYSTEMD_UNIT="sconce-chat.service", SCONCE_SERVICE="chat")
        machine.host_pid("sconce-chat.service")        # its PID on this system
        machine.path("/etc/sconce/sconce.yaml")        # a file of the machine, seen from here
        with machine.connect() as s: ...               # its gateway's unix socket, from here
        with machine.connect_tcp(7266) as s: ...       # a port on its loopback address, from here

Programs run in the machine through nsenter: in all namespaces of its PID 1, with the groups of the
user. Such programs do not belong to a unit of the machine; `systemd-run` makes a unit where that
matters.
Several machines may run at the same time: each has its own root, cgroup, network and names. stop()
ends all processes of the machine and removes its root; leaving the `with` block always calls it.
"""
import ctypes
import errno
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import threading
import time

from roots import release_abandoned, systemd_runs

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)
CGROUPS = pathlib.Path("/sys/fs/cgroup")


class MachineError(RuntimeError):
    pass


class Machine:
    """Represents one machine with a Root, which it frees. See the docstring of the module."""

    def __init__(self, root):
        self.root = root
        self.name = root.name
        self.nspawn = None  # the container's manager, a child of this process
        self.leader = None  # the PID on this system of its PID 1
        self.console = root.place / "console"
        self.cgroups = []
        self.uids = {}
        self.lingering = []  # users with a running user manager

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # Start and stop

    def boot(self, timeout=60):
        """Returns once systemd reports that startup is finished; failed units are not errors here.
        The machine ends with the thread that calls this, and on stop()."""
        argv, env = container(self.name, self.root.path)
        self.cgroups = make_cgroups(self.name)
        with open(self.console, "ab") as console:
            self.nspawn = subprocess.Popen(
                [*argv, "--boot"], stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=env,
                preexec_fn=lambda: enter(self.cgroups), start_new_session=True)
        end = time.monotonic() + timeout
        while True:
            if self.nspawn.poll() is not None or time.monotonic() > end:
                raise MachineError("the machine does not boot:\n" + self.console_text())
            self.leader = self.leader or find_leader(self.nspawn.pid)
            if self.leader:
                state = self.run(["systemctl", "is-system-running"], check=False).stdout.strip()
                if state in ("running", "degraded"):
                    return self
            time.sleep(0.05)

    def stop(self):
        if self.leader:
            kill(self.leader)
        if self.nspawn:
            try:
                self.nspawn.wait(10)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()
        self.nspawn = self.leader = None
        for path in self.cgroups:
            remove_cgroup(path)
        self.cgroups = []
        if self.root:
            self.root.free()
        self.root = None

    def console_text(self):
        return self.console.read_text(errors="replace")[-4000:] if self.console.exists() else ""

    # Programs

    def argv(self, argv, user=None, env=None):
        """Returns the command that runs @argv in the machine, for subprocess on this system."""
        command = ["nsenter", "-t", str(self.leader), "-m", "-u", "-i", "-n", "-p", "-C", "-r",
                   "-w", "--", "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                   "LC_ALL=C.UTF-8", "TERM=dumb"]
        if user is None or user == "root":
            command += ["HOME=/root", "USER=root"]
        else:
            uid = self.uid(user)
            command += ["HOME=/home/" + user, "USER=" + user, "LOGNAME=" + user,
                        "XDG_RUNTIME_DIR=/run/user/%d" % uid,
                        "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/%d/bus" % uid]
        command += ["%s=%s" % item for item in (env or {}).items()]
        if user is not None and user != "root":
            command += ["setpriv", "--reuid=" + user, "--regid=" + user, "--init-groups", "--"]
        return command + [str(word) for word in argv]

    def run(self, argv, user=None, check=True, input=None, timeout=120, env=None):
        """Runs a program and returns the result of subprocess.run with text output. @argv may be a
        string: a command line for sh."""
        if isinstance(argv, str):
            argv = ["sh", "-c", argv]
        r = subprocess.run(self.argv(argv, user, env), input=input, text=True, timeout=timeout,
                           capture_output=True, **({} if input else {"stdin": None}))
        if check and r.returncode:
            raise MachineError("%s: status %d\n%s%s" % (shlex.join(map(str, argv)), r.returncode,
                                                        r.stdout[-3000:], r.stderr[-3000:]))
        return r

    def popen(self, argv, user=None, env=None, **options):
        return subprocess.Popen(self.argv(argv, user, env), **options)

    # Files

    def path(self, name):
        """Returns the path on this system of a file of the machine, as its PID 1 sees it."""
        root = "/proc/%d/root" % self.leader if self.leader else str(self.root.path)
        return pathlib.Path(root + "/" + str(name).lstrip("/"))

    def write(self, name, text, mode=0o644, user=None):
        """Writes a file and creates missing parent directories, all owned by @user if given."""
        owner = (self.uid(user),) * 2 if user else (0, 0)
        path = self.path(name)
        for parent in reversed(path.parents):
            if not parent.exists():
                parent.mkdir()
                os.chown(parent, *owner)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        os.chown(path, *owner)

    def remove(self, name):
        self.path(name).unlink(missing_ok=True)

    # Users

    def add_user(self, name, groups=(), linger=True):
        """Creates a user; with @linger its `systemctl --user` runs when this returns."""
        self.run(["useradd", "-m", "-s", "/bin/sh", *(["-G", ",".join(groups)] if groups else []),
                  name])
        if linger:
            # Does the work of `loginctl enable-linger`, which newer versions refuse to processes
            # of a cgroup outside the machine, as ours are.
            self.write("/var/lib/systemd/linger/" + name, "")
            self.lingering.append(name)
            self.systemctl("start", "user@%d.service" % self.uid(name))
            self.wait(lambda: self.run(["systemctl", "--user", "is-system-running"], user=name,
                                       check=False).stdout.strip() in ("running", "degraded"),
                      "the user's systemd of " + name)

    def uid(self, user):
        if user not in self.uids:
            self.uids[user] = int(self.run(["id", "-u", user]).stdout)
        return self.uids[user]

    # Units

    def systemctl(self, *args, user=None, check=True):
        return self.run(["systemctl", *(["--user"] if user else []), *args], user, check)

    def show(self, unit, name, user=None):
        """Returns one property of a unit, as text."""
        return self.systemctl("show", "-P", name, unit, user=user).stdout.strip()

    def is_active(self, unit, user=None):
        return self.show(unit, "ActiveState", user) == "active"

    def host_pid(self, unit, user=None):
        """Returns the PID on this system of a service's main process; None if it does not run."""
        pid = int(self.show(unit, "MainPID", user) or 0)
        return self.to_host(pid) if pid else None

    def to_host(self, pid):
        return next((p for p, inner in self.processes() if inner == pid), None)

    def processes(self):
        """Returns (PID in the machine, PID on this system) of all processes of the machine."""
        own = os.readlink("/proc/%d/ns/pid" % self.leader)
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                if os.readlink("/proc/%s/ns/pid" % entry) == own:
                    found.append((int(entry), inner_pid(int(entry))))
            except OSError:  # the process has ended
                continue
        return found

    def programs(self, prefix="sconce", but=()):
        """Returns names of running programs with this prefix; those in @but are ignored."""
        names = []
        for pid, _ in self.processes():
            try:
                name = os.path.basename(os.readlink("/proc/%d/exe" % pid))
            except OSError:
                continue
            if name.startswith(prefix) and name not in but:
                names.append(name)
        return sorted(names)

    def servers(self):
        """Returns names of running services, without those that start by themselves after requests:
        the cache and the history."""
        return self.programs(but=("sconce-cache", "sconce-history"))

    def wait_inactive(self, *units, user=None, timeout=30):
        """Waits until these services have exited by themselves."""
        self.wait(lambda: all(self.show(u, "ActiveState", user) in ("inactive", "failed")
                              for u in units), "%s inactive" % " ".join(units), timeout)

    def wait(self, condition, what, timeout=30):
        """Waits until condition() is true, and returns its value."""
        end = time.monotonic() + timeout
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise MachineError("waited %d s for %s\n%s" % (timeout, what, self.recent()))
            time.sleep(0.02)

    # Journal

    def journal(self, after=None, **match):
        """Returns the journal entries that match these fields, such as SCONCE_SERVICE="chat", as
        dictionaries, oldest first. @after is a result of cursor()."""
        self.run(["journalctl", "--sync"])
        # journalctl skips one entry too many when it gets both a cursor and a match.
        args = ["--after-cursor=" + after] if after else []
        out = self.run(["journalctl", "-o", "json", "--all", "--no-pager", "-q", *args]).stdout
        entries = [json.loads(line) for line in out.splitlines()]
        return [e for e in entries if all(e.get(name) == match[name] for name in match)]

    def cursor(self):
        """Returns the current end of the journal, for journal(after=…)."""
        self.run(["journalctl", "--sync"])
        out = self.run(["journalctl", "-n0", "--show-cursor", "--no-pager", "-q"]).stdout
        return out.partition("cursor: ")[2].strip()

    def recent(self, lines=40):
        return self.run(["journalctl", "-n", str(lines), "--no-pager"], check=False).stdout

    # Connections

    def socket_path(self, service="gateway", user=None):
        directory = "/run/user/%d/sconce" % self.uid(user) if user else "/run/sconce"
        return "%s/%s.sock" % (directory, service)

    def connect(self, service="gateway", user=None, timeout=60):
        """Connects to a service's unix socket, as root of this system."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        try:
            s.connect(str(self.path(self.socket_path(service, user))))
        except BaseException:
            s.close()
            raise
        return s

    def connect_tcp(self, port=7266, timeout=60):
        """Connects to a port of the machine's loopback address."""
        with self.network():
            s = socket.socket()
        s.settimeout(timeout)
        try:
            s.connect(("127.0.0.1", port))
        except BaseException:
            s.close()
            raise
        return s

    def network(self):
        return Network(self.leader)


class Network:
    """Lets new sockets of this thread belong to the machine's network, as a context manager."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        self.own = os.open("/proc/%d/ns/net" % threading.get_native_id(), os.O_RDONLY)
        there = os.open("/proc/%d/ns/net" % self.pid, os.O_RDONLY)
        set_network(there)
        os.close(there)

    def __exit__(self, *_):
        set_network(self.own)
        os.close(self.own)


def set_network(fd):
    if libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))


def inner_pid(pid):
    """Returns the PID of a process in its own PID namespace."""
    for line in pathlib.Path("/proc/%d/status" % pid).read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return None


def children(pid):
    found = []
    for task in pathlib.Path("/proc/%d/task" % pid).glob("*/children"):
        found += [int(word) for word in task.read_text().split()]
    return found


def container(name, root):
    """Returns the arguments and environment of systemd-nspawn for a program in @root."""
    argv = ["systemd-nspawn", "-q", "-D", str(root), "--console=pipe", "--machine=" + name,
            "--register=no", "--link-journal=no", "--private-network", "--resolv-conf=off",
            "--timezone=off", "--kill-signal=SIGKILL",
            # nspawn's own filter is older than Landlock, and applies in addition to the filters of
            # the services.
            "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self"]
    if not systemd_runs():
        argv.append("--keep-unit")
    # Every supported systemd works with the unified cgroup hierarchy.
    return argv, {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8",
                  "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}


def find_leader(pid):
    """Returns PID 1 of the container below an nspawn process, once it is systemd itself."""
    for child in children(pid):
        try:
            if inner_pid(child) == 1 and \
                    pathlib.Path("/proc/%d/comm" % child).read_text() == "systemd\n":
                return child
        except OSError:
            continue
    return None


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def make_cgroups(name):
    """Makes a cgroup for this machine below our own, in each hierarchy that systemd uses, because
    two machines in one cgroup would confuse each other's units. Makes no cgroup where systemd gives
    us a scope."""
    made = []
    if not systemd_runs():
        for path in cgroup_paths(name):
            try:
                path.mkdir()
            except OSError:
                continue
            made.append(path)
    return made


def cgroup_paths(name):
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if controllers == "name=systemd":
            mount = CGROUPS / "systemd"
        elif number == "0":
            mount = CGROUPS / "unified" if (CGROUPS / "unified").is_dir() else CGROUPS
        else:
            continue
        yield mount / path.lstrip("/") / name


def enter(cgroups):
    """Runs in the child: moves it into its cgroups, and makes it end with this process."""
    for path in cgroups:
        (path / "cgroup.procs").write_text(str(os.getpid()))
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def remove_cgroup(path):
    for _ in range(50):
        for here, _, _ in os.walk(path, topdown=False):
            try:
                os.rmdir(here)
            except OSError as e:
                if e.errno not in (errno.EBUSY, errno.ENOENT):
                    raise
        if not path.exists():
            return
        time.sleep(0.02)


for abandoned in release_abandoned() if os.geteuid() == 0 else ():
    for group in cgroup_paths(abandoned):
        remove_cgroup(group)
