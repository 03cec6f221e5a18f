# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce pull` with a hub on this machine: good models, faults and attacks."""
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import hub as hubs
import pytest


@pytest.fixture
def weights(guide):
    return pathlib.Path(guide).read_bytes()


def listed(sconce):
    out = subprocess.run([sconce, "list", "--json"], capture_output=True, text=True, check=True)
    return {m["name"]: m for m in json.loads(out.stdout)}


def verified(sconce, name):
    out = subprocess.run([sconce, "verify", name], capture_output=True, text=True)
    return out.returncode == 0 and " 0 bad, 0 without" in out.stdout


# --- models ---

def test_a_quantization_is_pulled_verified_and_described(pull, hub, sconce, store, weights):
    hub.put_repository("org/small-GGUF", {"small-Q8_0.gguf": weights, "small-Q4_K_M.gguf": b"GGUF",
                                          "README.md": b"#"})
    out = pull("org/small-GGUF:q8_0")
    assert out.returncode == 0, out.stderr
    model = listed(sconce)["small-Q8_0"]
    assert model["runs"] and model["aliases"] == ["org/small-GGUF:q8_0"]
    shown = json.loads(subprocess.run([sconce, "show", "--json", "small-Q8_0"], check=True,
                                      capture_output=True, text=True).stdout)
    assert shown["source"] == "hf:org/small-GGUF:q8_0" and shown["revision"] == hubs.REVISION
    assert shown["licence"] == "apache-2.0"
    assert shown["files"][0]["sha256"] == hashlib.sha256(weights).hexdigest()
    assert verified(sconce, "small-Q8_0")
    assert not list((store / ".incoming").iterdir())
    n = len(hub.requests)
    out = pull("org/small-GGUF:q8_0")
    assert out.returncode == 0 and "is already installed" in out.stdout
    assert len(hub.requests) == n + 1


def test_without_a_quantization_one_that_fits_is_taken(pull, hub, weights):
    hub.put_repository("org/m", {"m-F16.gguf": weights, "m-Q8_0.gguf": weights[:-1] + b"x",
                                 "mmproj-F16.gguf": b"GGUF", "m-IQ4_XS.gguf": weights})
    out = pull("hf:org/m", "--name", "mine")
    assert out.returncode == 0, out.stderr
    assert "Q8_0 is the best quantization" in out.stderr
    assert not any("F16" in path or "IQ4" in path for path, _ in hub.requests)


def test_a_split_model_is_pulled_whole(pull, hub, sconce, store, weights):
    files = {f"q/big-Q8_0-0000{i}-of-00002.gguf": b"GGUF" + weights[:1000 * i] for i in (1, 2)}
    hub.put_repository("org/big", files)
    assert pull("org/big:Q8_0").returncode == 0
    assert sorted(p.name for p in (store / "big-Q8_0").iterdir()) == [
        "big-Q8_0-00001-of-00002.gguf", "big-Q8_0-00002-of-00002.gguf", "manifest.yaml"]


def test_safetensors_are_pulled_with_their_tokenizer(pull, hub, sconce, store):
    tree = pathlib.Path(__file__).resolve().parents[1] / "golden/embed/bert-mean"
    files = {str(p.relative_to(tree)): p.read_bytes() for p in tree.rglob("*") if p.is_file()}
    hub.put_repository("org/bert", {**files, "pytorch_model.bin": b"x", "run.py": b"x"})
    out = pull("org/bert")
    assert out.returncode == 0, out.stderr
    model = listed(sconce)["org/bert"]
    assert model["runs"] and model["task"] == "embedding" and model["format"] == "safetensors"
    assert not (store / "org/bert/run.py").exists() and verified(sconce, "org/bert")


def test_ollama_urls_and_paths(pull, hub, sconce, store, weights, guide):
    hub.put_ollama("small", "0.6b", weights)
    assert pull("ollama:small:0.6b").returncode == 0
    hub.files["/x/other.gguf"] = weights + b"1"
    out = pull(hub.url + "/x/other.gguf?token=secret", "--json")
    assert out.returncode == 0 and json.loads(out.stdout)["name"] == "other"
    assert pull(guide, "--name", "local").returncode == 0
    models = listed(sconce)
    assert {"small:0.6b", "other", "local"} <= set(models)
    assert "secret" not in (store / "other/manifest.yaml").read_text()
    # The same content is stored once.
    assert os.stat(store / "local/sconce-guide.gguf").st_ino == os.stat(
        store / "small:0.6b/small.gguf").st_ino


def test_a_proxy_of_the_configuration_gets_all_connections(pull, hub, sconce, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    proxy = hubs.Proxy()
    pull.configure(proxy=proxy.url)
    out = pull("org/m")
    proxy.close()
    assert out.returncode == 0, out.stderr
    assert verified(sconce, "m-Q8_0")
    where = hub.url.removeprefix("https://")
    assert proxy.asked and set(proxy.asked) == {f"CONNECT {where}"}


def test_serve_pulls_for_clients(pull, hub, sconce, home, weights):
    hub.put_ollama("small", "1b", weights)
    door, url = str(home / "door.sock"), "http://localhost/api/"
    curl = ["curl", "-sS", "--max-time", "60", "--retry", "9", "--retry-delay", "1", "--retry-all-errors",
            "--unix-socket", door]
    with subprocess.Popen([sconce, "serve", "--listen", "unix:" + door], stderr=subprocess.PIPE) as serve:
        try:
            while not os.path.exists(door):
                assert serve.poll() is None
                time.sleep(0.05)
            out = subprocess.run([*curl, "-d", '{"model": "small:1b"}', url + "pull"], text=True,
                                 capture_output=True)
            assert out.stdout.endswith('{"status":"success"}\n'), out
            assert verified(sconce, "small:1b")
            subprocess.run([*curl, "-X", "DELETE", "-d", '{"model": "small:1b"}', url + "delete"], check=True)
            assert "small:1b" not in listed(sconce)
        finally:
            serve.terminate()
            serve.communicate(timeout=60)


def test_run_fetches_a_model_that_is_missing(pull, hub, sconce, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    run = [sconce, "run", "org/m", "What is sconce?", "-n", "4"]
    out = subprocess.run(run, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert out.returncode == 1 and "add --yes" in out.stderr
    out = subprocess.run([*run, "--yes"], capture_output=True, text=True)
    assert out.returncode == 0 and out.stdout.split()[-4:], out.stderr
    n = len(hub.requests)
    assert subprocess.run(run, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
    assert len(hub.requests) == n


def test_suggestions_are_sources_with_the_best_for_this_machine(sconce):
    out = subprocess.run([sconce, "pull", "--suggest", "--json"], capture_output=True, text=True)
    found = json.loads(out.stdout)
    for task in ("chat", "code", "embedding", "rerank", "speech"):
        models = [m for m in found["models"] if m["task"] == task]
        assert models == sorted(models, key=lambda m: m["memory"])
        fits = [m for m in models if m["memory"] * 15 / 16 <= found["memory"]]
        assert fits == [m for m in models if m["fits"]]
        assert [m for m in models if m["best"]] == fits[-1:]
        assert all(m["bytes"] < m["memory"] * 0.6 and "/" in m["source"] for m in models), models
    out = subprocess.run([sconce, "pull", "--suggest", "chat"], capture_output=True, text=True)
    assert out.stdout.count("Qwen/Qwen3") == 6 and "speech" not in out.stdout
    assert subprocess.run([sconce, "pull", "--suggest", "nix"], capture_output=True).returncode == 2


GO_CHATML = b"""{{ if .System }}<|im_start|>system
{{ .System }}<|im_end|>
{{ end }}<|im_start|>user
{{ .Prompt }}<|im_end|>
<|im_start|>assistant
"""


def test_parameters_and_templates_of_ollama_become_settings(pull, hub, sconce, weights):
    params = {"stop": ["<|im_end|>", "USER:"], "temperature": 0.25, "top_k": 30, "num_ctx": 1024,
              "repeat_penalty": 1.1, "num_keep": 4, "top_p": 7}
    layers = {"params": json.dumps(params).encode(), "template": GO_CHATML, "license": b"MIT"}
    bare = weights.replace(b"tokenizer.chat_template", b"tokenizer.chat_tempXate")

    def settings(name, data, template=GO_CHATML):
        hub.put_ollama(name, "latest", data, {**layers, "template": template})
        out = pull(f"ollama:{name}")
        assert out.returncode == 0, out.stderr
        shown = json.loads(subprocess.run([sconce, "show", "--json", name], check=True,
                                          capture_output=True, text=True).stdout)
        assert verified(sconce, name)
        return shown, out.stderr

    shown, _ = settings("own", weights)
    assert shown["settings"] == {"stop": params["stop"], "context": 1024}
    assert shown["sampling"] == pytest.approx(
        {"temperature": 0.25, "top_k": 30, "repetition_penalty": 1.1})
    shown, note = settings("bare", bare)
    assert shown["settings"]["template"] == "chatml" and "built-in template chatml" in note
    shown, note = settings("odd", bare, b"{{ .Prompt }} >>")
    assert "template" not in shown["settings"] and "cannot be used" in note
    layers["params"] = b"[]"
    hub.put_ollama("wrong", "latest", bare, layers)
    out = pull("ollama:wrong")
    assert out.returncode == 1 and "not a JSON object" in out.stderr
    assert "wrong" not in listed(sconce)


def test_a_newer_revision_takes_the_place_of_an_older_one(pull, hub, sconce, store, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    assert pull("org/m").returncode == 0
    newer = weights + b"2"
    hub.put_repository("org/m", {"m-Q8_0.gguf": newer})
    assert pull("org/m").returncode == 0
    assert (store / "m-Q8_0/m-Q8_0.gguf").read_bytes() == newer and verified(sconce, "m-Q8_0")


def test_a_file_that_the_store_has_is_not_fetched_again(pull, hub, sconce, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    hub.put_repository("org/copy", {"copy-Q8_0.gguf": weights})
    assert pull("org/m").returncode == 0
    assert pull("org/copy").returncode == 0
    assert not any("copy/resolve" in path for path, _ in hub.requests)
    assert verified(sconce, "copy-Q8_0") and verified(sconce, "m-Q8_0")


def test_two_names_of_one_content_are_fetched_once(pull, hub, sconce, store):
    tree = pathlib.Path(__file__).resolve().parents[1] / "golden/embed/bert-mean"
    files = {str(p.relative_to(tree)): p.read_bytes() for p in tree.rglob("*") if p.is_file()}
    files["model-copy.safetensors"] = files["model.safetensors"]
    hub.put_repository("org/twice", files)
    out = pull("org/twice")
    assert out.returncode == 0, out.stderr
    assert verified(sconce, "org/twice")


def test_others_can_read_the_model_whatever_the_umask(pull, hub, store, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    assert pull("org/m", umask=0o077).returncode == 0
    assert (store / "m-Q8_0").stat().st_mode & 0o777 == 0o755
    assert all(p.stat().st_mode & 0o777 == 0o644 for p in (store / "m-Q8_0").iterdir())


def test_a_full_disk_is_told_before_anything_is_fetched(pull, hub, sconce):
    about = hub.put_repository("org/m", {"m-Q8_0.gguf": b"GGUF"})
    about["siblings"][0]["lfs"]["size"] = 1 << 46
    hub.put_about("org/m", about)
    out = pull("org/m:Q8_0")
    assert out.returncode == 1 and "free, but the model needs" in out.stderr
    assert not any("resolve" in path for path, _ in hub.requests)


# --- interruptions ---

def big(n=40 << 20):
    return b"GGUF" + random.Random(1).randbytes(n)


def test_kills_at_any_time_end_in_a_complete_model(pull, hub, sconce, store):
    data = big()
    hub.put_repository("org/big", {"big-Q8_0.gguf": data})
    hub.pace = 0.002
    chance = random.Random(2)
    for _ in range(12):
        process = subprocess.Popen([*pull.command, "org/big"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.02, 0.6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert "big-Q8_0" not in listed(sconce) or verified(sconce, "big-Q8_0")
    hub.pace = 0
    assert pull("org/big").returncode == 0 and verified(sconce, "big-Q8_0")
    assert (store / "big-Q8_0/big-Q8_0.gguf").read_bytes() == data


@pytest.mark.full
def test_after_each_of_200_kills_the_next_command_completes_the_model(pull, hub, sconce, store):
    data = big()
    hub.put_repository("org/big", {"big-Q8_0.gguf": data})
    hub.pace = 0.002
    began = time.monotonic()
    assert pull("org/big").returncode == 0
    whole = time.monotonic() - began
    chance = random.Random(3)
    n_cut = n_resumed = 0
    for _ in range(200):
        assert subprocess.run([sconce, "rm", "big-Q8_0"], capture_output=True).returncode == 0
        hub.pace = 0.002
        process = subprocess.Popen([*pull.command, "org/big"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, whole))
        process.send_signal(signal.SIGKILL)
        process.wait()
        there = "big-Q8_0" in listed(sconce)
        assert not there or verified(sconce, "big-Q8_0")
        n_cut += not there
        n_resumed += any("1" in p.read_text().partition("\n")[2]
                         for p in (store / ".incoming").glob("*/fetch/*.state"))
        hub.pace = 0
        out = pull("org/big")
        assert out.returncode == 0 and verified(sconce, "big-Q8_0"), out.stderr
        assert (store / "big-Q8_0/big-Q8_0.gguf").read_bytes() == data
        assert not list((store / ".incoming").iterdir())
    print(f"{n_cut} of 200 commands were killed before the end, {n_resumed} with complete chunks")
    assert n_cut > 100 and n_resumed > 20


def test_a_later_command_fetches_only_the_rest(pull, hub, sconce):
    data = big(70 << 20)
    hub.put_repository("org/big", {"big-Q8_0.gguf": data})
    stop = [False]
    hub.faults.append(("resolve", lambda h: stop[0] and h.answer(403, b"") is None))

    def count(h):
        sent[0] += 1
        stop[0] = sent[0] > 5
        return False

    sent = [0]
    hub.faults.insert(0, ("resolve", count))
    out = pull("org/big")
    assert out.returncode == 1 and "403" in out.stderr
    hub.faults.clear()
    hub.requests.clear()
    assert pull("org/big").returncode == 0 and verified(sconce, "big-Q8_0")
    ranges = [h["Range"] for path, h in hub.requests if "resolve" in path]
    assert 0 < len(ranges) - 1 < 5, ranges


def test_cut_connections_and_busy_servers_are_tried_again(pull, hub, sconce, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    seen = []

    def fault(h):
        seen.append(1)
        if len(seen) == 1:
            return h.answer(503, b"", Retry_After="1") is None
        if len(seen) == 3:
            return h.send_file(weights, cut=1000) is None
        return False

    hub.faults.append(("resolve", fault))
    out = pull("org/m")
    assert out.returncode == 0, out.stderr
    assert verified(sconce, "m-Q8_0")


def test_a_server_without_ranges_serves_too(pull, hub, sconce, weights):
    hub.ranges = False
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    assert pull("org/m").returncode == 0 and verified(sconce, "m-Q8_0")


# --- faults and attacks: none may leave a model that counts as good ---

def refused(pull, sconce, source, *said):
    before = set(listed(sconce))
    out = pull(source)
    assert out.returncode == 1, out
    assert all(text in out.stderr for text in said), out.stderr
    assert set(listed(sconce)) == before
    return out


@pytest.mark.parametrize("status, said", [(401, "HF_TOKEN"), (403, "terms"), (404, "no such model"),
                                          (418, "status 418")])
def test_errors_of_the_hub_are_explained(pull, hub, sconce, status, said):
    hub.faults.append(("api", lambda h: h.answer(status, b"{}") is None))
    refused(pull, sconce, "org/m", said)


def test_a_wrong_hash_is_refused_and_the_file_removed(pull, hub, sconce, store, weights):
    about = hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    about["siblings"][0]["lfs"]["sha256"] = "0" * 64
    hub.put_about("org/m", about)
    refused(pull, sconce, "org/m", "not those that the source names", "was removed")
    assert not list((store / ".incoming").rglob("*.part"))
    assert not (store / ".blobs").exists() or not list((store / ".blobs").iterdir())


def test_a_wrong_digest_of_a_small_file_is_refused(pull, hub, sconce):
    about = hub.put_repository("org/m", {"config.json": b"{}", "model.safetensors": b"x" * 100})
    about["siblings"][0]["blobId"] = "0" * 40
    hub.put_about("org/m", about)
    refused(pull, sconce, "org/m", "config.json", "not those that the source names")


@pytest.mark.parametrize("size", [-1, 1])
def test_sizes_that_differ_from_the_metadata_are_refused(pull, hub, sconce, weights, size):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    path = f"/org/m/resolve/{hubs.REVISION}/m-Q8_0.gguf"
    hub.files[path] = weights[:size] if size < 0 else weights + b"1"
    refused(pull, sconce, "org/m", "instead of")


@pytest.mark.parametrize("name", ["../x.gguf", "a/../../x.gguf", "/etc/x.gguf", "a\nb.gguf", "./x.gguf",
                                  "..", "x/.gguf/../y.gguf"])
def test_names_that_climb_are_refused(pull, hub, sconce, home, weights, name):
    hub.put_repository("org/m", {name: weights})
    hub.put_repository("org/d", {"config.json": b"{}", "model.safetensors": b"x", name + "/a.json": b""})
    before = {p for p in home.rglob("*") if ".incoming" not in str(p) and ".lock" not in str(p)}
    out = pull("org/m:" + "Q8_0")
    assert out.returncode == 1
    pull("org/m")
    pull("org/d")
    models = home / "data/sconce/models"
    found = {p for p in home.rglob("*") if ".incoming" not in str(p) and ".lock" not in str(p)}
    assert all(models in p.parents for p in found - before), found - before
    assert not pathlib.Path("/etc/x.gguf").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"siblings": 3, "sha": "a"}', "{" * 100000,
                                  '{"siblings": [], "sha": "../x"}',
                                  '{"siblings": [{"rfilename": "m.gguf"}], "sha": "a"}'])
def test_metadata_that_lies_is_refused(pull, hub, sconce, text):
    hub.files["/api/models/org/m/revision/main"] = text.encode()
    refused(pull, sconce, "org/m")


def test_endless_metadata_is_cut(pull, hub, sconce):
    hub.files["/api/models/org/m/revision/main"] = b" " * (17 << 20)
    refused(pull, sconce, "org/m", "larger than")


def redirect(target):
    return lambda h: h.answer(302, b"", Location=target) is None


@pytest.mark.parametrize("target", ["https://127.0.0.1:{port}/x", "https://[::1]:{port}/x",
                                    "https://169.254.169.254/latest/meta-data",
                                    "https://10.0.0.1/x", "https://2130706433:{port}/x",
                                    "https://[::ffff:127.0.0.1]:{port}/x"])
def test_redirects_to_private_addresses_are_refused(pull, hub, sconce, weights, certificate, target):
    victim = hubs.Hub(*certificate)
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    hub.faults.append(("resolve", redirect(target.format(port=victim.port))))
    out = pull("org/m")
    victim.close()
    assert out.returncode == 1 and not victim.requests, out.stderr
    assert "m-Q8_0" not in listed(sconce)


def test_redirects_to_other_schemes_are_refused(pull, hub, sconce, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    for target in ("http://localhost:1/x", "file:///etc/passwd", "ftp://localhost/x"):
        hub.faults[:] = [("resolve", redirect(target))]
        refused(pull, sconce, "org/m")


def test_endless_redirects_end(pull, hub, sconce, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    hub.faults.append(("resolve", redirect(hub.url + f"/org/m/resolve/{hubs.REVISION}/m-Q8_0.gguf")))
    refused(pull, sconce, "org/m", "redirects")


def test_a_private_host_without_a_mirror_is_refused(pull, hub, sconce, weights):
    hub.files["/x.gguf"] = weights
    pull.configure(mirror=None, ollama_mirror=None)
    refused(pull, sconce, hub.url + "/x.gguf", "no public address")
    assert not hub.requests


def test_an_unknown_certificate_is_refused(pull, hub, sconce, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    pull.configure(certificates=None)
    refused(pull, sconce, "org/m", "certificate")
    assert not hub.requests


# --- tokens ---

TOKEN = "hf_aVerySecretToken"


def tokens(server):
    return {h.get("Authorization") for _, h in server.requests}


def test_the_token_goes_to_its_host_alone(pull, hub, sconce, weights, certificate):
    other = hubs.Hub(*certificate)
    other.files["/content"] = weights
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    hub.faults.append(("resolve", redirect(other.url + "/content")))
    env = dict(os.environ, HF_TOKEN=TOKEN)
    pull.configure(ollama_mirror=other.url)
    assert pull("org/m", env=env).returncode == 0
    assert tokens(hub) == {None} and tokens(other) == {None}
    hub.requests.clear()
    pull.configure(ollama_mirror=other.url, token_host=f"localhost:{hub.port}")
    out = pull("org/m", "--name", "again", env=env)
    assert out.returncode == 0, out.stderr
    other.close()
    assert tokens(hub) == {"Bearer " + TOKEN} and tokens(other) == {None}
    assert TOKEN not in out.stdout + out.stderr


def test_a_token_file_is_read_and_no_error_shows_the_token(pull, hub, sconce, home, store):
    (home / "token").write_text(TOKEN + "\n")
    pull.configure(token_file=home / "token", token_host=f"localhost:{hub.port}")
    hub.faults.append(("api", lambda h: h.answer(401, b"{}") is None))
    out = refused(pull, sconce, "org/m")
    assert tokens(hub) == {"Bearer " + TOKEN} and TOKEN not in out.stdout + out.stderr
    for path in store.rglob("*"):
        assert not path.is_file() or TOKEN not in path.read_text(errors="replace")


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_both_processes_are_confined_and_the_token_is_in_no_environment(pull, hub, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    hub.faults.append(("resolve", lambda h: time.sleep(3)))
    process = subprocess.Popen([*pull.command, "org/m"], env=dict(os.environ, HF_TOKEN=TOKEN),
                               stderr=subprocess.DEVNULL)
    while not any("resolve" in path for path, _ in hub.requests):
        assert process.poll() is None
        time.sleep(0.05)
    (child,) = children(process.pid)
    for pid in (process.pid, child):
        assert status(pid)["Seccomp"].strip() == "2" and status(pid)["NoNewPrivs"].strip() == "1"
    assert pathlib.Path(f"/proc/{child}/environ").read_bytes() == b""
    assert TOKEN.encode() not in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()
    assert process.wait(timeout=60) == 0


def test_two_commands_for_one_model_do_not_mix(pull, hub, weights):
    hub.put_repository("org/m", {"m-Q8_0.gguf": weights})
    hub.faults.append(("resolve", lambda h: time.sleep(2)))
    first = subprocess.Popen([*pull.command, "org/m"], stderr=subprocess.DEVNULL)
    while not hub.requests:
        time.sleep(0.05)
    out = pull("org/m")
    assert out.returncode == 1 and "another command is pulling" in out.stderr
    assert first.wait(timeout=60) == 0


@pytest.mark.parametrize("source", ["http://example.org/x.gguf", "ftp://x/y", "m", "a/b/c", "hf:m",
                                    "ollama:../x", "org/m:../../x", "https://example.org/x.bin",
                                    "org/.m", ""])
def test_bad_sources_are_refused_before_anything_is_fetched(pull, hub, source):
    out = pull(source)
    assert out.returncode in (1, 2) and out.stderr and not hub.requests
