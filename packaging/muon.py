# SPDX-License-Identifier: Apache-2.0
"""The optimizer Muon (K. Jordan et al., 2024), which trains the models in packaging/guide and packaging/ears."""
import torch


def muon_direction(g, n_steps=5):
    """Approximates the orthogonal matrix that is nearest to @g, with Newton-Schulz iterations of the usual
    quintic polynomial. Computes in 32 bits, because most CPUs emulate products of bfloat16, which would take
    longer than the rest of a training step."""
    x = g.float()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(n_steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Updates matrices with momentum and orthogonalized steps; it is for the matrices inside the layers."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.lerp_(p.grad, 1 - group["momentum"])
                d = muon_direction(p.grad.lerp(m, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(d, alpha=-group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5)
