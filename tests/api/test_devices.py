# SPDX-License-Identifier: Apache-2.0
"""Tests the chat service on devices: its error when a device is missing, and that answers computed
with Vulkan match those of the CPU.

Without a GPU these tests use lavapipe, for which the service has a policy of its own.
"""
import concurrent.futures
import json
import subprocess
import urllib.error
import urllib.request

import pytest

from conftest import BUILD, CHAT, SLOW

PR_SET_MDWE, PR_GET_MDWE = 65, 66
QUESTION = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 32, "temperature": 0}
pytestmark = pytest.mark.long


def ask(suite, path="/v1/completions", **body):
    request = urllib.request.Request(suite.url + path, json.dumps({**QUESTION, **body}).encode())
    with urllib.request.urlopen(request, timeout=120 * SLOW) as answer:
        return json.load(answer)["choices"][0]["text"]


def refusal(suite):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(suite)
    body = json.loads(caught.value.read())
    return caught.value.code, body["error"]["code"], body["error"]["message"]


@pytest.fixture(scope="module")
def vulkan():
    """Provides the devices that `sconce info --devices` lists, if Vulkan is among them."""
    if SLOW > 1:
        pytest.skip("drivers are not built for sanitizers")
    sconce = BUILD / "services/cli/sconce"
    if not sconce.exists():
        pytest.skip("no build in %s" % BUILD)
    told = json.loads(subprocess.run([str(sconce), "info", "--devices", "--json"], check=True,
                                     capture_output=True, timeout=60).stdout)
    found = [d for d in told["devices"] if d["api"] and not d["unusable"]]
    if not found:
        pytest.skip("no Vulkan device: %s" % told["no_vulkan"])
    return found


def test_the_cpu_is_reported_as_the_device(make_suite):
    suite = make_suite(chat="  device: cpu\n")
    ask(suite)
    info = [name for name in suite.chat_metrics() if name.startswith("sconce_chat_device_info")]
    assert len(info) == 1 and 'device="cpu"' in info[0]


@pytest.mark.skipif(SLOW > 1, reason="the command loads drivers that are not built for sanitizers")
def test_a_missing_device_is_reported(make_suite):
    suite = make_suite(chat="  device: vulkan:99\n")
    status, code, message = refusal(suite)
    assert (status, code) == (503, "misconfigured")
    assert "vulkan:99" in message and "cpu" in message


def test_the_option_wins_over_the_configuration(make_suite):
    suite = make_suite(chat="  device: vulkan:99\n")
    suite.chat.argv += ["--device", "cpu"]
    assert ask(suite)


def test_vulkan_answers_as_the_cpu(make_suite, vulkan):
    suite = make_suite(chat="  device: vulkan\n")
    cpu = make_suite(chat="  device: cpu\n")
    expected = [ask(cpu, prompt="%d, and then" % i) for i in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda i: ask(suite, prompt="%d, and then" % i), range(4))) == expected
    assert any('device="vulkan:0"' in name for name in suite.chat_metrics())


def test_models_take_turns_on_vulkan(make_suite, vulkan):
    suite = make_suite(chat="  device: vulkan\n")
    texts = [ask(suite, model=model) for model in ("tiny", "plain", "tiny")]
    assert texts[0] == texts[1] == texts[2]
    assert suite.chat.starts == 1


def test_two_models_share_a_device(make_suite, vulkan):
    suite = make_suite(chat="  device: vulkan\n  max_models: 2\n")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(lambda model: ask(suite, model=model), ("tiny", "plain")))
    assert texts[0] == texts[1]


# Replaces /dev in a mount namespace by a directory with a few devices and NVIDIA's control node,
# which behaves like /dev/null.
NVIDIA = """
top=$1; shift
mount -t tmpfs tmpfs "$top"
for name in null zero full random urandom; do
    : >"$top/$name"
    mount --bind "/dev/$name" "$top/$name"
done
: >"$top/nvidiactl"
mount --bind /dev/null "$top/nvidiactl"
mount --rbind "$top" /dev
exec "$@"
"""


def wrap(suite, tmp_path, without_code=False, nvidia=False):
    """Makes the chat service run without executable memory, as our units do, or with NVIDIA's
    control node. Skips the test if that is not possible here."""
    deny = "c = ctypes.CDLL(None); c.prctl(%d, 1, 0, 0, 0)" % PR_SET_MDWE
    check = "import ctypes, sys; %s; sys.exit(c.prctl(%d, 0, 0, 0, 0) <= 0)" % (deny, PR_GET_MDWE)
    if without_code and subprocess.run(["python3", "-c", check]).returncode:
        pytest.skip("a kernel without PR_SET_MDWE")
    if nvidia and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no permission to make a mount namespace")
    words = [str(CHAT)]
    if nvidia:
        top = tmp_path / "dev"
        top.mkdir()
        words = ["unshare", "--mount", "sh", "-ec", NVIDIA, "sh", str(top), *words]
    program = tmp_path / "sconce-chat"
    program.write_text("#!/usr/bin/env python3\nimport ctypes, os, sys\n%s\n"
                       "os.execvp(%r, %r + sys.argv[1:])\n" % (deny if without_code else "", words[0],
                                                             words))
    program.chmod(0o755)
    suite.chat.argv[0] = str(program)


def log(suite):
    return open(suite.log_path, errors="replace").read()


def test_without_executable_memory_software_is_refused(make_suite, vulkan, tmp_path):
    if vulkan[0]["kind"] != "software":
        pytest.skip("the service uses the GPU of this machine")
    suite = make_suite(chat="  device: vulkan\n")
    wrap(suite, tmp_path, without_code=True)
    status, code, message = refusal(suite)
    assert (status, code) == (503, "misconfigured")
    assert "executable" in message and "sconce setup gpu" in message


def test_without_executable_memory_auto_does_not_use_nvidias_driver(make_suite, tmp_path):
    suite = make_suite()
    wrap(suite, tmp_path, without_code=True, nvidia=True)
    assert ask(suite)
    assert any('device="cpu"' in name for name in suite.chat_metrics())
    assert "computing on cpu: NVIDIA's driver compiles code" in log(suite)


def test_without_executable_memory_nvidias_driver_is_refused(make_suite, tmp_path):
    suite = make_suite(chat="  device: vulkan:0\n")
    wrap(suite, tmp_path, without_code=True, nvidia=True)
    status, code, message = refusal(suite)
    assert (status, code) == (503, "misconfigured")
    assert "NVIDIA" in message and "executable" in message and "sconce setup gpu" in message


def test_drivers_are_loaded_beside_nvidias_node(make_suite, vulkan, tmp_path):
    """Loads the drivers of this machine with the policy that NVIDIA's driver gets."""
    if vulkan[0]["kind"] != "software":
        pytest.skip("the namespace has no nodes of GPUs that exist")
    suite = make_suite()
    wrap(suite, tmp_path, nvidia=True)
    assert ask(suite)
    assert "NVIDIA's driver compiles code" not in log(suite)
    assert "computing on cpu: vulkan:0" in log(suite)
