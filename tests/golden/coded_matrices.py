# SPDX-License-Identifier: Apache-2.0
"""Draws random matrices in the formats of libinfer/quant/coded.h, for make_families.py."""

import json

import numpy as np
import torch


def pack_stream(codes, bits):
    """Packs each column of codes into words, as a stream of bits that runs down the column."""
    n, m = codes.shape
    stream = (codes.long()[:, None, :] >> torch.arange(bits)[None, :, None] & 1).reshape(-1, 32, m)
    words = (stream << torch.arange(32)[None, :, None]).sum(1)
    return torch.from_numpy(words.numpy().astype("<u4").view("<i4"))


def draw_groups(cols, group, ordered, gen):
    """Returns the group of each column."""
    groups = torch.arange(cols) // group
    return groups[torch.randperm(cols, generator=gen)] if ordered else groups


def code_gptq(w, how, gen):
    rows, cols = w.shape
    bits, group = how["bits"], how.get("group", cols)
    groups = draw_groups(cols, group, how.get("order"), gen)
    codes = torch.randint(0, 1 << bits, (cols, rows), generator=gen)
    zeros = torch.randint(1, 1 << bits, (cols // group, rows), generator=gen)
    sizes = 0.7 + 0.6 * torch.rand((cols // group, rows), generator=gen)
    scales = (sizes * w.std() * 2 / (1 << bits)).half()
    w.copy_((scales.double()[groups] * (codes - zeros[groups])).T)
    if how["method"] == "awq":
        places = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
        spread = [pack_stream(x.reshape(-1, rows // 8, 8)[:, :, places].reshape(-1, rows).T, 4).T
                  for x in (codes, zeros)]
        return {"qweight": spread[0], "qzeros": spread[1], "scales": scales}
    return {"qweight": pack_stream(codes, bits), "scales": scales, "g_idx": groups.int(),
            "qzeros": pack_stream((zeros - (0 if how.get("v2") else 1)).T, bits).T}


def draw_turn(cols, how, gen):
    """Draws a rotation of ParoQuant. Returns its tensors, and the matrix that prepares rows."""
    rounds, group = how["rounds"], how["group"]
    pairs = torch.stack([torch.cat([torch.randperm(group, generator=gen)
                                    for _ in range(cols // group)]) for _ in range(rounds)])
    theta = (torch.rand((rounds, cols // 2), generator=gen) * 3 - 1.5).half()
    scales = (0.7 + 0.6 * torch.rand((1, cols), generator=gen)).half()
    turn = torch.diag(scales[0].double())
    first = torch.arange(cols // 2) * 2 // group * group
    for places, angles in zip(pairs, theta.double()):
        i, j = first + places[::2], first + places[1::2]
        a, b, cos, sin = turn[i], turn[j], angles.cos()[:, None], angles.sin()[:, None]
        turn[i], turn[j] = a * cos + b * sin, b * cos - a * sin
    return {"theta": theta, "pairs": pairs.short(), "channel_scales": scales}, turn


def code_paro(w, how, gen):
    """Codes a matrix as ParoQuant does: AWQ, for rotated rows."""
    planes, turn = draw_turn(w.shape[1], how, gen)
    planes |= code_gptq(w, how | {"method": "awq"}, gen)
    w.copy_(w @ turn)
    return planes


def code_experts(name, w, how, gen, planes):
    """Codes the matrices of experts, which all share one rotation. Gates and ups are one tensor of
    the model, and have names of their own in the file."""
    is_down = name.endswith("down_proj")
    parts = [("down_proj", slice(None))] if is_down else [
        ("gate_proj", slice(0, w.shape[1] // 2)), ("up_proj", slice(w.shape[1] // 2, None))]
    base = name.rpartition(".")[0]
    turn = None
    if how["method"] == "paroquant":
        own, turn = draw_turn(w.shape[2], how, gen)
        planes |= {f"{base}.{'down' if is_down else 'gate_up'}_weight_{end}": t
                   for end, t in own.items()}
        how = how | {"method": "awq"}
    for i, expert in enumerate(w):
        for part, rows in parts:
            own = CODERS[how["method"]](expert[rows], how, gen)
            planes |= {f"{base}.{i}.{part}.{end}": t.contiguous() for end, t in own.items()}
            if turn is not None:
                expert[rows].copy_(expert[rows] @ turn)
    return planes


def code_tensors(w, how, gen):
    """Codes a matrix as compressed-tensors does with "pack-quantized"."""
    rows, cols = w.shape
    bits, group = how["bits"], how["group"]
    groups = draw_groups(cols, group, how.get("order"), gen)
    codes = torch.randint(0, 1 << bits, (rows, cols), generator=gen)
    zeros = torch.randint(1, 1 << bits, (rows, cols // group), generator=gen)
    sizes = 0.7 + 0.6 * torch.rand((rows, cols // group), generator=gen)
    scales = (sizes * w.std() * 2 / (1 << bits)).bfloat16()
    w.copy_(scales.double()[:, groups] * (codes - zeros[:, groups]))
    return {"weight_packed": pack_stream(codes.T, bits).T, "weight_scale": scales,
            "weight_zero_point": pack_stream(zeros, bits),
            "weight_shape": torch.tensor([rows, cols])} | (
                {"weight_g_idx": groups.int()} if how.get("order") else {})


def code_fp8(w, how, gen):
    rows, cols = w.shape
    codes = (torch.randn((rows, cols), generator=gen) * 60).to(torch.float8_e4m3fn)
    blocks = (-(-rows // 128), -(-cols // 128))
    scales = (0.7 + 0.6 * torch.rand(blocks, generator=gen)).float() * w.std().float() / 60
    spread = scales.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)[:, :cols]
    w.copy_((codes.float() * spread).double())
    return {"weight": codes, "weight_scale_inv": scales}


def code_fp4(w, how, gen):
    """Codes a matrix as compressed-tensors does with "nvfp4-pack-quantized"."""
    rows, cols = w.shape
    table = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6]).float()
    codes = torch.randint(0, 16, (rows, cols), generator=gen)
    scales = (64 * (0.7 + torch.rand((rows, cols // 16), generator=gen))).to(torch.float8_e4m3fn)
    factor = (200 / w.std()).float().reshape(1)
    spread = (scales.float() / factor).repeat_interleave(16, 1)
    w.copy_((table[codes] * spread).double())
    return {"weight_packed": (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8),
            "weight_scale": scales, "weight_global_scale": factor}


def code_nf4(w, how, gen):
    """Codes a matrix as bitsandbytes does, with scales that are codes themselves."""
    rows, cols = w.shape
    n = rows * cols
    table = torch.sort(torch.randn(16, generator=gen).float()).values
    codes = torch.randint(0, 16, (rows, cols), generator=gen)
    inner = torch.randint(0, 256, (n // 32,), generator=gen)
    outer_map = torch.linspace(-1, 1, 256).float()
    outer = (0.5 + torch.rand(-(-(n // 32) // 64), generator=gen)).float() * w.std().float() * 0.2
    offset = float(w.std().float())
    scales = outer_map[inner] * outer.repeat_interleave(64)[:n // 32] + offset
    w.copy_((table[codes] * scales.reshape(rows, -1).repeat_interleave(32, 1)).double())
    state = json.dumps({"quant_type": "nf4", "blocksize": 32, "dtype": "float32",
                        "shape": [rows, cols], "nested_blocksize": 64, "nested_dtype": "float32",
                        "nested_offset": offset}).encode()
    return {"weight": (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8).reshape(-1, 1),
            "weight.absmax": inner.to(torch.uint8), "weight.quant_map": table,
            "weight.nested_absmax": outer, "weight.nested_quant_map": outer_map,
            "weight.quant_state.bitsandbytes__nf4":
                torch.from_numpy(np.frombuffer(state, np.uint8).copy())}


CODERS = {"gptq": code_gptq, "awq": code_gptq, "paroquant": code_paro,
          "compressed-tensors": code_tensors, "fp8": code_fp8, "nvfp4": code_fp4,
          "bitsandbytes": code_nf4}


def draw_coded(model, how, seed):
    """Draws the matrices of the layers in a format with codes, scales and zeros. Returns the tensors
    that the file has instead of the matrices, and gives the matrices the values of the codes."""
    gen = torch.Generator().manual_seed(seed)
    planes = {}
    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and name != "lm_head":
                coded = CODERS[how["method"]](module.weight, how, gen)
                planes |= {f"{name}.{end}": t.contiguous() for end, t in coded.items()}
        for name, p in model.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                planes = code_experts(name, p, how, gen, planes)
    return planes


def coded_config(how):
    """Returns quantization_config."""
    method, bits, group = how["method"], how.get("bits", 4), how.get("group", -1)
    if method == "gptq":
        return {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": False,
                "desc_act": bool(how.get("order")),
                "checkpoint_format": "gptq_v2" if how.get("v2") else "gptq"}
    if method == "awq":
        return {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm",
                "zero_point": True}
    if method == "paroquant":
        return {"quant_method": "paroquant", "bits": 4, "group_size": group, "krot": how["rounds"]}
    if method == "fp8":
        return {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3",
                "activation_scheme": "dynamic"}
    if method == "bitsandbytes":
        return {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": True}
    is_fp4 = method == "nvfp4"
    weights = {"num_bits": bits, "type": "float" if is_fp4 else "int", "symmetric": is_fp4,
               "strategy": "tensor_group" if is_fp4 else "group",
               "group_size": 16 if is_fp4 else group} | (
                   {"actorder": "group"} if how.get("order") else {})
    return {"quant_method": "compressed-tensors", "ignore": ["lm_head"],
            "quantization_status": "compressed",
            "format": "nvfp4-pack-quantized" if is_fp4 else "pack-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}
