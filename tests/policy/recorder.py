# SPDX-License-Identifier: Apache-2.0
"""Records the system calls of a service with strace, and splits the record where the service
installs a filter.

Calls before the first filter are not covered by any policy. strace runs beside the service (-D), so
that the service keeps the PID that LISTEN_PID names. All processes of the service are recorded in
one file.
"""
import re
import shutil
import subprocess

CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")
NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)|NULL|\?")
PHASES = ("before", "start", "serve")
FILTER_SIZE_LEAST = 0x1000  # pointers to filters are larger; libseccomp probes the kernel with NULL


def available():
    """Returns whether strace is installed and may trace processes."""
    strace = shutil.which("strace")
    return bool(strace) and subprocess.run([strace, "-D", "-f", "-o", "/dev/null", "true"],
                                           stderr=subprocess.DEVNULL).returncode == 0


def wrap(argv, output):
    """Returns the command that runs @argv and records its calls with arguments as plain numbers.
    The record does not contain programs that the service starts, because they have policies of
    their own."""
    return [shutil.which("strace"), "-D", "-f", "-b", "execve", "-A", "-qq", "-s", "0", "-e", "raw=all",
            "-o", str(output), *argv]


def arguments(text):
    values = []
    for part in text.split(" = ")[0].split("<unfinished")[0].rstrip(") ").split(","):
        found = NUMBER.match(part.strip())
        if not found:
            break
        word = found.group()
        values.append(0 if word in ("NULL", "?") else int(word, 0) & (1 << 64) - 1)
    return tuple(values)


class Life:
    """Holds one process of a service, from its start to its end."""

    def __init__(self, pid):
        self.pid = pid
        self.phase = 0
        self.end = None  # the signal that killed it
        self.calls = {}  # (phase, name, arguments): the line

    def add(self, name, args, line):
        if name == "seccomp" and args[0] == 1 and args[2] >= FILTER_SIZE_LEAST:
            # The call that installs a filter belongs to the phase that ends with this call.
            if self.phase:
                self.calls.setdefault((PHASES[self.phase], name, args[:3]), line)
            self.phase += 1
        elif self.phase:
            self.calls.setdefault((PHASES[self.phase], name, args), line)


def read(path):
    """Returns the lives of a service, in order."""
    lives, owner = [], {}  # owner: the process of each thread
    with open(path, errors="replace") as lines:
        for line in lines:
            match = CALL.match(line)
            thread = int(line.split(None, 1)[0])
            if match and match.group(2) == "execve" and not line.rstrip().endswith("= 0"):
                continue  # another program, which strace does not trace
            if match and match.group(2) == "execve":
                lives.append(Life(thread))
                owner[thread] = lives[-1]
            life = owner.setdefault(thread, lives[-1])
            if match:
                life.add(match.group(2), arguments(match.group(3)), line)
            elif "+++ killed by" in line:
                life.end = line.split("+++")[1].strip()
    return lives


class Policy:
    """Holds the rules of one phase, from `sconce policy explain --json`."""

    def __init__(self, explained):
        self.rules = explained["calls"]
        self.known = explained["known"]
        self.used = [False] * len(self.rules)

    def allows(self, name, args, pid):
        """Returns whether a rule allows this call; marks the rule as used."""
        found = False
        for i, rule in enumerate(self.rules):
            if rule["name"] == name and all(self._holds(c, args, pid) for c in rule["conditions"]):
                self.used[i] = found = True
        return found or name.startswith("syscall_0x")

    @staticmethod
    def _holds(condition, args, pid):
        if condition["arg"] >= len(args):
            return False
        value = pid if condition["own_pid"] else condition["value"]
        return args[condition["arg"]] & (condition["mask"] & (1 << 64) - 1) == value

    def unused(self):
        return [r for r, used in zip(self.rules, self.used) if not used and not r["rare"]]


def describe(rule):
    text = rule["name"]
    for c in rule["conditions"]:
        text += " [%d]%s=%s" % (c["arg"], "&" + c["mask_text"] if c["mask_text"] else "", c["text"])
    return "%s (%s:%d)" % (text, rule["file"], rule["line"])
