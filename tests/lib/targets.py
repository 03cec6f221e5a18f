# SPDX-License-Identifier: Apache-2.0
"""targets.py BUILD [--suite NAME]... [--folder PATH]...: prints the ninja targets that the tests of
these suites need, and the targets of all programs in these folders of the tree."""
import argparse
import json
import os
import pathlib
import subprocess

TREE = pathlib.Path(__file__).resolve().parents[2]


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", build, "--" + what], check=True,
                                     capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--folder", action="append", default=[])
    args = parser.parse_args()
    targets = introspect(args.build, "targets")
    wanted = set()
    for test in introspect(args.build, "tests"):
        if any(suite.partition(":")[2] in args.suite for suite in test["suite"]):
            wanted.update(test["depends"])
    for target in targets:
        file = pathlib.Path(target["defined_in"])
        if target["type"] == "executable" and \
                any(TREE / folder in file.parents for folder in args.folder):
            wanted.add(target["id"])
    for target in targets:
        if target["id"] in wanted:
            for name in target["filename"]:
                print(os.path.relpath(name, args.build))


if __name__ == "__main__":
    main()
