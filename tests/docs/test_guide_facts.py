# SPDX-License-Identifier: Apache-2.0
"""Checks that the training corpus of sconce-guide agrees with the tables of the tree. No model
runs."""
import re
import sys

import pytest
from blocks import TREE

GUIDE = TREE / "packaging/guide"
sys.path.insert(0, str(GUIDE))
import corpus  # noqa: E402
import exam  # noqa: E402
import tables  # noqa: E402

RETRAIN = "packaging/guide/README.md says how to train the guide again"


@pytest.fixture(scope="module")
def facts():
    return corpus.load()


@pytest.fixture(scope="module")
def said(facts):
    return "\n".join(f.answer for f in facts.values())


def test_the_weights_are_those_that_were_trained_on_these_answers(facts):
    trained = corpus.read_trained()
    stale = [n for n, f in facts.items() if trained["answers"].get(n) != f.answer]
    assert not stale, RETRAIN
    assert set(trained["answers"]) == set(facts), RETRAIN
    assert trained["model"] == corpus.model_hash(GUIDE / "sconce-guide.gguf"), RETRAIN


def test_nothing_is_claimed_or_denied_against_the_tables(facts):
    assert corpus.untrue(facts) == []


def test_a_table_that_changes_is_noticed(monkeypatch, facts):
    """Tests the check itself: new verbs and defaults must change answers, and it must find false
    denials."""
    verbs, keys = [*tables.verbs(), "push"], {**tables.keys(), "chat.max_queue": "17"}
    monkeypatch.setattr(tables, "verbs", lambda: verbs)
    monkeypatch.setattr(tables, "keys", lambda: keys)
    classes = tables.classes() | {"GemmaForCausalLM"}
    monkeypatch.setattr(tables, "classes", lambda: classes)
    now = corpus.load()
    assert "`push`" in now["commands"].answer and "`push`" not in facts["commands"].answer
    assert "17" in now["batching"].answer
    assert corpus.untrue(now) == ["architectures-unsupported: there is a class GemmaForCausalLM"]


def test_the_corpus_covers_all_tables(said):
    for verb in tables.verbs():
        assert verb in tables.UNTOLD_VERBS or f"`{verb}`" in said or f"sconce {verb}" in said, verb
    for path, _ in tables.routes():
        if path.startswith("/v1/") and path not in tables.UNTOLD_ROUTES:
            assert path in said, path
    for noun in tables.nouns():
        assert f"`{noun}`" in said or f"sconce setup {noun}" in said, noun
    for name in [*tables.services(), *tables.formats(), *tables.sections()]:
        assert name in said or name.startswith(tables.TOLD_TOGETHER), name
    for start in tables.TOLD_TOGETHER:
        assert f"any {start} format" in said, start


def code(answer):
    return re.findall(r"`([^`]+)`", answer)


def test_commands_in_answers_exist(facts):
    for fact in facts.values():
        for text in code(fact.answer):
            for verb, rest in re.findall(r"(?:^|&& |sudo |/)sconce ([a-z]+)([^|&]*)", text):
                assert verb in tables.verbs(), (fact.name, verb)
                for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", rest):
                    assert option in tables.options(verb) | {"--help"}, (fact.name, text)


def test_routes_in_answers_exist(facts):
    there = {path for path, _ in tables.routes()}
    for fact in facts.values():
        for path in re.findall(r"(?<![\w.])(?:/v1(?:/[a-z_]+)+|/health|/metrics)", fact.answer):
            assert path in there, (fact.name, path)


def test_keys_in_answers_exist(facts):
    """Checks that each `key: value` under a `section:` is a key of that section."""
    for fact in facts.values():
        for names, section in re.findall(
                r"((?:`?[a-z_]+(?:: [^`]*)?`(?:, | and | or )?)+) under `([a-z]+):`", fact.answer):
            for name in re.findall(r"`([a-z_]+)", names):
                assert f"{section}.{name}" in tables.keys(), (fact.name, section, name)


def test_the_exam_has_a_hundred_questions():
    questions = exam.questions()
    assert len(questions) == 100
    assert len({q.text for q in questions}) == 100
