#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures cold starts: the time from the first connection, while no service runs, to the first
text.

    cold.py [--build DIR] [--rounds N] [--max-ms N] [--max-mb N] [--copied] [--json] MODEL.gguf...

Holds the sockets of gateway and chat, as systemd does, and starts each service on its first
connection. The first start is not measured; it reads the model, which is then in the page cache.
With --copied, the whole file is read beforehand, which leaves it in the page cache in smaller
pages. After each answer the program reads the private memory of both services, that is, the pages
that belong to no file. Exits non-zero when the median time or the memory is above a limit.
"""
import argparse
import json
import os
import select
import signal
import socket
import statistics
import sys
import tempfile
import time

PROMPT = "Once upon a time there was"


def listen(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind(path)
    s.listen(128)
    return s


def start_on_connection(sock, name, argv, log):
    """Forks a process that becomes the service when a client connects; returns its PID."""
    pid = os.fork()
    if pid:
        return pid
    try:
        fd = os.dup(sock.fileno())
        os.dup2(log, 1)
        os.dup2(log, 2)
        if fd != 3:
            os.dup2(fd, 3)
        os.set_inheritable(3, True)
        os.closerange(4, 256)
        env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "SCONCE_LOG")}
        env.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES=name)
        select.select([3], [], [])
        os.execve(argv[0], argv, env)
    finally:
        os._exit(127)


def forget(path):
    """Drops the file from the page cache, except pages that a process maps."""
    with open(path, "rb") as f:
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path):
    with open(path, "rb") as f:
        while f.read(1 << 24):
            pass


def first_text(sock, body):
    """Returns the seconds from connect() to the first event with text. Reads the whole answer."""
    data = json.dumps(body).encode()
    request = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
               b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data)) + data
    answer, seconds = b"", None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(60)
        begin = time.perf_counter()
        s.connect(sock)
        s.sendall(request)
        while piece := s.recv(65536):
            answer += piece
            if seconds is None and has_text(answer):
                seconds = time.perf_counter() - begin
                # The caller reads the memory of the services later, while they still run.
        if seconds is None:
            raise RuntimeError("no text: %r" % answer[:500])
    return seconds


def has_text(answer):
    for line in answer.split(b"\n"):
        if line.startswith(b"data: {") and line.rstrip().endswith(b"}"):
            if json.loads(line[6:])["choices"][0]["text"]:
                return True
    return False


def private_bytes(pid):
    """Returns the memory of the process without pages of files; None without the permission to read
    it."""
    try:
        with open("/proc/%d/smaps_rollup" % pid) as f:
            rows = dict(line.split(":", 1) for line in f if ":" in line and "kB" in line)
    except PermissionError:
        return None
    return int(rows["Anonymous"].split()[0]) * 1024


def one_start(build, directory, config, body, log):
    paths = {name: os.path.join(directory, name + ".sock") for name in ("gateway", "chat")}
    socks = {name: listen(path) for name, path in paths.items()}
    argv = {name: ["%s/services/%s/sconce-%s" % (build, name, name), "--config", config]
            for name in socks}
    argv["gateway"] += ["--chat-socket", paths["chat"]]
    pids = {name: start_on_connection(socks[name], name, argv[name], log) for name in socks}
    try:
        time.sleep(0.05)
        seconds = first_text(paths["gateway"], body)
        memory = {name: private_bytes(pid) for name, pid in pids.items()}
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGTERM)
        for pid in pids.values():
            os.waitpid(pid, 0)
        for s in socks.values():
            s.close()
        for path in paths.values():
            os.unlink(path)
    return seconds, memory


def measure(build, model, rounds, context, show_log, copied=False):
    name = os.path.splitext(os.path.basename(model))[0]
    body = {"model": name, "prompt": PROMPT, "max_tokens": 8, "temperature": 0, "stream": True,
            "ignore_eos": True}
    forget(model)
    if copied:
        read(model)
    with tempfile.TemporaryDirectory(prefix="sconce-cold-") as directory:
        config = os.path.join(directory, "sconce.yaml")
        models = os.path.join(directory, "models")
        os.mkdir(models)
        os.symlink(os.path.abspath(model), os.path.join(models, os.path.basename(model)))
        with open(config, "w") as f:
            f.write("models:\n  directories: [%s]\nchat:\n  context: %d\n" % (models, context))
        with open(os.path.join(directory, "log"), "w+") as log:
            try:
                one_start(build, directory, config, body, log.fileno())
                runs = [one_start(build, directory, config, body, log.fileno())
                        for _ in range(rounds)]
            except RuntimeError:
                show_log = True
                raise
            finally:
                if show_log:
                    log.seek(0)
                    sys.stderr.write(log.read())
    times = [1e3 * seconds for seconds, _ in runs]
    out = {"model": name, "rounds": rounds, "ms": statistics.median(times), "ms_min": min(times),
           "ms_max": max(times)}
    if None not in runs[0][1].values():
        for service in ("gateway", "chat"):
            out["mb_" + service] = max(memory[service] for _, memory in runs) / 1e6
        out["mb"] = out["mb_gateway"] + out["mb_chat"]
    return out


def main():
    p = argparse.ArgumentParser(description="time and memory of cold starts")
    here = os.path.dirname(os.path.abspath(__file__))
    p.add_argument("--build", default=os.path.join(here, "../../build"))
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--context", type=int, default=4096)
    p.add_argument("--max-ms", type=float, help="limit of the median time")
    p.add_argument("--max-mb", type=float, help="limit of private memory, both services together")
    p.add_argument("--copied", action="store_true", help="read the whole model beforehand")
    p.add_argument("--json", action="store_true")
    p.add_argument("--log", action="store_true", help="show the messages of the services")
    p.add_argument("models", nargs="+", metavar="MODEL.gguf")
    args = p.parse_args()
    bad = False
    for model in args.models:
        r = measure(args.build, model, args.rounds, args.context, args.log, args.copied)
        bad |= args.max_ms is not None and r["ms"] > args.max_ms
        bad |= args.max_mb is not None and r.get("mb", 0) > args.max_mb
        if args.json:
            print(json.dumps(r))
            continue
        memory = ("; private: gateway %.1f MB, chat %.1f MB" % (r["mb_gateway"], r["mb_chat"])
                  if "mb" in r else "")
        print("%-28s first text after %.1f ms (median of %d; %.1f to %.1f)%s" % (
            r["model"], r["ms"], r["rounds"], r["ms_min"], r["ms_max"], memory))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
