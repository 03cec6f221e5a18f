# SPDX-License-Identifier: Apache-2.0
"""Tests the bundled model: its answers arrive through gateway and chat service, are correct, and
agree with the tables of the tree."""
import concurrent.futures
import json
import random
import sys
import urllib.request

import pytest

from conftest import CHAT, GATEWAY, ROOT, Suite

GUIDE = ROOT / "packaging" / "guide"
sys.path.insert(0, str(GUIDE))
import corpus  # noqa: E402
import exam  # noqa: E402


@pytest.fixture(scope="module")
def guide():
    if not GATEWAY.exists() or not CHAT.exists():
        pytest.skip("no build")
    suite = Suite(GUIDE)
    yield suite
    suite.close()


@pytest.fixture(scope="module")
def facts():
    return corpus.load()


def ask(suite, messages, **fields):
    body = {"model": "sconce-guide", "temperature": 0, "max_tokens": 256, "messages": messages,
            **fields}
    request = urllib.request.Request(suite.url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        choice = json.load(reply)["choices"][0]
    assert choice["finish_reason"] == "stop"
    return choice["message"]["content"]


def ask_all(suite, questions):
    """Sends single questions in parallel, and returns the answers."""
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        return list(threads.map(lambda q: ask(suite, [user(q)]), questions))


def user(text):
    return {"role": "user", "content": text}


def test_new_wordings_get_the_right_answers(guide, facts):
    cases = random.Random(5).sample(corpus.free_questions(facts), 60)
    answers = ask_all(guide, [text for _, text in cases])
    wrong = [(name, text) for (name, text), said in zip(cases, answers)
             if facts[name].key not in said]
    assert len(wrong) <= 9, wrong


def test_a_hundred_questions_of_fact_are_answered_as_the_tables_say(guide):
    questions = exam.questions()
    assert len(questions) == 100
    answers = ask_all(guide, [q.text for q in questions])
    wrong = [(q.text, said) for q, said in zip(questions, answers) if not q.is_right(said)]
    assert len(wrong) <= 6, wrong


# Wrong statements that the guide made before its corpus was generated from the tables.
FALSE = ["on the CPU alone", "chat and text completions only", "writes no prompt to a disk",
         "There are two services", "Embeddings, audio, images"]


def test_what_works_is_not_denied(guide):
    questions = ["Can sconce use a GPU?", "Can sconce make embeddings?", "Can sconce transcribe audio?",
                 "Does sconce write prompts to disk?", "Are my prompts stored?",
                 "What are the services of sconce?", "Can I create an API key?",
                 "Does sconce support speech recognition?", "Does it use my graphics card?"]
    for question, said in zip(questions, ask_all(guide, questions)):
        assert not any(text in said for text in FALSE), (question, said)


def test_first_question_of_try_sh(guide, facts):
    assert ask(guide, [user("What is sconce?")]) == facts["what-is-sconce"].answer
    assert ask(guide, [user("How do I add a model?")]) == facts["add-model"].answer


def test_default_temperature_stays_on_the_answer(guide, facts):
    said = [ask(guide, [user("How do I add a model?")], temperature=1, seed=s) for s in range(5)]
    assert sum(facts["add-model"].key in s for s in said) == 5, said


def test_follow_up_is_understood_from_the_turn_before(guide, facts):
    said = ask(guide, [user("How do I install sconce?"),
                       {"role": "assistant", "content": facts["install"].answer},
                       user("and for one user?")])
    assert facts["install-user"].key in said


def test_system_prompt_does_not_disturb(guide, facts):
    said = ask(guide, [{"role": "system", "content": "You are a helpful assistant."},
                       user("Where do I put my models?")])
    assert facts["where-models"].key in said
