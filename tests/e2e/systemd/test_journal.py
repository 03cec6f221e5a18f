# SPDX-License-Identifier: Apache-2.0
"""Tests the journal: it has fields for programs, and never contains text of users."""
from client import ask, chat_body, get
from roots import TREE
from services import SERVICES

AUDIO = TREE / "tests/golden/audio"
SECRET = "Xylophonquartett"


def entries_of(machine, cursor, identity):
    return machine.journal(cursor, SCONCE_REQUEST_ID=identity)


def test_each_request_is_one_entry_with_fields(machine):
    cursor = machine.cursor()
    answer = ask(machine, headers={"x-request-id": "from-the-client-1"})
    assert answer.status == 200
    entries = entries_of(machine, cursor, answer.headers["x-request-id"])
    assert len(entries) == 1, entries
    check_fields(entries[0], "gateway", "6")


def test_services_behind_the_gateway_tell_of_requests_for_debugging(machine, drop_in):
    answering = [row for row in SERVICES if row.answers]
    for row in answering:
        drop_in(row.unit, "[Service]\nEnvironment=SCONCE_LOG=debug\n")
    cursor = machine.cursor()
    answer = ask(machine)
    assert answer.status == 200
    entries = entries_of(machine, cursor, answer.headers["x-request-id"])
    assert len(entries) == len(answering), entries
    for row in answering:
        entry = next(e for e in entries if e["SCONCE_SERVICE"] == row.name)
        check_fields(entry, row.name, "6" if row.name == "gateway" else "7")


def check_fields(entry, service, priority):
    assert entry["SCONCE_SERVICE"] == service and entry["PRIORITY"] == priority
    assert entry["SCONCE_STATUS"] == "200"
    assert entry["MESSAGE"].startswith("POST /v1/chat/completions 200 ")
    assert int(entry["SCONCE_DURATION_USEC"]) > 0 and int(entry["SCONCE_BYTES"]) > 0
    assert entry["SYSLOG_IDENTIFIER"] == "sconce-" + service
    assert entry["_SYSTEMD_UNIT"] == "sconce-%s.service" % service
    assert entry["_SYSTEMD_SLICE"] == "sconce.slice"


def test_refusals_are_entries_too(machine):
    cursor = machine.cursor()
    assert get(machine, "/nothing/here").status == 404
    assert ask(machine, {"model": "none", "messages": []}).status in (400, 404)
    statuses = [e["SCONCE_STATUS"] for e in machine.journal(cursor, SCONCE_SERVICE="gateway")
                if "SCONCE_STATUS" in e]
    assert statuses[0] == "404" and statuses[1] in ("400", "404")


def test_no_prompt_and_no_answer_is_in_the_journal(machine, drop_in):
    for row in SERVICES:
        drop_in(row.unit, "[Service]\nEnvironment=SCONCE_LOG=debug\n")
    cursor = machine.cursor()
    answer = ask(machine, chat_body(16, prompt="Say %s twice" % SECRET))
    assert answer.status == 200
    ask(machine, {"model": SECRET + "-model", "messages": [{"role": SECRET, "content": SECRET}]})
    ask(machine, chat_body(4, prompt=SECRET, tools=SECRET, stop=[SECRET] * 100))
    get(machine, "/v1/models?key=" + SECRET)
    entries = machine.journal(cursor)
    text = answer.json["choices"][0]["message"]["content"]
    assert len(text) > 20
    for entry in entries:
        for name, value in entry.items():
            assert SECRET not in str(value) and text not in str(value), (name, value)


def test_keys_are_named_and_never_shown(machine):
    machine.run(["sconce", "setup", "access", "keys"])
    made = machine.run("sconce setup key journal-test 2>/dev/null || "
                       "grep ' journal-test$' /etc/sconce/api-keys").stdout
    key = next(word for word in made.split() if word.startswith("sk-sconce-"))
    cursor = machine.cursor()
    assert get(machine, "/v1/models", port=7266, key=key).status == 200
    assert get(machine, "/metrics", port=7266, key=key).status == 403
    assert get(machine, "/v1/models", port=7266, key=key[:-1]).status == 401
    entries = machine.journal(cursor)
    named = [e["SCONCE_STATUS"] for e in entries if e.get("SCONCE_API_KEY") == "journal-test"]
    assert named == ["200", "403"]
    for entry in entries:
        assert not any(key[:-1] in str(value) for value in entry.values()), entry


def test_libraries_write_nothing_into_the_journal(machine):
    """libav, for example, contains a function that writes a warning if it cannot lock memory."""
    models = "/var/lib/sconce/models/speech"
    machine.run(["mkdir", "-p", models])
    for file in (AUDIO / "whisper").iterdir():
        machine.write("%s/%s" % (models, file.name), file.read_bytes())
    machine.write("/root/1.opus", (AUDIO / "ears/1.opus").read_bytes())
    cursor = machine.cursor()
    try:
        assert machine.run(["sconce", "transcribe", "/root/1.opus"]).stdout.strip()
        machine.systemctl("stop", "sconce-audio.service")
        entries = machine.journal(cursor, _SYSTEMD_UNIT="sconce-audio.service")
    finally:
        machine.run(["rm", "-r", models])
    assert any("loaded speech" in e["MESSAGE"] for e in entries)
    assert [e["MESSAGE"] for e in entries if "SCONCE_SERVICE" not in e] == []


def test_services_tell_systemd_what_they_do(machine):
    assert ask(machine).status == 200
    machine.wait(lambda: "sconce-guide" in machine.show("sconce-chat.service", "StatusText"),
                 "the model's name in the status", 10)
    assert machine.show("sconce-gateway.service", "StatusText")
