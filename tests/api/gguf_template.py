# SPDX-License-Identifier: Apache-2.0
"""Writes copies of a GGUF file with a different chat template, or with none."""
import struct

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

CHATML = ("{%- for message in messages %}{{ '<' + message.role + '>' + message.content + '\\n' }}"
          "{%- endfor %}{%- if add_generation_prompt %}{{ '<assistant>' }}{%- endif %}"
          "{%- if enable_thinking is defined and enable_thinking %}{{ '<think>' }}{%- endif %}")


def _skip_value(data, at, kind):
    if kind == 8:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind == 9:
        item, n = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(n) if item in (8, 9) else ():
            at = _skip_value(data, at, item)
        return at if item in (8, 9) else at + n * _SIZES[item]
    return at + _SIZES[kind]


def set_chat_template(source, target, template):
    """Replaces the template; None leaves the copy without one."""
    data = open(source, "rb").read()
    magic, version, n_tensors, n_meta = struct.unpack_from("<4sIQQ", data, 0)
    assert magic == b"GGUF" and version >= 2
    at, alignment, pairs = 24, 32, []
    for _ in range(n_meta):
        start = at
        length = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8:at + 8 + length]
        at += 8 + length
        kind = struct.unpack_from("<I", data, at)[0]
        if key == b"general.alignment":
            alignment = struct.unpack_from("<I", data, at + 4)[0]
        at = _skip_value(data, at + 4, kind)
        if not key.startswith(b"tokenizer.chat_template"):
            pairs.append(data[start:at])
    meta_end = at
    for _ in range(n_tensors):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
        n_dims = struct.unpack_from("<I", data, at)[0]
        at += 4 + 8 * n_dims + 4 + 8
    tensors = data[at + -at % alignment:]
    if template is not None:
        key, text = b"tokenizer.chat_template", template.encode()
        pairs.append(struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(text)) + text)
    out = struct.pack("<4sIQQ", magic, version, n_tensors, len(pairs)) + b"".join(pairs)
    out += data[meta_end:at]
    out += b"\0" * (-len(out) % alignment)
    with open(target, "wb") as f:
        f.write(out + tensors)
