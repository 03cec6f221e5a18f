# SPDX-License-Identifier: Apache-2.0
"""Runs every example of the documents; an example that cannot be run says why."""
import json
import sys

import pytest
from blocks import all_blocks
from conftest import stop, wait_listening

BLOCKS = list(all_blocks())


def chosen(language, *modes):
    return [b for b in BLOCKS if b.language == language and b.mode in modes]


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_is_run_or_excused(block):
    assert block.problem() is None


def run_shell(user, block):
    result = user.run(["sh", "-e", "-u", "-c", user.text(block)])
    assert result.returncode == 0, "%s\n%s" % (result.stdout, result.stderr)
    return result.stdout


def marked(block):
    """Returns the block as a parameter. A block with `sconce bench` runs alone: the command uses
    all processors, and takes minutes if it has to share them."""
    alone = "sconce bench" in block.text
    return pytest.param(block, marks=pytest.mark.alone if alone else ())


@pytest.mark.parametrize("block", [marked(b) for b in chosen("sh", "")], ids=repr)
def test_shell(served, block):
    out = run_shell(served, block)
    assert "\"error\"" not in out or "error" in block.text.lower(), out


@pytest.mark.parametrize("block", chosen("sh", "server"), ids=repr)
def test_server(user, block):
    """Runs the block unchanged, except for the port, which may be in use on this machine."""
    text = block.text.replace(":8080", ":0")
    if "--listen" not in text:
        text = text.replace("sconce serve", "sconce serve --listen 127.0.0.1:0")
    process = user.start(["sh", "-e", "-c", "exec " + text])
    wait_listening(process)
    stop(process)
    assert process.returncode == 0


@pytest.mark.parametrize("block", chosen("python", ""), ids=repr)
def test_python(served, block):
    for package in ("openai", "anthropic"):
        if package in block.text:
            pytest.importorskip(package)
    result = served.run([sys.executable, "-c", served.text(block)])
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


@pytest.mark.parametrize("block", chosen("yaml", ""), ids=repr)
def test_configuration(user, block, tmp_path):
    file = tmp_path / "sconce.yaml"
    file.write_text(block.text)
    result = user.run(["sconce", "list", "--config", str(file)])
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", chosen("yaml", "manifest"), ids=repr)
def test_manifest(user, block):
    file = user.home / "models/other-name.yaml"
    file.write_text(block.text)
    try:
        result = user.run(["sconce", "list", "--names", "--models", str(user.home / "models")])
    finally:
        file.unlink()
    assert result.returncode == 0, result.stderr
    assert "other-name" in result.stdout.split()


@pytest.mark.parametrize("block", chosen("yaml", "policy"), ids=repr)
def test_policy(user, block, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(block.text)
    result = user.run(["sconce", "policy", "check", str(file)])
    assert result.returncode == 0, result.stderr


def shape(value):
    """Returns the types and names in a JSON value; for an array, the shape of its first element."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(v) for v in value[:1]]
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, (int, float)) else "text"


@pytest.mark.parametrize("block", chosen("json", ""), ids=repr)
def test_json(block):
    json.loads(block.text)


@pytest.mark.parametrize("block", chosen("json", "above"), ids=repr)
def test_answer_has_the_shape_that_is_shown(served, block):
    before = [b for b in BLOCKS if b.path == block.path and b.line < block.line
              and b.language == "sh"]
    assert before and before[-1].mode == "", "there is no command above"
    answer = json.loads(run_shell(served, before[-1]))
    assert shape(answer) == shape(json.loads(block.text))
