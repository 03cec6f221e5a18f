# SPDX-License-Identifier: Apache-2.0
"""Builds programs against the installed library, as docs/libinfer.md says, and runs them: C with pkg-config,
Python with ctypes, Rust with cargo."""
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

from conftest import TREE

BINDINGS = TREE / "packaging/bindings"
VECTORS = TREE / "tests/golden/embed/bert-mean"
QUESTION = "What is sconce?"
ANSWER = "sconce is local AI for Linux"
TEXTS = ("a cat", "a kitten")


@pytest.fixture(scope="module")
def installed(build, tmp_path_factory):
    """Installs the library into a directory. Returns the environment that finds it there."""
    root = tmp_path_factory.mktemp("root")
    done = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--tags", "runtime,devel",
                           "--destdir", root], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("the build is not complete: " + done.stderr[-300:])
    (pc,) = root.rglob("libinfer.pc")
    folder = next(root.rglob("libinfer.so.0")).parent
    return {**os.environ, "PKG_CONFIG_PATH": str(pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(root),
            "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1", "LD_LIBRARY_PATH": str(folder),
            "LIBINFER": str(folder / "libinfer.so.0")}


def compile_c(source, program, environment):
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libinfer"], env=environment, check=True,
                           capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "-std=c17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", source, "-o", program,
                    *flags], env=environment, check=True)


def run(environment, *argv):
    return subprocess.run(list(map(str, argv)), env=environment, capture_output=True, text=True, timeout=120)


def check_talk(environment, guide, *talk):
    """Runs the example: it answers, compares, and explains errors."""
    out = run(environment, *talk, "chat", guide, QUESTION)
    assert out.returncode == 0 and out.stdout.startswith(ANSWER), out
    out = run(environment, *talk, "compare", VECTORS, *TEXTS)
    assert out.returncode == 0 and 0.5 < float(out.stdout) < 1, out
    out = run(environment, *talk, "chat", "/missing.gguf", QUESTION)
    assert out.returncode == 1 and "No such file" in out.stderr, out
    out = run(environment, *talk, "compare", guide, *TEXTS)
    assert out.returncode in (0, 1) and (out.returncode == 0 or out.stderr), out


def layouts_of_c(structs, folder, environment):
    """Returns what a C compiler says about the layouts. @structs: the members of each struct by name."""
    lines = ["#include <infer/infer.h>", "#include <stdio.h>", "int main(void) {"]
    for name, members in structs.items():
        lines.append('printf("%s %%zu\\n", sizeof(struct %s));' % (name, name))
        lines += ['printf("%s.%s %%zu\\n", offsetof(struct %s, %s));' % (name, m, name, m) for m in members]
    (folder / "layouts.c").write_text("\n".join(lines + ["return 0;", "}"]))
    compile_c(folder / "layouts.c", folder / "layouts", environment)
    return run(environment, folder / "layouts").stdout.splitlines()


# --- C ---

def test_a_c_program_uses_the_installed_library(installed, guide, tmp_path):
    compile_c(BINDINGS / "c/talk.c", tmp_path / "talk", installed)
    check_talk(installed, guide, tmp_path / "talk")


# --- Python ---

PROGRAM = """
import sys
import infer

guide, vectors = sys.argv[1:]
with infer.Model(guide) as model, infer.Engine(model, context=1024, threads=2) as engine:
    messages = [{"role": "user", "content": "What is sconce?"}]
    pieces = list(engine.chat(messages, max_tokens=40))
    assert len(pieces) > 5 and engine.finish == "length", pieces
    print("".join(pieces))
    assert list(engine.generate(model.encode("Once"), max_tokens=4, stop=["\\n"], top_k=1)) is not None
    for _ in engine.chat(messages):
        break  # this cancels the request
    assert "".join(engine.chat(messages, max_tokens=40)) == "".join(pieces)
    try:
        list(engine.generate("x " * 4000))
        raise SystemExit("a prompt that is too long was accepted")
    except infer.Error as e:
        assert e.code == 7 and "context" in str(e), (e.code, e)
with infer.Model(vectors) as model, infer.Embedder(model, threads=1) as embedder:
    a, b = embedder.vectors(["a cat", "a kitten"])
    assert embedder.vectors(["a cat"]) == [a]
    assert 0.5 < infer.similarity(a, b) < 1
try:
    infer.Model("/missing.gguf")
    raise SystemExit("a missing file was opened")
except infer.Error as e:
    assert e.code == 2 and "/missing.gguf" in str(e)
try:
    model.encode("x")
    raise SystemExit("a closed model was used")
except ValueError:
    pass
"""


def test_python_generates_and_computes_vectors(installed, guide):
    environment = {**installed, "PYTHONPATH": str(BINDINGS / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    out = run(environment, sys.executable, "-c", PROGRAM, guide, VECTORS)
    assert out.returncode == 0 and out.stdout.startswith(ANSWER), out


def test_the_structs_of_python_have_the_layouts_of_c(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("LIBINFER", installed["LIBINFER"])
    spec = importlib.util.spec_from_file_location("infer", BINDINGS / "python/infer.py")
    infer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(infer)
    mine = []
    for struct in infer.STRUCTS:
        mine.append("%s %d" % (struct.__name__, infer.ctypes.sizeof(struct)))
        mine += ["%s.%s %d" % (struct.__name__, m[0], getattr(struct, m[0]).offset) for m in struct._fields_]
    members = {s.__name__: [m[0] for m in s._fields_] for s in infer.STRUCTS}
    assert mine == layouts_of_c(members, tmp_path, installed)


# --- Rust ---

@pytest.fixture(scope="module")
def rust(installed, tmp_path_factory):
    """Builds the example with cargo. Returns its path."""
    cargo = shutil.which("cargo") or shutil.which("cargo", path=os.path.expanduser("~/.cargo/bin"))
    if not cargo:
        pytest.skip("no cargo")
    target = tmp_path_factory.mktemp("cargo")
    done = run({**installed, "CARGO_TARGET_DIR": str(target)}, cargo, "build", "--offline", "--locked",
               "--example", "talk", "--manifest-path", BINDINGS / "rust/Cargo.toml")
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    return target / "debug/examples/talk"


def test_rust_generates_and_computes_vectors(rust, installed, guide):
    check_talk(installed, guide, rust)


def test_the_structs_of_rust_have_the_layouts_of_c(rust, installed, tmp_path):
    mine = run(installed, rust, "layouts").stdout.splitlines()
    members = {}
    for line in mine:
        name, _, member = line.split()[0].partition(".")
        members.setdefault(name, []).extend([member] if member else [])
    assert mine == layouts_of_c(members, tmp_path, installed)
