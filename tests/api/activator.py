# SPDX-License-Identifier: Apache-2.0
"""A small socket activator for tests, which does the work of systemd or `sconce serve`.

It holds listening sockets, starts a service by the LISTEN_FDS protocol when one of the sockets
becomes readable, and restarts the service on the next connection after it has ended.
"""
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time


class Service:
    """Represents one service with its sockets; `starts` counts how often it was started. `names`
    are the names that systemd would give to the sockets."""

    def __init__(self, argv, sockets, env=None, log=None, names=None):
        self.argv = argv
        self.sockets = sockets
        self.names = names or ["s%d" % i for i in range(len(sockets))]
        self.env = dict(os.environ, **(env or {}))
        self.log = log or subprocess.DEVNULL
        self.process = None
        self.starts = 0
        self.status = None  # exit status of the last process that ended
        self._stop = os.pipe()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _spawn(self):
        n = len(self.sockets)
        # The child moves the sockets to descriptors from 3 on; dup2 clears close-on-exec.
        # LISTEN_PID must be the PID of the child.
        high = [os.dup(s.fileno()) for s in self.sockets]
        script = ("import os,sys;fds=[int(x) for x in sys.argv[1].split(',')];"
                  "up=[__import__('fcntl').fcntl(f,0,100) for f in fds];"
                  "[os.dup2(f,3+i,True) for i,f in enumerate(up)];"
                  "[os.close(f) for f in up];"
                  "os.environ['LISTEN_PID']=str(os.getpid());"
                  "os.closerange(3+len(fds),200);"
                  "os.execv(sys.argv[2],sys.argv[2:])")
        env = dict(self.env, LISTEN_FDS=str(n), LISTEN_FDNAMES=":".join(self.names))
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", script, ",".join(map(str, high))] + self.argv,
                env=env, pass_fds=high, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        finally:
            for fd in high:
                os.close(fd)
        self.starts += 1

    def _run(self):
        while True:
            if self.process is None:
                ready, _, _ = select.select(self.sockets + [self._stop[0]], [], [])
                if self._stop[0] in ready:
                    return
                with self._lock:
                    self._spawn()
            self.status = self.process.wait()
            with self._lock:
                self.process = None

    @property
    def pid(self):
        process = self.process
        return process.pid if process else None

    def wait_pid(self, timeout=10):
        """Waits until the service itself runs instead of the script that starts it; returns its
        process ID."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            pid = self.pid or 0
            try:
                with open("/proc/%d/cmdline" % pid, "rb") as f:
                    if f.read().split(b"\0")[0] == self.argv[0].encode():
                        return pid
            except OSError:
                pass
            time.sleep(0.005)
        raise TimeoutError("%s did not start" % self.argv[0])

    def wait_gone(self, timeout=10):
        end = time.monotonic() + timeout
        while self.process is not None:
            if time.monotonic() > end:
                raise TimeoutError("%s did not end" % self.argv[0])
            time.sleep(0.005)

    def kill(self, sig=signal.SIGTERM):
        with self._lock:
            if self.process:
                self.process.send_signal(sig)

    def close(self):
        if not self._stop:
            return
        os.write(self._stop[1], b"x")
        self.kill(signal.SIGTERM)
        self._thread.join(5)
        if self._thread.is_alive():
            self.kill(signal.SIGKILL)
            self._thread.join(5)
        for s in self.sockets:
            s.close()
        stop, self._stop = self._stop, ()
        for fd in stop:
            os.close(fd)


class Program(Service):
    """Represents a program that is started for each connection to its only socket, with the connection as
    standard input and output."""

    def _run(self):
        children = []
        while True:
            ready, _, _ = select.select(self.sockets + [self._stop[0]], [], [])
            if self._stop[0] in ready:
                break
            connection, _ = self.sockets[0].accept()
            with connection:
                children.append(subprocess.Popen(self.argv, stdin=connection, stdout=connection,
                                                 stderr=self.log, env={}))
            self.starts += 1
        for child in children:
            child.kill()
            child.wait()


def listen_unix(path, kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind(path)
    s.listen(4096)
    return s


def listen_tcp():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.bind(("127.0.0.1", 0))
    s.listen(4096)
    return s
