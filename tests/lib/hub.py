# SPDX-License-Identifier: Apache-2.0
"""Serves models over TLS as the hub of Hugging Face and the registry of Ollama do, with faults."""
import hashlib
import http.server
import json
import re
import socket
import ssl
import subprocess
import threading
import time

from sockets import copy_bytes

STEP, SLOW_STEP = 1 << 18, 1 << 16  # bytes that are written at once
REVISION = "0123456789abcdef0123456789abcdef01234567"


def make_certificate(folder):
    """Makes a certificate for localhost; returns the paths of it and of its key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
                   check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        hub = self.server.hub
        hub.requests.append((self.path, dict(self.headers)))
        for pattern, fault in hub.faults:
            if re.search(pattern, self.path) and fault(self):
                return
        data = hub.files.get(self.path.partition("?")[0])
        if data is None:
            self.answer(404, b"none")
        else:
            self.send_file(data)

    def do_HEAD(self):
        """Answers as the hub does: with the headers that its own clients read, and without a body."""
        self.do_GET()

    def answer(self, status, data, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_file(self, data, cut=None):
        """Sends a file, or the range that is asked for; @cut: closes after this number of bytes."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        data = memoryview(data)  # its slices copy nothing
        total = len(data)
        if asked and self.server.hub.ranges:
            first = int(asked[1])
            last = min(int(asked[2] or total - 1), total - 1)
            data = data[first:last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"%s"' % hashlib.sha1(data[:64]).hexdigest() if not asked else '"e"')
        for name, value in self.server.hub.identity(self.path).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut is not None and cut < len(data):
            self.wfile.write(data[:cut])
            self.wfile.flush()
            self.close_connection = True
            return
        pace, rate = self.server.hub.pace, self.server.hub.rate
        step = SLOW_STEP if pace else STEP
        for i in range(0, len(data), step):
            self.wfile.write(data[i:i + step])
            if pace or rate:
                time.sleep(pace or self.server.hub.wait(step))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Hub:
    """A server at https://localhost:PORT. `faults` has pairs of a pattern of paths and a function
    that gets the handler, and returns whether it has answered. `pace` is the pause after each 64 KiB
    of a connection, in seconds. `rate` limits the bytes per second of all connections together; 0: no
    limit."""

    def __init__(self, certificate, key):
        self.files, self.faults, self.requests, self.identities = {}, [], [], {}
        self.ranges, self.pace, self.rate = True, 0, 0
        self.lock, self.next = threading.Lock(), 0.0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.hub = self
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f"https://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def identity(self, path):
        """Returns the headers that tell clients of the hub which file of which commit a path is."""
        return self.identities.get(path.partition("?")[0], {})

    def wait(self, n):
        """Returns how long a connection has to wait after @n bytes, so that the rate is kept."""
        with self.lock:
            now = time.monotonic()
            self.next = max(self.next, now - 0.1) + n / self.rate
            return max(self.next - now, 0)

    def put_repository(self, repo, files, lfs=(".gguf", ".safetensors"), **metadata):
        """Adds a repository of the hub; @files has the bytes by name."""
        siblings = []
        for name, data in files.items():
            self.files[f"/{repo}/resolve/{REVISION}/{name}"] = data
            entry = {"rfilename": name, "size": len(data),
                     "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
            if name.endswith(lfs):
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data),
                                "pointerSize": 134}
            siblings.append(entry)
            self.files[f"/{repo}/resolve/main/{name}"] = data
            for revision in (REVISION, "main"):
                self.identities[f"/{repo}/resolve/{revision}/{name}"] = {
                    "X-Repo-Commit": REVISION, "X-Linked-Size": str(len(data)),
                    "X-Linked-ETag": '"%s"' % entry.get("lfs", {}).get("sha256", entry["blobId"])}
        about = {"id": repo, "sha": REVISION, "siblings": siblings,
                 "cardData": {"license": "apache-2.0"}, **metadata}
        self.put_about(repo, about)
        return about

    def put_about(self, repo, about):
        self.files[f"/api/models/{repo}/revision/main"] = json.dumps(about).encode()

    def put_ollama(self, name, tag, data, others=None, **layer):
        """Adds a model with the weights @data. @others maps kinds of further layers, such as
        "params", to their bytes."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        model = {"mediaType": "application/vnd.ollama.image.model", "digest": digest,
                 "size": len(data), **layer}
        layers = [model]
        for kind, content in (others or {}).items():
            other = "sha256:" + hashlib.sha256(content).hexdigest()
            layers.append({"mediaType": f"application/vnd.ollama.image.{kind}", "digest": other,
                           "size": len(content)})
            self.files[f"/v2/library/{name}/blobs/{other}"] = content
        self.files[f"/v2/library/{name}/manifests/{tag}"] = json.dumps(
            {"schemaVersion": 2, "layers": layers}).encode()
        self.files[f"/v2/library/{name}/blobs/{digest}"] = data


class Proxy:
    """A proxy for HTTPS on this machine. `asked` lists the requests that it got: CONNECT HOST:PORT."""

    def __init__(self):
        self.asked = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(4096)
            if not part:
                return
            head += part
        method, target = head.split()[:2]
        self.asked.append(f"{method.decode()} {target.decode()}")
        host, _, port = target.decode().rpartition(":")
        with client, socket.create_connection((host, int(port))) as server:
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=copy_bytes, args=(server, client), daemon=True)
            back.start()
            copy_bytes(client, server)
            back.join()

    def close(self):
        self.server.close()
