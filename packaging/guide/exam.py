# SPDX-License-Identifier: Apache-2.0
"""Reads the exam of sconce-guide: questions of fact, whose correct answers follow from the tables of the tree."""
import dataclasses
import pathlib

import tables

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass
class Question:
    text: str
    right: list  # texts; a correct answer contains one of them

    def is_right(self, answer):
        return any(r in answer for r in self.right)


def read_line(line):
    claim, rest = line.split(": ", 1)
    text, *answers = [part.strip() for part in rest.split(" | ")]
    at = 0 if tables.holds(claim) else 1
    assert at < len(answers), f"{text}: no answer is given for the case that there is no {claim}"
    return Question(text, [tables.fill(a) for a in answers[at].split(" // ")])


def questions(path=HERE / "exam.txt"):
    return [read_line(line) for line in path.read_text().splitlines()
            if line and not line.startswith("#")]
