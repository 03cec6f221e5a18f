#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes libinfer/tokenizer/codepoint-tables.h.

The tokenizers with which models were trained contain tables of several Unicode versions. The
system's libraries have Unicode 14 (PCRE2 10.42) and 15 (utf8proc 2.8). This script gets the
properties of every code point from the `tokenizers` package (0.23), and writes down the properties
in which the package differs from these libraries. With these tables libinfer splits texts exactly
as the package does. Needs: tokenizers==0.23.*, libutf8proc 2.8, Python 3.11 (unicodedata 14.0).
"""
import ctypes
import sys
import unicodedata

from tokenizers import Regex, normalizers as N, pre_tokenizers as P

CPS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORIES = ("CN LU LL LT LM LO MN MC ME ND NL NO PC PD PS PE PI PF PO SM SC SK SO ZS ZL ZP "
              "CC CF CS CO").split()

u8 = ctypes.CDLL("libutf8proc.so.2")
libc = ctypes.CDLL(None)
category = {c: CATEGORIES[u8.utf8proc_category(c)] for c in range(0x110000)}


def matched(pre_tokenizer):
    """Returns the code points that a splitter removes when it removes its matches."""
    out = set()
    for i in range(0, len(CPS), 20000):
        block = CPS[i:i + 20000]
        keep = bytearray(len(block))
        for _, (a, b) in pre_tokenizer.pre_tokenize_str("".join(map(chr, block))):
            keep[a:b] = b"\1" * (b - a)
        out.update(c for c, k in zip(block, keep) if not k)
    return out


def prop(name):
    return matched(P.Split(Regex(r"\p{%s}" % name), "removed"))


def ranges(points, value=None):
    out = []
    for c in sorted(points):
        v = value[c] if value else None
        if out and out[-1][1] == c - 1 and out[-1][2] == v:
            out[-1][1] = c
        else:
            out.append([c, c, v])
    return out


def emit(name, kind, rows, comment):
    lines = ["/* %s */" % comment, "static const struct %s %s[] = {" % (kind, name)]
    line = "   "
    for r in rows:
        cell = " {" + ", ".join(x if isinstance(x, str) else "0x%x" % x
                                for x in r if x is not None) + "},"
        if len(line) + len(cell) > 100:
            lines.append(line)
            line = "   "
        line += cell
    return "\n".join(lines + [line, "};", ""])


def decomposed(ch, options):
    buf = ctypes.POINTER(ctypes.c_uint8)()
    raw = ch.encode()
    n = u8.utf8proc_map(raw, ctypes.c_ssize_t(len(raw)), ctypes.byref(buf), options)
    text = bytes(buf[:n]).decode()
    libc.free(buf)
    return text


def new_categories():
    """Returns {code point: (category, version)} of the code points that got a category after
    Unicode 14."""
    full = {}
    for name in "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No P S Z Cf".split():
        for c in prop(name):
            full[c] = {"P": "PO", "S": "SO", "Z": "ZS"}.get(name, name.upper())
    new = {c: k for c, k in full.items() if unicodedata.category(chr(c)) == "Cn"}
    # Unicode 15.1 is CJK extension I and six ideographic description characters.
    v151 = set(range(0x2EBF0, 0x2EE5E)) | set(range(0x2FFC, 0x3000)) | {0x31EF}
    return {c: "UTF8PROC_CATEGORY_%s, %s" %
            (k, "UNI_15_1" if category[c] != "CN" or c in v151 else "UNI_16")
            for c, k in new.items()}


def scripts():
    split = P.UnicodeScripts()

    def joined(a, b):
        return len(split.pre_tokenize_str(a + b)) == 1

    script = {}
    reps = []
    run_of = None
    previous = None
    for c in CPS:
        ch = chr(c)
        if ch == " " or (joined("a", ch) and joined("д", ch)):
            previous = None
            continue
        if previous is not None and joined(previous, ch):
            script[c] = run_of
            previous = ch
            continue
        for i, rep in enumerate(reps):
            if joined(rep, ch):
                run_of = i
                break
        else:
            run_of = len(reps)
            reps.append(ch)
        script[c] = run_of
        previous = ch
    return script


def main():
    bert = N.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False,
                            lowercase=False)
    strip = N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True,
                             lowercase=False)
    nfkd, nfd, accents, lower = N.NFKD(), N.NFD(), N.StripAccents(), N.Lowercase()
    ascii_punct = set(map(ord, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
    punct = matched(P.Punctuation("removed"))
    digits = P.Digits(True)
    numeric = {c for c in CPS if len(digits.pre_tokenize_str("a" + chr(c))) == 2}
    words = matched(P.Split(Regex(r"\w"), "removed"))
    new = new_categories()
    script = scripts()

    def known(c, majors):
        k = category[c]
        if k == "CN" and c in new:
            k = new[c][18:20]
        return k[0] in majors or k in majors

    out = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Made by tests/golden/make_codepoint_tables.py: how the tables of the reference",
        " * implementations differ from those of the system's libraries. */",
        "/* clang-format off */",
        emit("uni_new", "uni_row", ranges(new, new), "Categories assigned after Unicode 14."),
        emit("bert_punct_new", "codepoint_range", ranges(
            c for c in CPS if category[c][0] == "P" and c not in punct and c not in ascii_punct),
            "Punctuation that is missing in the Unicode 8 table of BERT's splitter."),
        emit("bert_punct_old", "codepoint_range", ranges(
            c for c in punct if category[c][0] != "P" and c not in ascii_punct),
            "Punctuation in that table that is no longer punctuation."),
        emit("bert_control_new", "codepoint_range", ranges(
            c for c in CPS if category[c] in ("CC", "CF", "CO") and c not in (9, 10, 13)
            and bert.normalize_str("a" + chr(c) + "a") != "aa"),
            "Characters of the categories Cc, Cf and Co that BERT's clean-up keeps."),
        emit("bert_accent_new", "codepoint_range", ranges(
            c for c in CPS if category[c] == "MN" and strip.normalize_str("a" + chr(c)) != "a"
            and nfd.normalize_str(chr(c)) == chr(c)),
            "Characters of the category Mn that BERT's accent removal keeps."),
        emit("bert_accent_old", "codepoint_range", ranges(
            c for c in CPS if category[c] != "MN" and strip.normalize_str("a" + chr(c)) == "a"),
            "Code points that BERT's accent removal treats as Mn although they are not."),
        emit("mark_new", "codepoint_range", ranges(
            c for c in CPS if category[c][0] == "M" and accents.normalize_str(chr(c)) != ""),
            "Characters of the category M that StripAccents keeps. They have no combining class in Unicode 9."),
        emit("mark_old", "codepoint_range", ranges(
            c for c in CPS if category[c][0] != "M" and accents.normalize_str(chr(c)) == ""),
            "Code points that StripAccents treats as marks although they are not."),
        emit("numeric_new", "codepoint_range", ranges(c for c in numeric if category[c][0] != "N"),
             "Characters of the category N that Unicode 16 and 17 added."),
        emit("word_more", "codepoint_range", ranges(
            c for c in words if not known(c, ("L", "M", "ND", "NL", "PC"))),
            "Code points that \\w matches besides letters, marks, decimal digits and connectors."),
        emit("compat_new", "codepoint_range", ranges(
            c for c in CPS if nfkd.normalize_str(chr(c)) != decomposed(chr(c), 2 | 4 | 16)),
            "Decompositions newer than the tables of the reference."),
        emit("lower_new", "uni_pair", [
            (c, ord(lower.normalize_str(chr(c)))) for c in CPS
            if len(lower.normalize_str(chr(c))) == 1
            and lower.normalize_str(chr(c)) != chr(u8.utf8proc_tolower(c))],
            "Lower case of letters that utf8proc does not have."),
        emit("scripts", "uni_script", ranges(script, {c: "%d" % v for c, v in script.items()}),
             "Scripts by number; ranges that are not listed match any script."),
        "/* clang-format on */",
        "",
    ]
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write("\n".join(out))


if __name__ == "__main__":
    main()
