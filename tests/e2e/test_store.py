# SPDX-License-Identifier: Apache-2.0
"""Tests the store of models: list, show, rm, alias and verify, and models of other programs."""
import hashlib
import json
import os
import shutil
import subprocess
import time

import pytest
from test_cli import Serve


def run(sconce, *args, **kwargs):
    return subprocess.run([sconce, *args], capture_output=True, text=True, timeout=120, **kwargs)


def sums(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def store(home):
    path = home / "data/sconce/models"
    path.mkdir(parents=True)
    return path


def install(store, name, guide, **keys):
    """Installs a model as a directory with a manifest."""
    folder = store / name
    folder.mkdir(parents=True)
    file = folder / "weights.gguf"
    shutil.copy(guide, file)
    lines = ["path: weights.gguf", "source: hf:org/repo", "revision: abc", "licence: apache-2.0",
             "files:", "  - name: weights.gguf", f"    size: {file.stat().st_size}",
             f"    sha256: {sums(file)}"]
    lines += [f"{key}: {value}" for key, value in keys.items()]
    (folder / "manifest.yaml").write_text("\n".join(lines) + "\n")
    return folder


def listed(sconce):
    return {m["name"]: m for m in json.loads(run(sconce, "list", "--json").stdout)}


def test_a_directory_with_a_manifest_is_one_model(sconce, store, guide):
    install(store, "small", guide, aliases="[mini]")
    install(store, "org/big", guide)
    models = listed(sconce)
    assert {"small", "org/big"} <= set(models)
    assert models["small"]["runs"] and models["small"]["aliases"] == ["mini"]
    assert models["small"]["memory"] > models["small"]["bytes"]
    assert models["small"]["program"] is None
    assert run(sconce, "info", "mini").returncode == 0
    shown = json.loads(run(sconce, "show", "--json", "mini").stdout)
    assert shown["source"] == "hf:org/repo" and shown["revision"] == "abc"
    assert shown["licence"] == "apache-2.0" and shown["in_store"] is True
    assert shown["files"] == [{"name": "weights.gguf", "bytes": os.path.getsize(guide),
                               "sha256": sums(store / "small/weights.gguf")}]
    text = run(sconce, "show", "mini").stdout
    assert "hf:org/repo" in text and sums(store / "small/weights.gguf") in text


@pytest.mark.parametrize("text, said", [
    ("path: weights.gguf\nlicense: mit\n", ':2:1: "license" is not a key of a manifest'),
    ("path: weights.gguf\nfiles:\n  - {name: ../x}\n", ':3:12: "files" must be'),
    ("path: weights.gguf\nfiles:\n  - {name: x, sha256: 12}\n", ':3:23: "files" must be'),
    ("path: weights.gguf\npath: weights.gguf\n", ':2:1: "path" is there twice'),
    ("path: weights.gguf\nfiles:\n  - {name: gone.gguf}\n", "lacks its file gone.gguf"),
    ("path: weights.gguf\nfiles:\n  - {name: weights.gguf, size: 3}\n", "bytes instead of 3"),
    ("path: [\n", "manifest.yaml:2:1: "),
])
def test_a_damaged_manifest_is_named_and_harms_no_other_model(sconce, store, guide, text, said):
    folder = install(store, "small", guide)
    install(store, "other", guide)
    (folder / "manifest.yaml").write_text(text)
    models = listed(sconce)
    assert "other" in models and models["small"].get("error"), models
    assert f"{folder}/manifest.yaml" in models["small"]["error"] and said in models["small"]["error"]
    assert said in run(sconce, "list").stdout
    out = run(sconce, "verify")
    assert out.returncode == 1 and "small" in out.stdout


def test_rm_removes_a_model_with_its_files(sconce, store, guide):
    install(store, "org/small", guide)
    shutil.copy(guide, store / "copied.gguf")
    (store / "named.yaml").write_text("path: copied.gguf\n")
    out = run(sconce, "rm", "org/small", "--json")
    assert out.returncode == 0, out.stderr
    (told,) = json.loads(out.stdout)
    assert told["name"] == "org/small" and told["freed"] == os.path.getsize(guide)
    assert not (store / "org").exists()
    assert run(sconce, "rm", "named").returncode == 0
    assert sorted(p.name for p in store.iterdir()) == [".lock"]
    out = run(sconce, "rm", "named")
    assert out.returncode == 1 and 'no model "named"' in out.stderr


def test_rm_removes_a_split_model_and_a_directory(sconce, store, guide):
    for part in (1, 2):
        shutil.copy(guide, store / f"big-0000{part}-of-00002.gguf")
    (store / "hf").mkdir()
    (store / "hf/config.json").write_text("{}")
    (store / "hf/model.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")
    out = run(sconce, "rm", "big", "hf")
    assert out.returncode == 0, out.stderr
    assert sorted(p.name for p in store.iterdir()) == [".lock"]


def test_a_shared_file_stays_until_its_last_model_is_removed(sconce, store, guide):
    one, two = install(store, "one", guide), store / "two"
    blobs = store / ".blobs"
    blobs.mkdir()
    blob = blobs / ("sha256-" + sums(one / "weights.gguf"))
    os.link(one / "weights.gguf", blob)
    two.mkdir()
    os.link(blob, two / "weights.gguf")
    shutil.copy(one / "manifest.yaml", two)
    (told,) = json.loads(run(sconce, "rm", "--json", "one").stdout)
    assert told["freed"] == 0 and blob.exists()
    assert run(sconce, "verify", "two").returncode == 0
    (told,) = json.loads(run(sconce, "rm", "--json", "two").stdout)
    assert told["freed"] == os.path.getsize(guide) and not blob.exists()


def test_rm_follows_no_link(sconce, store, guide, tmp_path):
    kept = tmp_path / "kept.gguf"
    shutil.copy(guide, kept)
    (store / "linked.gguf").symlink_to(kept)
    assert run(sconce, "rm", "linked").returncode == 0
    assert kept.exists() and not (store / "linked.gguf").is_symlink()
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    shutil.copy(guide, outside / "mine.gguf")
    (store.parent.parent.parent / "config/sconce").mkdir()
    (store.parent.parent.parent / "config/sconce/sconce.yaml").write_text(
        f"models:\n  directories: [{store}, {outside}]\n")
    out = run(sconce, "rm", "mine")
    assert out.returncode == 1 and "outside of the store" in out.stderr
    assert (outside / "mine.gguf").exists()


def test_verify_finds_every_changed_byte(sconce, store, guide):
    folder = install(store, "small", guide)
    shutil.copy(guide, store / "copied.gguf")
    rows = {(r["model"], r["file"]): r for r in
            json.loads(run(sconce, "verify", "--json").stdout)}
    assert rows["small", "weights.gguf"]["state"] == "good"
    assert rows["copied", "copied.gguf"]["state"] == "unknown"
    with open(folder / "weights.gguf", "r+b") as f:
        f.seek(-1, 2)
        last = f.read(1)[0]
        f.seek(-1, 2)
        f.write(bytes([last ^ 1]))
    out = run(sconce, "verify", "small")
    assert out.returncode == 1 and "bad      small: " in out.stdout
    assert sums(folder / "weights.gguf") in out.stdout


def test_aliases_are_added_and_removed_and_comments_stay(sconce, store, guide):
    folder = install(store, "small", guide)
    manifest = folder / "manifest.yaml"
    manifest.write_text("# Größe: klein\n" + manifest.read_text() + "aliases: [a] # short\n")
    before = manifest.read_text()
    assert run(sconce, "alias", "small", "gpt-4o").returncode == 0
    assert manifest.read_text() == before.replace("[a]", '["a", "gpt-4o"]')
    assert listed(sconce)["small"]["aliases"] == ["a", "gpt-4o"]
    out = run(sconce, "alias", "small", "gpt-4o")
    assert out.returncode == 1 and "a name of small already" in out.stderr
    assert run(sconce, "alias", "--remove", "a").returncode == 0
    assert manifest.read_text() == before.replace("[a]", '["gpt-4o"]')
    out = run(sconce, "alias", "--remove", "small")
    assert out.returncode == 1 and "not an alias" in out.stderr
    for bad in ("../x", ".x", "a/b/c", "a\nb", ""):
        assert run(sconce, "alias", "small", bad).returncode == 1, bad


def test_a_list_of_aliases_in_lines_is_replaced(sconce, store, guide):
    folder = install(store, "small", guide)
    manifest = folder / "manifest.yaml"
    manifest.write_text("aliases:\n  - a\n  - b\n# comment\n" + manifest.read_text())
    assert run(sconce, "alias", "--remove", "a").returncode == 0
    assert listed(sconce)["small"]["aliases"] == ["b"]
    assert "# comment\npath:" in manifest.read_text()


def test_models_without_a_manifest_get_one_with_the_alias(sconce, store, guide):
    shutil.copy(guide, store / "copied.gguf")
    assert run(sconce, "alias", "copied", "c").returncode == 0
    assert (store / "copied.yaml").read_text() == 'path: "copied.gguf"\naliases: ["c"]\n'
    assert listed(sconce)["copied"]["aliases"] == ["c"]
    assert run(sconce, "alias", "--remove", "c").returncode == 0
    assert listed(sconce)["copied"]["aliases"] == []


# --- models of other programs ---

def put_hub(home, guide):
    """Makes a cache as huggingface_hub does: links in a snapshot lead to blobs."""
    repo = home / ".cache/huggingface/hub/models--org--small-GGUF"
    (repo / "blobs").mkdir(parents=True)
    blob = repo / "blobs" / hashlib.sha256(open(guide, "rb").read()).hexdigest()
    shutil.copy(guide, blob)
    snapshot = repo / "snapshots/0123abc"
    snapshot.mkdir(parents=True)
    (snapshot / "small-Q8_0.gguf").symlink_to(f"../../blobs/{blob.name}")
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text("0123abc")


def put_ollama(home, guide, tag="0.6b", **layer):
    digest = hashlib.sha256(open(guide, "rb").read()).hexdigest()
    top = home / ".ollama/models"
    (top / "blobs").mkdir(parents=True, exist_ok=True)
    shutil.copy(guide, top / f"blobs/sha256-{digest}")
    folder = top / "manifests/registry.ollama.ai/library/small"
    folder.mkdir(parents=True, exist_ok=True)
    first = {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + digest,
             "size": os.path.getsize(guide), **layer}
    (folder / tag).write_text(json.dumps({"schemaVersion": 2, "layers": [first]}))


def put_flat(home, guide):
    (home / ".cache/llama.cpp").mkdir(parents=True)
    shutil.copy(guide, home / ".cache/llama.cpp/org_flat.gguf")
    (home / ".lmstudio/models/org/repo").mkdir(parents=True)
    shutil.copy(guide, home / ".lmstudio/models/org/repo/studio.gguf")


@pytest.fixture
def others(home, store, guide):
    """Provides a home in which four other programs have models."""
    put_hub(home, guide)
    put_ollama(home, guide)
    put_ollama(home, guide, tag="latest")
    put_flat(home, guide)
    return home


def allow(home, *programs):
    (home / "config/sconce").mkdir(exist_ok=True)
    (home / "config/sconce/sconce.yaml").write_text(
        "models:\n  other_programs: [%s]\n" % ", ".join(programs))


NAMES = {"org/small-GGUF/small-Q8_0": "huggingface", "small:0.6b": "ollama", "small": "ollama",
         "org_flat": "llama.cpp", "org/repo/studio": "lm-studio"}


def test_models_of_other_programs_are_found_only_if_allowed(sconce, others):
    assert not set(NAMES) & set(listed(sconce))
    allow(others, *sorted(set(NAMES.values())))
    models = listed(sconce)
    assert set(NAMES) <= set(models)
    assert all(models[name]["runs"] and models[name]["program"] for name in NAMES)
    assert run(sconce, "info", "small:0.6b").returncode == 0
    allow(others, "ollama")
    assert set(NAMES) & set(listed(sconce)) == {"small:0.6b", "small"}
    allow(others, "gpt4all")
    out = run(sconce, "list")
    assert out.returncode == 1 and "huggingface, ollama, lm-studio or llama.cpp" in out.stderr


def test_models_of_other_programs_are_verified_and_never_removed(sconce, others):
    allow(others, *sorted(set(NAMES.values())))
    for name in NAMES:
        out = run(sconce, "rm", name)
        assert out.returncode == 1 and "remove it there" in out.stderr, name
    assert set(NAMES) <= set(listed(sconce))
    for name in ("small:0.6b", "org/small-GGUF/small-Q8_0"):
        out = run(sconce, "verify", name)
        assert out.returncode == 0 and out.stdout.startswith("good "), out
    assert run(sconce, "alias", "small:0.6b", "tiny").returncode == 0
    assert listed(sconce)["tiny"]["runs"]
    assert run(sconce, "alias", "--remove", "tiny").returncode == 0
    assert "tiny" not in listed(sconce)


def test_damaged_manifests_of_ollama_are_told(sconce, others, guide):
    allow(others, "ollama")
    folder = others / ".ollama/models/manifests/registry.ollama.ai/library/small"
    (folder / "bad").write_text("{")
    (folder / "climbing").write_text(json.dumps({"layers": [{
        "mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x"}]}))
    put_ollama(others, guide, tag="adapted",
               mediaType="application/vnd.ollama.image.adapter")
    models = listed(sconce)
    assert models["small:0.6b"]["runs"]
    assert "is not a manifest of Ollama" in models["small:bad"]["error"]
    assert "is not a manifest of Ollama" in models["small:climbing"]["error"]
    assert "adapter" in models["small:adapted"]["error"]


def test_confined_services_answer_with_these_models_and_with_new_ones(sconce, others, store, guide):
    allow(others, *sorted(set(NAMES.values())))
    s = Serve(sconce)
    try:
        for name in NAMES:
            assert s.ask("What is sconce?", model=name)["choices"][0]["message"]["content"], name
        install(store, "fresh", guide, aliases="[newest]")
        assert s.ask("What is sconce?", model="newest")["choices"][0]["message"]["content"]
        assert run(sconce, "rm", "fresh").returncode == 0
        end = time.monotonic() + 20  # services keep their list of models for some seconds
        while "fresh" in {m["id"] for m in json.loads(s.get("/v1/models"))["data"]}:
            assert time.monotonic() < end
            time.sleep(0.2)
    finally:
        assert s.stop() == 0
