#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes chat/unicode-table.c: what Python's str methods know beyond general categories.

Run it as `python3 tests/golden/make_chat_unicode.py > libinfer/chat/unicode-table.c`; it needs nothing but Python 3.11 or newer.
"""
import unicodedata


def ranges(pred):
    out, start = [], None
    for cp in range(0x110001):
        on = cp < 0x110000 and not 0xD800 <= cp < 0xE000 and pred(chr(cp))
        if on and start is None:
            start = cp
        elif not on and start is not None:
            out.append((start, cp - 1))
            start = None
    return out


def emit_ranges(name, pred):
    text = ", ".join("{0x%x, 0x%x}" % r for r in ranges(pred))
    print("const struct cp_range %s[] = {%s, {0, 0}};" % (name, text))


def emit_special(name, fn, simple):
    rows = []
    for cp in range(0x110000):
        if 0xD800 <= cp < 0xE000:
            continue
        to = fn(chr(cp))
        if len(to) > 1:
            to = [ord(c) for c in to] + [0, 0]
            rows.append("{0x%x, {0x%x, 0x%x, 0x%x}}" % (cp, to[0], to[1], to[2]))
    print("const struct cp_special %s[] = {%s, {0}};" % (name, ", ".join(rows)))


cat = unicodedata.category
print("/* SPDX-License-Identifier: Apache-2.0 */")
print("/* Written by tests/golden/make_chat_unicode.py from Unicode %s; not edited by hand. */" % unicodedata.unidata_version)
print('#include "chat/unicode-table.h"\n')
emit_ranges("cp_digit_not_decimal", lambda c: c.isdigit() and not c.isdecimal())
emit_ranges("cp_numeric_letter", lambda c: c.isnumeric() and cat(c) not in ("Nd", "Nl", "No"))
emit_ranges("cp_other_lower", lambda c: c.islower() and cat(c) != "Ll")
emit_ranges("cp_other_upper", lambda c: c.isupper() and cat(c) != "Lu")
emit_special("cp_special_upper", str.upper, None)
emit_special("cp_special_title", str.title, None)
emit_special("cp_special_fold", str.casefold, None)
