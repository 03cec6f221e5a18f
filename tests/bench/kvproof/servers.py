# SPDX-License-Identifier: Apache-2.0
"""Starts, kills and restarts the servers under test, each with its caches on or off."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import clients
from cold import forget
from programs import Program, free_port, wait_ready

ROOMY, TIGHT = "roomy", "tight"  # how much room the caches have
BLOCK_COUNTS = ("written", "found", "evicted", "rejected")  # counters of sconce's cache service


class ServerProgram(Program):
    patience = 30


def descendants(pid):
    """Returns the processes below @pid, and @pid itself as the first."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                with open("/proc/%s/stat" % entry) as f:
                    parents[int(entry)] = int(f.read().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Server:
    """Represents a server with its caches. `more` has the fields that each request needs."""

    exact = False  # whether every text must be the same as without caches
    path = "/health"  # answers 200 when the server is ready
    program = None
    more = {}

    def __init__(self, options, models):
        self.options, self.models = options, models
        self.directory = pathlib.Path(tempfile.mkdtemp(dir=options.directory))
        self.stored = self.directory / "stored"
        self.blocks = {}  # counts of blocks in files, if the server reports them

    def empty(self):
        """Removes everything that the caches stored in files."""
        shutil.rmtree(self.stored, ignore_errors=True)
        self.stored.mkdir()

    def start(self):
        self.address = ("127.0.0.1", free_port())
        self.program = ServerProgram(self.argv(), {"HOME": str(self.directory)})
        self.program.address = self.address
        wait_ready(self.program, self.path, pause=0.01)

    def is_alive(self):
        return self.program is not None and self.program.process.poll() is None

    def tally(self):
        """Adds to `blocks` the numbers that the server counted since it started."""

    def stop(self):
        """Ends the server as a system does when it shuts down."""
        if self.is_alive():
            self.tally()
        if self.program:
            self.program.close()
        self.program = None

    def kill(self):
        """Kills all processes at once, so that none of them can write anything more."""
        self.tally()
        pids = descendants(self.program.process.pid)
        signal_all(pids, signal.SIGSTOP)
        signal_all(pids, signal.SIGKILL)
        self.program.process.wait()
        while any(is_running(pid) for pid in pids):
            time.sleep(0.005)
        self.stop()

    def forget(self):
        """Removes the files of the caches from the page cache, so that the next reading is from
        the disk."""
        for path in self.files():
            with contextlib.suppress(FileNotFoundError):
                forget(path)

    def files(self):
        """Returns the files in which the caches store something."""
        found = []
        for path in self.stored.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # a server may remove files at any time
                if path.is_file() and path.stat().st_size > 0:
                    found.append(path)
        return found

    def open_files(self):
        """Returns the files that the proof may damage while the server runs."""
        return self.files()

    def close(self):
        if self.is_alive():
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Sconce(Server):
    """Runs `sconce serve` of a build directory, with all models at once."""

    name = "sconce"
    exact = True
    all_at_once = True
    path = "/v1/models"

    def __init__(self, options, models):
        super().__init__(options, models)
        self.sconce = options.bin / "services/cli/sconce"
        shelf = self.directory / "models"
        shelf.mkdir()
        for name, path in models.items():
            (shelf / (name + ("" if path.is_dir() else ".gguf"))).symlink_to(path)
        # The path of a socket must be short, so the sockets have a directory of their own.
        self.sockets = pathlib.Path(tempfile.mkdtemp(prefix="kvproof-"))
        self.block_bytes = self.n_stored_bytes = 0

    def configure(self, room, cold=False):
        self.is_cold = cold
        chat = ["threads: %d" % self.options.threads, "context: %d" % self.options.context,
                *self.options.chat]
        cache = ["enabled: false"] if cold else ["directory: %s" % self.stored, "min_free: 0"]
        if cold:
            chat.append("prefix_cache: false")
        if room == TIGHT and not cold:
            n_blocks = self.options.context // 64 + 1
            chat += ["kv_memory: %d" % (n_blocks * self.block_bytes), "max_batch_tokens: 96",
                     "max_models: %d" % min(2, len(self.models))]
            cache.append("max_bytes: %d" % max(1 << 20, self.n_stored_bytes // 4))
        else:
            chat.append("max_models: %d" % len(self.models))
        lines = ["models:", "  directories: [%s]" % (self.directory / "models"), "gateway:",
                 "  tcp_access: open", "chat:", *("  " + line for line in chat), "cache:",
                 *("  " + line for line in cache)]
        (self.directory / "sconce.yaml").write_text("\n".join(lines) + "\n")

    def argv(self):
        return [self.sconce, "serve", "--listen", "127.0.0.1:%d" % self.address[1], "--runtime-dir",
                self.sockets, "--config", self.directory / "sconce.yaml"]

    def close(self):
        super().close()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def metrics(self):
        """Returns the metrics of the chat service as pairs of a name with labels, and a value."""
        connection = http.client.HTTPConnection("localhost", timeout=clients.PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.sockets / "chat.sock"))
        connection.request("GET", "/metrics", headers={"Connection": "close"})
        lines = connection.getresponse().read().decode().splitlines()
        return [(line.rsplit(" ", 1)[0], float(line.rsplit(" ", 1)[1])) for line in lines
                if line and not line.startswith("#")]

    def settle(self):
        """Waits until the blocks of the last answers are stored. The engine sends them a quarter of
        a second after its last work."""
        time.sleep(0.4)
        self.measure()

    def measure(self):
        """Sets block_bytes to the mean size of a block, for the model where it is largest, and
        n_stored_bytes to the bytes that the cache service stores. Neither ever becomes smaller."""
        metrics = self.metrics()
        kept = {name.partition("{")[2]: value for name, value in metrics
                if name.startswith("sconce_chat_kept_blocks_total{") and value > 0}
        sizes = [value / kept[name.partition("{")[2]] for name, value in metrics
                 if name.startswith("sconce_chat_kept_bytes_total{")
                 and name.partition("{")[2] in kept]
        self.block_bytes = int(max([self.block_bytes, *sizes]))
        stored = [value for name, value in metrics if name == "sconce_cache_bytes"]
        self.n_stored_bytes = int(max([self.n_stored_bytes, *stored]))

    def tally(self):
        status = subprocess.run([self.sconce, "cache", "status", "--json", "--socket",
                                 self.sockets / "cache.sock"], capture_output=True)
        if self.is_cold or status.returncode != 0:
            return
        counted = json.loads(status.stdout)
        for name in BLOCK_COUNTS:
            self.blocks[name] = self.blocks.get(name, 0) + counted[name + "_blocks_total"]

    def open_files(self):
        """Returns the files that the proof may damage while the server runs. The index is not among
        them: it is a database, and damage to it may end the process that has it open."""
        return [p for p in self.files() if p.suffix == ".kv"]

    def restore(self):
        """Does nothing: the engine reads blocks when a prompt needs them."""


class Llama(Server):
    """Runs llama-server with one model. Its files are those of its slots, which are saved before a
    restart and restored after it."""

    name = "llama-server"
    all_at_once = False

    def configure(self, room, cold=False):
        self.room, self.cold = room, cold
        self.more = {"cache_prompt": False} if cold else {}

    @property
    def n_slots(self):
        return max(4, self.options.concurrency)

    def argv(self):
        o, (path,) = self.options, self.models.values()
        caches = (["--no-cache-prompt", "-cram", 0, "--ctx-checkpoints", 0] if self.cold else
                  ["-cram", 1 if self.room == TIGHT else 8192, "--slot-save-path", self.stored])
        return [o.bin, "-m", path, "-t", o.threads, "-np", self.n_slots, "-c",
                self.n_slots * o.context, "-ngl", 0, "--no-webui", "--host", "127.0.0.1",
                "--port", self.address[1], "--slots", *caches, *o.arg]

    def slots(self, action):
        for i in range(self.n_slots):
            if action == "restore" and not (self.stored / ("slot-%d" % i)).exists():
                continue
            with contextlib.suppress(clients.Refused, OSError, http.client.HTTPException):
                clients.post(self.address, "/slots/%d?action=%s" % (i, action),
                             {"filename": "slot-%d" % i}).read()

    def settle(self):
        self.slots("save")

    def restore(self):
        self.slots("restore")


class Other(Server):
    """Runs any other server with one model. The words of --arg are its command line, and those of
    --cold-arg are added for a cold run; {port}, {model}, {name} and {directory} are replaced."""

    name = "other"
    all_at_once = False
    path = "/v1/models"

    def configure(self, room, cold=False):
        self.words = self.options.arg + (self.options.cold_arg if cold else [])

    def argv(self):
        (name, path), = self.models.items()
        values = {"port": self.address[1], "model": path, "name": name, "directory": self.stored}
        return [self.options.bin, *(word.format(**values) for word in self.words)]

    def settle(self):
        time.sleep(0.4)

    def restore(self):
        pass


SERVERS = {"sconce": Sconce, "llama": Llama, "other": Other}
