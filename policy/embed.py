#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints policy files as a C table, under their paths relative to TOP: embed.py TOP FILE..."""
import os
import sys

top, files = sys.argv[1], sys.argv[2:]
print('#include "common/confine/policy.h"\n\nconst struct policy_text policy_texts[] = {')
for path in files:
    data = open(path, "rb").read()
    text = data.decode("ascii").replace("\\", "\\\\").replace('"', '\\"')
    lines = "\n".join('        "%s\\n"' % line for line in text.splitlines())
    print('    {"%s",\n%s,\n     %d},' % (os.path.relpath(path, top), lines, len(data)))
print("};\nconst size_t n_policy_texts = sizeof(policy_texts) / sizeof(policy_texts[0]);")
