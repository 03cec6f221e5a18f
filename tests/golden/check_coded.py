#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decoded coded matrices (libinfer/quant/coded.h) with the programs that define the formats.

Draws at least 1 MiB of random codes for each format, with scales that include 0, subnormal numbers,
infinity and NaN. The oracles are gptqmodel's functions that unpack GPTQ and AWQ, compressed-tensors,
and torch. gptqmodel and torch compute in the type that they are given, here float32, so that floats
are compared bit by bit. Formats whose package is missing are skipped.

    check_coded.py PROGRAM        PROGRAM is coded-decode; gptqmodel's sources may be in $GPTQMODEL
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

GEN = torch.Generator().manual_seed(22)
ROWS, COLS = 1024, 4096
SPECIALS = [0.0, -0.0, 2.0**-24, 65504.0, float("inf"), float("-inf"), float("nan"), 2.0**-14]


def words(rows, cols):
    """Draws words of 32 bits."""
    return torch.randint(-2**31, 2**31, (rows, cols), generator=GEN, dtype=torch.int64).int()


def octets(rows, cols, dtype=torch.uint8):
    return torch.randint(0, 256, (rows, cols), generator=GEN, dtype=torch.int64).to(
        torch.uint8).view(dtype)


def scales(rows, cols, dtype):
    s = torch.randn((rows, cols), generator=GEN) * 0.05
    s.view(-1)[:len(SPECIALS)] = torch.tensor(SPECIALS)
    return s.to(dtype)


def order(cols, group):
    """Draws groups of columns. Returns the group of each column, and the columns by group."""
    perm = torch.randperm(cols, generator=GEN)
    g_idx = torch.empty(cols, dtype=torch.int32)
    g_idx[perm] = (torch.arange(cols) // group).int()
    return g_idx, torch.argsort(g_idx, stable=True).int()


class Decoder:
    def __init__(self, program):
        self.program = program
        self.failed = 0

    def compare(self, what, dtype, want, group, *, group_rows=1, scale=torch.float16, zero_add=0,
                factor=1.0, **planes):
        """Decodes the planes and compares them with @want, in float32."""
        rows, cols = want.shape
        types = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
        with tempfile.TemporaryDirectory() as tmp:
            for name, t in planes.items():
                if t is not None:
                    (pathlib.Path(tmp) / name).write_bytes(
                        t.contiguous().view(torch.uint8).numpy().tobytes())
            out = subprocess.run(
                [self.program, dtype, str(rows), str(cols), str(group), str(group_rows),
                 types[scale], str(zero_add), repr(factor), tmp], check=True,
                capture_output=True).stdout
        is_ = np.frombuffer(out, np.uint32).reshape(rows, cols)
        wanted = want.float().contiguous().numpy()
        both_nan = np.isnan(wanted) & np.isnan(is_.view(np.float32))
        wrong = int(((is_ != wanted.view(np.uint32)) & ~both_nan).sum())
        codes = planes["codes"].numel() * planes["codes"].element_size() / 2**20
        print(f"{what:40} {codes:.1f} MiB of codes, {wrong} of {rows * cols} weights differ")
        self.failed += wrong > 0


def gptqmodel(name):
    """Loads a file of gptqmodel without its package, which needs more packages than the file."""
    root = os.environ.get("GPTQMODEL")
    if root is None:
        spec = importlib.util.find_spec("gptqmodel")
        if spec is None:
            return None
        root = os.path.dirname(spec.origin)
    path = pathlib.Path(root) / name
    text = path.read_text()
    return text


def functions(text, names, extra=None):
    """Runs only the functions @names of a source text."""
    import ast
    tree = ast.parse(text)
    tree.body = [n for n in tree.body
                 if (isinstance(n, ast.FunctionDef) and n.name in names)
                 or (isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") in names)]
    space = {"torch": torch, "np": np} | (extra or {})
    import typing
    space |= {k: getattr(typing, k) for k in ("Dict", "Optional", "Tuple", "Iterable")}
    exec(compile(tree, "gptqmodel", "exec"), space)
    return space


def check_gptq(d):
    text = gptqmodel("utils/model_dequant.py")
    if text is None:
        print("GPTQ skipped: gptqmodel is not there")
        return
    f = functions(text, {"unpack_rows", "unpack_cols", "pack_cols", "_shift_gptq_qzeros",
                         "_unpack_rows_3bit", "_unpack_cols_3bit", "_pack_cols_3bit",
                         "_require_int32_words_for_3bit", "_unpack_rows", "_unpack_cols"},
                  {"PLANAR_BITS": ()})
    for bits in (2, 3, 4, 8):
        for v1 in (True, False):
            for group, ordered, scale in ((128, False, torch.float16), (32, True, torch.bfloat16),
                                          (COLS, False, torch.float32)):
                n_groups = COLS // group
                qweight = words(COLS * bits // 32, ROWS * 2)
                qzeros = words(n_groups, ROWS * 2 * bits // 32)
                s = scales(n_groups, ROWS * 2, scale)
                g_idx, perm = order(COLS, group) if ordered else (
                    (torch.arange(COLS) // group).int(), None)
                fixed = f["_shift_gptq_qzeros"](qzeros, bits, delta=1) if v1 else qzeros
                codes = f["unpack_rows"](qweight, bits).float()
                zeros = f["unpack_cols"](fixed, bits).float()[g_idx.long()]
                want = ((codes - zeros) * s.float()[g_idx.long()]).t()
                d.compare(f"GPTQ {bits} bits, v{1 if v1 else 2}, group {group}"
                          f"{', in an order' if ordered else ''}", f"gptq{bits}", want, group,
                          scale=scale, zero_add=int(v1), codes=qweight, scales=s, zeros=qzeros,
                          order=perm)


def check_awq(d):
    text = gptqmodel("quantization/awq/utils/packing_utils.py")
    if text is None:
        print("AWQ skipped: gptqmodel is not there")
        return
    f = functions(text, {"unpack_awq", "_unpack_columnwise", "reverse_awq_order", "dequantize_gemm",
                         "AWQ_ORDER", "AWQ_REVERSE_ORDER"})
    for group, scale in ((128, torch.float16), (COLS, torch.bfloat16)):
        qweight, qzeros = words(COLS, ROWS // 8), words(COLS // group, ROWS // 8)
        s = scales(COLS // group, ROWS, scale)
        want = f["dequantize_gemm"](qweight, qzeros, s.float(), 4, group).t()
        d.compare(f"AWQ, group {group}", "awq4", want, group, scale=scale, codes=qweight, scales=s,
                  zeros=qzeros)


def check_compressed_tensors(d):
    try:
        from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
        from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
        from compressed_tensors.quantization import QuantizationArgs
        from compressed_tensors.quantization.lifecycle.forward import dequantize
    except ImportError as e:
        print(f"compressed-tensors skipped: {e}")
        return
    for bits in (4, 8):
        for group, zeroed, ordered, scale in ((128, True, False, torch.bfloat16),
                                              (32, False, True, torch.float16),
                                              (COLS, False, False, torch.bfloat16)):
            n_groups = COLS // group
            packed, s = words(ROWS, COLS * bits // 32), scales(ROWS, n_groups, scale)
            zeros = words(ROWS * bits // 32, n_groups) if zeroed else None
            g_idx, perm = order(COLS, group) if ordered else (None, None)
            args = QuantizationArgs(num_bits=bits, type="int", symmetric=not zeroed,
                                    strategy="channel" if group == COLS else "group",
                                    group_size=None if group == COLS else group)
            q = unpack_from_int32(packed, bits, torch.Size([ROWS, COLS]))
            zp = unpack_from_int32(zeros, bits, torch.Size([ROWS, n_groups]), 0) if zeroed else None
            if ordered:
                want = (q[:, perm.long()].float().reshape(ROWS, n_groups, group)
                        * s.float()[:, :, None]).reshape(ROWS, COLS)[:, torch.argsort(perm.long())]
            else:
                want = dequantize(q, s.float(), zp, args, dtype=torch.float32)
            d.compare(f"pack-quantized int{bits}, group {group}{', zeros' if zeroed else ''}"
                      f"{', in an order' if ordered else ''}", f"ct{bits}", want, group,
                      scale=scale, codes=packed, scales=s, zeros=zeros, order=perm)
    q, s = octets(ROWS, COLS, torch.int8), scales(ROWS, 1, torch.bfloat16)
    args = QuantizationArgs(num_bits=8, type="int", strategy="channel")
    d.compare("int-quantized, by channel", "int8",
              dequantize(q, s.float(), None, args, dtype=torch.float32), COLS,
              scale=torch.bfloat16, codes=q, scales=s)
    for strategy, shape, group, group_rows, more in (
            ("tensor", (1, 1), COLS, ROWS, {}), ("channel", (ROWS, 1), COLS, 1, {}),
            ("block", (ROWS // 128, COLS // 128), 128, 128, {"block_structure": [128, 128]})):
        q, s = octets(ROWS, COLS, torch.float8_e4m3fn), scales(1, 4096, torch.float32)
        s = s[:, 8:] if strategy == "tensor" else s
        s = s.reshape(-1)[:shape[0] * shape[1]].reshape(shape)
        args = QuantizationArgs(num_bits=8, type="float", strategy=strategy, **more)
        want = dequantize(q, s.reshape(-1) if strategy == "tensor" else s, None, args,
                          dtype=torch.float32)
        d.compare(f"float-quantized, by {strategy}", "fp8", want, group, group_rows=group_rows,
                  scale=torch.float32, codes=q, scales=s)
    packed = octets(ROWS, COLS)
    packed = torch.cat((packed[:, ::2], packed[:, 1::2]), 0)[:, :COLS // 2]
    s, factor = octets(2 * ROWS, COLS // 16, torch.float8_e4m3fn), 1344.5
    args = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16)
    want = dequantize(unpack_fp4_from_uint8(packed, 2 * ROWS, COLS, torch.float32), s.float(), None,
                      args, dtype=torch.float32, global_scale=torch.tensor([factor]))
    d.compare("nvfp4-pack-quantized", "ctfp4", want, 16, factor=factor, codes=packed, scales=s)


def check_nf4(d):
    """The 16 values are those of bitsandbytes; a weight is a value times the scale of its block."""
    table = torch.sort(torch.randn(16, generator=GEN)).values
    packed, s = octets(2 * ROWS, COLS // 2), scales(2 * ROWS, COLS // 64, torch.float32)
    q = torch.stack((packed >> 4, packed & 15), -1).reshape(2 * ROWS, COLS)
    want = table[q.long()] * s.repeat_interleave(64, 1)
    d.compare("NF4, block 64", "nf4", want, 64, scale=torch.float32, codes=packed, scales=s,
              table=table)


def main():
    d = Decoder(sys.argv[1])
    for check in (check_gptq, check_awq, check_compressed_tensors, check_nf4):
        check(d)
    return 1 if d.failed else 0


if __name__ == "__main__":
    sys.exit(main())
