#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizers: small tokenizers of every kind, and the ids of difficult texts.

NAME.json or NAME.model is a tokenizer, which this script trains on the text below. NAME.cases.json
has a list for each case: the text, its ids with special tokens, its ids if special tokens in the
text are read as letters, and the decoded text. Ids and decoded texts come from the reference
implementation. Cases with "parts" are for a tokenizer with some of its parts replaced.
real-*.cases.json are for tokenizers of the data directory, which is the second argument.

Needs: tokenizers 0.23, sentencepiece 0.2, transformers 5 (for real-qwen2 alone).
Usage: make_tokenizers.py OUT_DIR [DATA_DIR]
"""
import io
import json
import os
import random
import sys
import tempfile

import sentencepiece as spm
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

CORPUS = [
    "The bracket holds a light on the wall; the small fort guards the river.",
    "It's 1984, and they've 12,345 reasons: don't you'd we'll I'm she's.",
    "Ein Wandleuchter hält das Licht. Größe, Übermut, straße, naïve café.",
    "Привет, мир! Как дела? Ёлка и ёж.", "你好，世界。中文字符测试。", "こんにちは世界、テストです。カタカナ。",
    "안녕하세요 세계", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "Γειά σου Κόσμε",
    "def main(argc, argv):\n    return [x ** 2 for x in range(10)]\n\n\n", "🙂 👨‍👩‍👧 🇫🇷 e\u0301 o\u0308",
    "  indented\ttext\r\nwith   spaces  ", "<user> says [MASK] </user>", "ﬁ ﬂ Ⅷ ① ½ ² ｆｕｌｌ　ｗｉｄｔｈ",
] * 4

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "  a  b  ", "Hello world!", "The bracket holds the light.", "don't DON'T 'S 'ſ",
    "\n", "\n\n x\r\n y\t", "   \n   z", "12345 1,000 ½ Ⅷ １２", "naïve Café GRÖSSE straße", "e\u0301o\u0328\u0301 a\u0323\u0307",
    "Привет, МИР", "你好世界 中文 字", "カタカナー ひらがな漢字", "한국어 ᄒ\u1161ᆫ", "שָׁלוֹם", "मस्ते", "ไทยภาษา",
    "🙂👨‍👩‍👧‍👦🇫🇷👍🏽", "\u0000x\u0001y\u007f", "\ufeffbom\u200b\u00adsoft", "a\u00a0b\u3000c\u2028d\u0085e\u180ef",
    "ﬁﬂ ① ｆｕｌｌ Ａ ㋿ \u1e9b\u0323", "İSTANBUL ıI ǅ Σς", "<s>a</s> <unk> [MASK] b", "x<user>y </user>z", "x<a>y <a> z", "x  <b>  y",
    "word-word_word.word", "...!!!???", "([{<>}])", "\U0001f600\U00020000\U00031350\U00010ffff"[:4], "▁under▁score▁", " ▁ ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "supercalifragilistic", "\u0301\u0301x", "a\u200db", "ßẞ", "don't-stop 3.14e-10",
]


def compact(tok):
    return json.dumps(json.loads(tok.to_str()), ensure_ascii=False, separators=(",", ":"))


def train(model, trainer, pre=None, norm=None):
    tok = Tokenizer(model)
    if pre is not None:
        tok.pre_tokenizer = pre
    if norm is not None:
        tok.normalizer = norm
    tok.train_from_iterator(CORPUS, trainer)
    return tok


def bpe_trainer(**kw):
    kw.setdefault("vocab_size", 330)
    kw.setdefault("special_tokens", ["<unk>", "<s>", "</s>"])
    return trainers.BpeTrainer(show_progress=False, **kw)


def add_tokens(tok, normalized=False):
    tok.add_special_tokens([AddedToken("<user>", lstrip=True), AddedToken("</user>", rstrip=True)])
    tok.add_tokens([AddedToken("<a>", single_word=True, normalized=normalized),
                    AddedToken("<b>", lstrip=True, rstrip=True, normalized=normalized)])
    return tok


RULES = """FB01\t66 69
2460\t31
FF46\t66
FF55\t75
3000\t20
A0\t20
65 301\tE9
E9\t65
C4\t41 65
1F600\t3A 29
AD\t
301\t27
"""


def rules():
    """Writes a small file of normalisation rules, because the precompiled rules take 240 kB."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", delete=False) as f:
        f.write(RULES)
    return f.name


def charsmap():
    """Returns the precompiled charsmap of a SentencePiece model that this function trains."""
    buf = sp_train(model_type="unigram", vocab_size=400, normalization_rule_tsv=rules())
    i = buf.index(b"user_defined\x12") + 13
    size, shift = 0, 0
    while True:
        size |= (buf[i] & 0x7F) << shift
        shift += 7
        i += 1
        if not buf[i - 1] & 0x80:
            return buf[i:i + size]


def sp_train(**kw):
    out = io.BytesIO()
    kw.setdefault("hard_vocab_limit", False)
    spm.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=out,
                                   minloglevel=2, num_threads=1, **kw)
    return out.getvalue()


def byte_level(use_regex=True, prefix=False, **kw):
    tok = train(models.BPE(**kw), bpe_trainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                              vocab_size=600),
                pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex))
    tok.decoder = decoders.ByteLevel()
    return tok


def llama_like(**kw):
    tok = train(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True, **kw),
                bpe_trainer(special_tokens=["<unk>", "<s>", "</s>"]
                            + ["<0x%02X>" % i for i in range(256)], vocab_size=600),
                norm=normalizers.Sequence([normalizers.Prepend("▁"),
                                           normalizers.Replace(" ", "▁")]))
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                     decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tok


def unigram(pre, norm=None, **kw):
    trainer = trainers.UnigramTrainer(show_progress=False, vocab_size=260, unk_token="<unk>",
                                      special_tokens=["<unk>", "<s>", "</s>"], **kw)
    return train(models.Unigram(), trainer, pre, norm)


def splits():
    """Returns splitters of every kind, with every behaviour."""
    S = pre_tokenizers
    out = {}
    for b in "removed isolated merged_with_previous merged_with_next contiguous".split():
        out["split-" + b] = S.Split(Regex(r"\s+|[[:punct:]]"), b)
        out["split-string-" + b] = S.Split("a", b)
        out["punct-" + b] = S.Punctuation(b)
    out["split-invert"] = S.Split(Regex(r"\w+"), "removed", invert=True)
    out["split-empty"] = S.Split("", "isolated")
    out["split-lookahead"] = S.Split(Regex(r"\d{1,3}(?=(?:\d{3})*\b)"), "isolated")
    out["split-o200k"] = S.Split(Regex(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated")
    out["split-llama3"] = S.Split(Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated")
    out["split-sets"] = S.Split(Regex(r"[\p{L}&&[^a-m]]+|[[a-f][x-z]]|[^[:alnum:]\s&&[^!]]"),
                                "isolated")
    out["split-possessive"] = S.Split(Regex(r"\p{L}++|\p{N}{1,2}+|\h|[^\S\n]+|\S"), "isolated")
    out["whitespace"] = S.Whitespace()
    out["whitespace-split"] = S.WhitespaceSplit()
    out["digits"] = S.Digits(False)
    out["digits-individual"] = S.Digits(True)
    out["bert"] = S.BertPreTokenizer()
    out["scripts"] = S.UnicodeScripts()
    out["char"] = S.CharDelimiterSplit(" ")
    out["length"] = S.FixedLength(length=3)
    for s in "always first never".split():
        out["metaspace-" + s] = S.Metaspace(prepend_scheme=s)
        out["metaspace-nosplit-" + s] = S.Metaspace(prepend_scheme=s, split=False)
    out["sequence"] = S.Sequence([S.WhitespaceSplit(), S.Punctuation(), S.Digits(True),
                                  S.Metaspace(prepend_scheme="first")])
    out["sequence-bytes"] = S.Sequence([S.Split(Regex(r"\p{N}"), "isolated"),
                                        S.ByteLevel(add_prefix_space=True, use_regex=False)])
    return out


def norms():
    N = normalizers
    out = {
        "nfc": N.NFC(), "nfd": N.NFD(), "nfkc": N.NFKC(), "nfkd": N.NFKD(), "lower": N.Lowercase(),
        "strip": N.Strip(), "strip-left": N.Strip(right=False), "strip-right": N.Strip(left=False),
        "accents": N.Sequence([N.NFD(), N.StripAccents()]), "nmt": N.Nmt(),
        "replace": N.Replace("a", "bb"), "replace-regex": N.Replace(Regex(r"\s{2,}|e$"), "_"),
        "prepend": N.Prepend("▁"), "bytes": N.ByteLevel(), "bert": N.BertNormalizer(),
        "bert-cased": N.BertNormalizer(lowercase=False),
        "bert-bare": N.BertNormalizer(clean_text=False, handle_chinese_chars=False,
                                      strip_accents=True, lowercase=False),
        "precompiled": N.Precompiled(charsmap()),
        "albert": N.Sequence([N.Replace("``", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(),
                              N.Precompiled(charsmap()), N.Replace(Regex(" {2,}"), " ")]),
    }
    return out


def posts(tok):
    ids = {t: tok.token_to_id(t) for t in ("<s>", "</s>")}
    cls, sep = ("<s>", ids["<s>"]), ("</s>", ids["</s>"])
    return {
        "template": processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B </s>",
                                                  special_tokens=[cls, sep]),
        "bert": processors.BertProcessing(sep, cls),
        "roberta": processors.RobertaProcessing(sep, cls),
        "sequence": processors.Sequence([
            processors.ByteLevel(), processors.TemplateProcessing(
                single="<s> $A", pair="<s> $A $B", special_tokens=[cls]),
            processors.TemplateProcessing(single="$A </s>", pair="$A $B </s>",
                                          special_tokens=[sep])]),
    }


def decs():
    D = decoders
    return {
        "bytes": D.ByteLevel(), "metaspace": D.Metaspace(),
        "metaspace-never": D.Metaspace(prepend_scheme="never"), "wordpiece": D.WordPiece("##"),
        "wordpiece-plain": D.WordPiece("▁", cleanup=False), "suffix": D.BPEDecoder("</s>"),
        "fallback": D.Sequence([D.ByteFallback(), D.Fuse(), D.Strip("▁", 1, 1)]),
        "replace": D.Sequence([D.Replace(Regex("[aeiou]"), "*"), D.Replace("▁", " ")]),
        "ctc": D.CTC("<s>", "a", True),
    }


def build():
    """Returns {name: tokenizer}."""
    out = {}
    out["bytes"] = add_tokens(byte_level())
    out["bytes-prefix"] = add_tokens(byte_level(prefix=True))
    out["bytes-noregex"] = byte_level(use_regex=False)
    out["bytes-ignore-merges"] = byte_level(ignore_merges=True)
    out["llama"] = add_tokens(llama_like())
    out["llama-normalized"] = add_tokens(llama_like(), normalized=True)
    out["bpe-plain"] = train(models.BPE(unk_token="<unk>"), bpe_trainer(),
                             pre_tokenizers.Whitespace())
    out["bpe-fuse"] = train(models.BPE(unk_token="<unk>", fuse_unk=True), bpe_trainer(
        limit_alphabet=30), pre_tokenizers.Whitespace())
    out["bpe-nounk"] = train(models.BPE(), bpe_trainer(limit_alphabet=30),
                             pre_tokenizers.Whitespace())
    tok = train(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>",
                           continuing_subword_prefix="##"),
                bpe_trainer(end_of_word_suffix="</w>", continuing_subword_prefix="##"),
                pre_tokenizers.Whitespace())
    tok.decoder = decoders.BPEDecoder("</w>")
    out["bpe-affixes"] = tok
    tok = train(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(
        show_progress=False, vocab_size=330,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
        pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer())
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tok.decoder = decoders.WordPiece()
    out["wordpiece"] = tok
    out["wordlevel"] = train(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer(
        show_progress=False, vocab_size=100, special_tokens=["<unk>", "<s>", "</s>"]),
        pre_tokenizers.Whitespace())
    tok = unigram(pre_tokenizers.Metaspace(), normalizers.NFKC())
    tok.decoder = decoders.Metaspace()
    out["unigram"] = add_tokens(tok)
    state = json.loads(tok.to_str())
    state["model"]["vocab"] += [["<0x%02X>" % i, -20.0] for i in range(256)]
    state["model"]["byte_fallback"] = True
    state["added_tokens"] = state["added_tokens"][:3]
    state["decoder"] = json.loads(decoders.Sequence([
        decoders.ByteFallback(), decoders.Metaspace()]).__getstate__())
    out["unigram-bytes"] = Tokenizer.from_str(json.dumps(state))

    base = json.loads(out["llama"].to_str())
    base["normalizer"] = base["decoder"] = None
    out["base"] = Tokenizer.from_str(json.dumps(base))
    return out


def components(base):
    """Returns {name: (tokenizer, the names of its parts that differ from the base)}."""
    out = {}
    for name, pre in splits().items():
        tok = Tokenizer.from_str(base)
        tok.pre_tokenizer = pre
        out["pre-" + name] = tok, ["pre_tokenizer"]
    for name, norm in norms().items():
        tok = Tokenizer.from_str(json.dumps(dict(json.loads(base), added_tokens=[])))
        tok.normalizer = norm
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        out["norm-" + name] = add_tokens(tok, normalized=True), [
            "normalizer", "pre_tokenizer", "added_tokens"]
    for name, post in posts(Tokenizer.from_str(base)).items():
        tok = Tokenizer.from_str(base)
        tok.post_processor = post
        out["post-" + name] = tok, ["post_processor"]
    for name, dec in decs().items():
        tok = Tokenizer.from_str(base)
        tok.decoder = dec
        out["dec-" + name] = tok, ["decoder"]
    return out


def build_sp():
    return {
        "sp-bpe": sp_train(model_type="bpe", vocab_size=600, byte_fallback=True,
                           normalization_rule_name="identity", remove_extra_whitespaces=False),
        "sp-bpe-user": sp_train(model_type="bpe", vocab_size=400, normalization_rule_tsv=rules(), control_symbols=["<ctl>"],
                                user_defined_symbols=["<a>", "the", "  ", "ight"]),
        "sp-unigram": sp_train(model_type="unigram", vocab_size=400, normalization_rule_tsv=rules()),
        "sp-unigram-user": sp_train(model_type="unigram", vocab_size=500, byte_fallback=True,
                                    user_defined_symbols=["<a>", "the", "  "],
                                    normalization_rule_tsv=rules()),
        "sp-unigram-suffix": sp_train(model_type="unigram", vocab_size=400, normalization_rule_name="identity",
                                      treat_whitespace_as_suffix=True),
        "sp-unigram-noprefix": sp_train(model_type="unigram", vocab_size=400, normalization_rule_name="identity",
                                        add_dummy_prefix=False, remove_extra_whitespaces=False),
    }


def without_control(tok):
    """Gives special pieces names that no text contains. The Unigram model of `tokenizers` finds
    "</s>" in a text even if it must not look for special tokens. SentencePiece and libinfer never
    find it."""
    root = json.loads(tok.to_str())
    if root["model"]["type"] != "Unigram":
        return tok
    vocab = {piece[0]: piece for piece in root["model"]["vocab"]}
    for token in root["added_tokens"]:
        piece = vocab.get(token["content"])
        if token["special"] and piece and token["id"] != root["model"]["unk_id"]:
            piece[0] = token["content"] = chr(0xf0000 + token["id"])
    root["post_processor"] = None
    return Tokenizer.from_str(json.dumps(root))


def cases(tok, texts):
    rows = []
    letters = without_control(tok)
    for text in texts:
        tok.encode_special_tokens = False
        ids = tok.encode(text).ids
        letters.encode_special_tokens = True
        plain = letters.encode(text, add_special_tokens=False).ids
        tok.encode_special_tokens = False
        rows.append([text, ids, plain, tok.decode(ids, skip_special_tokens=False) if ids else ""])
    return rows


def sp_cases(model, texts):
    """Returns cases of a SentencePiece model, which never finds control tokens in a text."""
    m = spm.SentencePieceProcessor(model_proto=model)
    rows = []
    for text in texts:
        ids = m.encode(text)
        rows.append([text, None, ids, None if m.unk_id() in ids else m.decode(ids)])
    return rows


def hard_texts(n):
    r = random.Random(20)
    words = " ".join(TEXTS + CORPUS[:17]).split(" ")
    blocks = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF),
              (0x900, 0xDFF), (0xE00, 0x11FF), (0x1E00, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x33FF),
              (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFFFD), (0x1F000, 0x1FAFF), (0, 0xD7FF)]
    out = list(TEXTS)
    while len(out) < n:
        parts = []
        for _ in range(r.randint(1, 6)):
            lo, hi = r.choice(blocks)
            parts.append(r.choice(words) if r.random() < 0.5 else
                         "".join(chr(r.randint(lo, hi)) for _ in range(r.randint(1, 4))))
        out.append(r.choice(["", " ", "  ", "\n"]).join(parts))
    return out


def write(out_dir, name, rows, **extra):
    with open(os.path.join(out_dir, name + ".cases.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(dict(extra, cases=rows), ensure_ascii=False, separators=(",", ":"))
                .replace("],[", "],\n["))


def real(out_dir, data):
    texts = hard_texts(200)
    import transformers
    tok = transformers.AutoTokenizer.from_pretrained(data + "/tokenizers/qwen2").backend_tokenizer
    write(out_dir, "real-qwen2", cases(tok, texts), data="tokenizers/qwen2")
    tok = Tokenizer.from_file(data + "/tokenizers/all-MiniLM-L6-v2/tokenizer.json")
    tok.no_truncation()
    tok.no_padding()
    write(out_dir, "real-minilm", cases(tok, texts), data="tokenizers/all-MiniLM-L6-v2")
    tok = Tokenizer.from_file(data + "/models/TinyStories-656K/tokenizer.json")
    write(out_dir, "real-tinystories", cases(tok, texts), data="models/TinyStories-656K")
    name = "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3"
    with open(os.path.join(data, name), "rb") as f:
        write(out_dir, "real-mistral", sp_cases(f.read(), texts), data=name)


def main():
    out_dir = sys.argv[1]
    os.makedirs(out_dir, exist_ok=True)
    for name, tok in build().items():
        with open(os.path.join(out_dir, name + ".json"), "w", encoding="utf-8") as f:
            f.write(compact(tok))
        write(out_dir, name, cases(tok, TEXTS), tokenizer=name + ".json")
    base = open(os.path.join(out_dir, "base.json"), encoding="utf-8").read()
    for name, (tok, parts) in components(base).items():
        state = json.loads(tok.to_str())
        write(out_dir, name, cases(tok, TEXTS), tokenizer="base.json",
              parts={part: state[part] for part in parts})
    for name, model in build_sp().items():
        with open(os.path.join(out_dir, name + ".model"), "wb") as f:
            f.write(model)
        write(out_dir, name, sp_cases(model, TEXTS), tokenizer=name + ".model")
    if len(sys.argv) > 2:
        real(out_dir, sys.argv[2])


if __name__ == "__main__":
    main()
