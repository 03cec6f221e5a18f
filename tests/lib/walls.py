# SPDX-License-Identifier: Apache-2.0
"""Runs the attack program (tests/attack) against services, and judges the results for each wall.

A wall is a mechanism that confines a service. Each attack is tried in several ways
(tests/attack/main.c), each with some of a service's walls:

  own       only the seccomp filters that the service installs itself
  unit      only the seccomp filters of its unit
  landlock  only the other walls that the service sets up itself: Landlock, and memory that never
            becomes executable (MDWE). This way is measured in a service that runs as root without
            a unit, with seccomp suspended; such a service has no other walls
  spaces    only the namespaces, mounts, user and capabilities that its unit sets
  all       the service with all its walls

The two filters count as one wall, seccomp, because the same part of the kernel enforces both.
Landlock and MDWE together are the second wall, and namespaces and credentials the third wall.
"""
import dataclasses
import os
import pathlib
import subprocess

COLUMNS = ("own", "unit", "landlock", "spaces", "all")

# On machines that lack a feature, attacks have these outcomes even without any wall. The table of
# results has no rows for such attacks.
NATURAL = {
    "module": ("ENOSYS",),  # a kernel without modules
    "bpf": ("ENOSYS",),  # without BPF
    "perf": ("ENOSYS",),
    "io-uring": ("ENOSYS", "EPERM"),  # kernel.io_uring_disabled
    "userfaultfd": ("ENOSYS",),
    "unshare-user": ("EPERM",),  # in a chroot, or where the machine forbids user namespaces
    "tunable": ("EROFS",),  # a container
    "packet": ("EAFNOSUPPORT",),
    "keyring": ("ENOSYS",),
    "pkey-rx": ("ENOSYS",),
    "raw": ("EPROTONOSUPPORT",),
    "listener": ("EINVAL",),  # no connection leaves the machine from a loopback address
}

# Only seccomp denies these attacks, but with two filters: the service's own filter and that of its
# unit. No other part of Linux denies these attacks to a process without privileges, for the reasons
# given here.
TWO_FILTERS = {
    "exec-memfd": "a file without a path passes Landlock and noexec mounts",
    "map-memfd": "MDWE checks addresses, and this maps the same memory a second time",
    "unshare-user": "every user may make one; Landlock still forbids mounts in it",
    "io-uring": "every user may make one, unless the machine forbids it to all users",
    "keyring": "each process has a keyring of its own",
}

# Only one wall denies these attacks. The texts say why no second wall does.
ONE_WALL = {
    "fork": "the same call starts threads; TasksMax= limits their number",
    "listener-local": "only Landlock distinguishes listening at a port from connecting to it",
}

# Additions to ONE_WALL for services that connect to unix sockets of others, for which Landlock has
# no rules.
CONNECTING = {"bus": "the gateway's filter allows stream sockets; the unit hides forbidden ones",
              "neighbor-socket": "a user's unit hides no socket of sconce; only the filter of chat "
                                 "forbids to connect stream sockets"}
# Additions for services that pass memory to others: the units of such services allow memfd_create.
HANDING = {"exec-memfd": "only the service's own filter forbids execve",
           "map-memfd": "only the service's own filter forbids executable mappings"}
# Additions for services that write files: the filters of such services allow writing.
KEEPING = {"write": "only Landlock distinguishes the service's directory from others"}

# Older kernels cannot deny these attacks. The number is the Landlock version that is needed.
LANDLOCK = {"store-truncate": 3, "tcp4": 4, "tcp6": 4, "tcp-bind": 4, "listener-local": 4,
            "abstract": 6, "kill": 6}
# On kernels without MDWE, only the two filters deny these attacks.
MDWE = ("map-rwx", "protect-rx", "pkey-rx", "read-implies-exec")

# The project promises that two different parts of the kernel deny each of these attacks.
PROMISED = (
    "other-file", "home-file", "root-file", "shadow", "cache", "state", "tcp4", "udp", "exec",
    "ptrace", "vm-read", "proc-mem", "map-rwx", "protect-rx", "read-implies-exec", "store-create",
    "store-write", "store-truncate", "store-rename", "store-unlink", "write",
)


@dataclasses.dataclass
class Result:
    outcomes: dict  # attack: {way: outcome}
    notes: dict  # own-filters, unit-filters, landlock (its version) and mdwe


def denied(outcome):
    return outcome is not None and outcome not in ("done", "absent")


def parse(text):
    result = Result({}, {})
    for line in text.splitlines():
        name, way, outcome = line.split("\t")
        if name == "#":
            result.notes[way] = outcome
        else:
            result.outcomes.setdefault(name, {})[way] = outcome
    return result


def run(attack, pid=None, runner=None, **options):
    """Runs the attack program with the given options (other_file becomes --other-file); an option
    with the value None is left out. @runner runs an argument list, for example Machine.run; None:
    the program runs on this machine."""
    argv = [str(attack)]
    for name, value in options.items():
        if value is True:
            argv.append("--" + name.replace("_", "-"))
        elif value is not None and value is not False:
            argv.append("--%s=%s" % (name.replace("_", "-"), value))
    argv += [str(pid)] if pid else []
    r = (runner or run_here)(argv)
    if r.returncode:
        raise AssertionError("%s: %s%s" % (" ".join(argv), r.stdout[-500:], r.stderr))
    return r.stdout


def run_here(argv):
    return subprocess.run(argv, capture_output=True, text=True, timeout=300)


def attack(program, pid=None, runner=None, **options):
    return parse(run(program, pid, runner, **options))


def state(program, pid, runner=None):
    """Returns the facts that a process reports about itself: {"interfaces": "lo", "mdwe": "1",
    …}."""
    text = run(program, pid, runner, state=True)
    return {line.split(" ")[0]: line.partition(" ")[2].strip() for line in text.splitlines()}


def check_without_walls(result):
    """Checks that each attack succeeds without walls; otherwise the test would prove nothing."""
    return ["%s: without any wall it ends with %s" % (name, ways["none"])
            for name, ways in result.outcomes.items()
            if ways["none"] not in ("done", "absent") + NATURAL.get(name, ())]


class Table:
    """Holds the results for one service in one mode."""

    def __init__(self, title, result, alone=None):
        """Makes the table. @alone: the results of the service without a unit; None if @result is of
        a service without a unit."""
        self.title = title
        self.notes = result.notes
        self.rows = {}
        self.unproven = check_without_walls(result)
        for name, ways in result.outcomes.items():
            if ways["none"] != "done":
                continue
            by_itself = (alone or result).outcomes.get(name, {}).get("unfiltered")
            self.rows[name] = {
                "own": ways.get("own"), "unit": ways.get("unit"), "landlock": by_itself,
                "spaces": ways.get("spaces") if alone else None, "all": ways.get("all"),
                "unfiltered": ways.get("unfiltered")}

    def filters(self, name):
        row = self.rows[name]
        return denied(row["own"]) + denied(row["unit"])

    def walls(self, name):
        row = self.rows[name]
        return (self.filters(name) > 0) + denied(row["landlock"]) + denied(row["spaces"])

    def text(self):
        lines = [self.title, " " * 18 + "".join("%-14s" % c for c in COLUMNS) + "walls"]
        for name, row in self.rows.items():
            cells = ("-" if row[c] in (None, "done", "absent") else row[c] for c in COLUMNS)
            note = ""
            if self.walls(name) < 2:
                note = TWO_FILTERS.get(name) if self.filters(name) == 2 else ONE_WALL.get(name)
            lines.append("%-18s" % name + "".join("%-14s" % c for c in cells) +
                         "%d%s" % (self.walls(name), "  (%s)" % note if note else ""))
        return "\n".join(lines)

    def show(self):
        """Prints the table, or writes it to the directory SCONCE_WALLS."""
        directory = os.environ.get("SCONCE_WALLS")
        if directory:
            name = self.title.replace(", ", "-") + ".txt"
            pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
            (pathlib.Path(directory) / name).write_text(self.text() + "\n\n")
        else:
            print("\n" + self.text())

    def problems(self, one_wall=None, with_unit=True):
        """Returns the problems as sentences; none if all promises hold. @one_wall: additions to
        ONE_WALL."""
        found = list(self.unproven)
        for name, row in self.rows.items():
            walls = self.walls(name)
            if not denied(row["all"]):
                found.append("%s: the attack succeeds" % name)
            elif (denied(row["spaces"]) or denied(row["landlock"])) and \
                    not denied(row["unfiltered"]):
                found.append("%s: a wall denies the attack alone, but not in the service" % name)
            elif walls >= 2 or not with_unit or self.is_beyond_kernel(name):
                continue
            elif (name in PROMISED and name not in (one_wall or {})) or \
                    not self.excused(name, one_wall or {}):
                found.append("%s: denied by %d wall" % (name, walls))
        return found

    def is_beyond_kernel(self, name):
        if name in MDWE and self.notes["mdwe"] == "0":
            return self.filters(name) == 2
        return int(self.notes["landlock"]) < LANDLOCK.get(name, 1)

    def excused(self, name, one_wall):
        if name in TWO_FILTERS and self.filters(name) == 2:
            return True
        return name in {**ONE_WALL, **one_wall} and self.walls(name) == 1
