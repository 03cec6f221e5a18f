# SPDX-License-Identifier: Apache-2.0
"""Starts and warms up the servers that are measured, stops them, and removes their files."""
import contextlib
import fcntl
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time


class Lock(contextlib.AbstractContextManager):
    """Holds a lock during a measurement, for machines on which other people measure, too."""

    def __init__(self, path):
        self.file = open(path, "w") if path else None

    def __enter__(self):
        if self.file:
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *error):
        if self.file:
            fcntl.flock(self.file, fcntl.LOCK_UN)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Program:
    """Represents a process with a log; `tell` returns the end of the log for error messages."""

    def __init__(self, argv, env=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="sconce-bench-"))
        self.log = open(self.dir / "log", "wb")
        self.argv = [str(a) for a in argv]
        self.process = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env=dict(os.environ, **(env or {})))

    def tell(self):
        self.log.flush()
        text = (self.dir / "log").read_text(errors="replace")
        return "%s\n%s" % (" ".join(self.argv), text[-3000:])

    patience = 10  # seconds that the process may take to exit

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def config_text(model, threads, context=0, sequences=0, blocks=None, more=(), top=()):
    """Returns a configuration. @blocks: the directory of the cache service, or None without it.
    @more: lines for chat; @top: lines of other sections."""
    lines = ["models:", "  directories: [%s]" % model.parent, "  default: %s" % model.stem,
             "gateway:", "  tcp_access: open", "chat:", "  threads: %d" % threads]
    if context:
        lines.append("  context: %d" % context)
    if sequences:
        lines.append("  max_sequences: %d" % sequences)
    lines += ["  " + line for line in more]
    lines += ["cache:", "  directory: %s" % blocks if blocks else "  enabled: false"]
    return "\n".join(lines + list(top)) + "\n"


class Suite(Program):
    """Runs all services, which `sconce serve` starts on a free port."""

    name = "sconce"

    def __init__(self, sconce, model, threads, **limits):
        self.model = model.stem
        self.config_dir = tempfile.mkdtemp(prefix="sconce-bench-")
        config = os.path.join(self.config_dir, "sconce.yaml")
        with open(config, "w") as f:
            f.write(config_text(model, threads, **limits))
        self.address = ("127.0.0.1", free_port())
        super().__init__([sconce, "serve", "--listen", "127.0.0.1:%d" % self.address[1],
                          "--runtime-dir", self.config_dir, "--config", config])
        wait_ready(self, "/v1/models")

    def close(self):
        super().close()
        shutil.rmtree(self.config_dir, ignore_errors=True)


class LlamaServer(Program):
    """Runs llama-server with a slot and a context for each client, and without its prompt cache."""

    name = "llama-server"

    def __init__(self, path, model, threads, slots, slot_context, wait=True, more=()):
        self.model = model.stem
        self.address = ("127.0.0.1", free_port())
        super().__init__([path, "-m", model, "-t", threads, "-np", slots, "-c",
                          slots * slot_context, "-ngl", 0, "-cb", "-cram", 0, "--no-webui",
                          "--host", "127.0.0.1", "--port", self.address[1], *more])
        if wait:
            wait_ready(self, "/health")


def wait_ready(program, path, seconds=120, pause=0.05):
    """Waits until the server answers a GET of @path with 200."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if program.process.poll() is not None:
            raise RuntimeError("ended: " + program.tell())
        connection = http.client.HTTPConnection(*program.address, timeout=30)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(pause)
    raise RuntimeError("does not answer: " + program.tell())
