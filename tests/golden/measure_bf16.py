#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the loss of precision in BF16 products, by comparing logits with logits that are
computed in double precision. In one case, rows are rounded to bfloat16 before each product. In the
other case, everything is computed in bfloat16; transformers does so by default with a file in BF16.

Weights are rounded to bfloat16 in all cases, so that they cause no difference.

Needs: torch 2.x, transformers 5.x. Usage: measure_bf16.py MODEL_DIRECTORY [TEXT_FILE]; without a text the tokens are
random ones.
"""
import copy
import pathlib
import sys

import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

N_TOKENS = 512


class Rounded(torch.nn.Linear):
    def forward(self, x):
        return F.linear(x.bfloat16().to(x.dtype), self.weight, self.bias)


def round_rows(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.__class__ = Rounded
    return model


def tell(name, got, want):
    nmse = ((got - want) ** 2).sum() / (want ** 2).sum()
    kl = F.kl_div(got.log_softmax(-1), want.log_softmax(-1), log_target=True, reduction="none")
    other = (got.argmax(-1) != want.argmax(-1)).double().mean()
    print(f"{name:22} NMSE {nmse:.2g}, divergence {kl.sum(-1).mean():.2g} nats, "
          f"another token on top {100 * other:.2f} %")


def main():
    path = sys.argv[1]
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    if len(sys.argv) > 2:
        text = pathlib.Path(sys.argv[2]).read_text()
        ids = torch.tensor([AutoTokenizer.from_pretrained(path)(text)["input_ids"][:N_TOKENS]])
    else:
        n = min(N_TOKENS, model.config.max_position_embeddings)
        ids = torch.randint(0, model.config.vocab_size, (1, n),
                            generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16())
        want = copy.deepcopy(model).double()(ids).logits[0]
        tell("floats", model(ids).logits[0].double(), want)
        tell("rows in bfloat16", round_rows(copy.deepcopy(model).double())(ids).logits[0], want)
        tell("all in bfloat16", copy.deepcopy(model).bfloat16()(ids).logits[0].double(), want)


if __name__ == "__main__":
    main()
