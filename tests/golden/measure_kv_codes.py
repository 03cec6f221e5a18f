#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares codes for heads of keys and values: bits of a number and signal-to-noise ratio.

    measure_kv_codes.py [--heads N] [--size D]

The program needs numpy, and no model. It encodes and decodes random heads in two kinds: "normal" (independent
normally distributed numbers) and "outliers" (the same, with 4 of the elements of each head 20 times as large, which is
how keys of many models look). It prints 10 × log10(mean square ÷ mean squared error) in decibels for both.

docs/formats.md describes the codes of sconce, of which only q4_0 and q3_0 have the same names here. The others are codes
that other programs have, and the same levels with groups of other sizes:

- `affine`: round((x - least) ÷ step) for each group, with a step and an offset of 16 bits each.
- `max`: the levels of Max (1960) for a normal distribution, and a scale from the largest magnitude of a group.
- `turbo`: the same without rotation, for groups of 32 and with scales of 32 bits.
- `planar`: pairs of elements are turned by the best of 16 angles, and each pair has a scale (32 bits).
- `iso`: groups of four elements are multiplied by a fixed unit quaternion, with a scale for each group.
- `rotor`: groups of three elements are turned by a random rotation, with a scale for each group.

`Hadamard` before a name means that the head is multiplied by the Hadamard matrix of its size first.
"""
import argparse

import numpy as np

RNG = np.random.default_rng(1)
SQRT2 = 2**0.5


def max_levels(bits):
    """Returns the 2^bits levels with the least squared error for a normal distribution."""
    sample = np.sort(RNG.standard_normal(400_000))
    levels = np.quantile(sample, (np.arange(2**bits) + 0.5) / 2**bits)
    for _ in range(300):
        nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, sample)
        levels = np.array([sample[nearest == k].mean() for k in range(2**bits)])
    return levels


def nearest(x, levels):
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, x)]


def hadamard(x):
    n = x.shape[-1]
    matrix = np.ones((1, 1))
    while matrix.shape[0] < n:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]]) / SQRT2
    return x @ matrix


def rotated(code):
    return lambda x: hadamard(code(hadamard(x)))


def by_largest(levels, group):
    """The scale of a group maps its largest magnitude to the largest of @levels, or to 1 if they are below it."""
    top = max(levels[-1], 1)

    def code(x):
        y = x.reshape(-1, group)
        scale = np.abs(y).max(axis=1, keepdims=True) / top
        return (nearest(y / scale, levels) * scale).reshape(x.shape)

    return code


def by_root(levels, group):
    """Chooses levels with the root mean square of a group as scale. The stored scale fits them best."""

    def code(x):
        y = x.reshape(-1, group)
        codes = nearest(y / np.sqrt((y * y).mean(axis=1, keepdims=True)), levels)
        scale = (y * codes).sum(axis=1, keepdims=True) / (codes * codes).sum(axis=1, keepdims=True)
        return (codes * scale).reshape(x.shape)

    return code


def affine(bits, group):
    def code(x):
        y = x.reshape(-1, group)
        least = y.min(axis=1, keepdims=True)
        step = (y.max(axis=1, keepdims=True) - least) / (2**bits - 1)
        return (np.round((y - least) / step) * step + least).reshape(x.shape)

    return code


def planar(levels):
    def code(x):
        pairs = x.reshape(-1, 2)
        best, error = np.zeros_like(pairs), np.full(len(pairs), np.inf)
        for k in range(16):
            c, s = np.cos(k * np.pi / 16), np.sin(k * np.pi / 16)
            turn = np.array([[c, s], [-s, c]])
            decoded = by_largest(levels, 2)(pairs @ turn) @ turn.T
            worst = np.abs(decoded - pairs).max(axis=1)
            better = worst < error
            best[better], error[better] = decoded[better], worst[better]
        return best.reshape(x.shape)

    return code


def iso(levels):
    w, i, j, k = np.array([1, 1.618033988749895, 0.618033988749895, 1]) / np.sqrt(5)
    turn = np.array([[w, i, j, k], [-i, w, k, -j], [-j, -k, w, i], [-k, j, -i, w]])

    def code(x):
        return (by_largest(levels, 4)(x.reshape(-1, 4) @ turn) @ turn.T).reshape(x.shape)

    return code


def rotor(levels):
    def code(x):
        n = -(-x.shape[1] // 3)
        turns = np.linalg.qr(RNG.standard_normal((n, 3, 3)))[0]
        y = np.pad(x, ((0, 0), (0, n * 3 - x.shape[1]))).reshape(len(x), n, 3)
        z = by_largest(levels, 3)(np.einsum("hgi,gij->hgj", y, turns).reshape(-1, 3)).reshape(y.shape)
        return np.einsum("hgj,gij->hgi", z, turns).reshape(len(x), -1)[:, : x.shape[1]]

    return code


def codes(size):
    """Yields the name, the bits of a number, and the function of each code."""
    half = np.array([6, 19, 32, 45, 60, 77, 97, 123]) / 127
    yield "q4_0", 4.5, rotated(by_largest(np.concatenate([-half[::-1], half]), 32))
    yield "q3_0", 3.125, rotated(by_root(max_levels(3), 128))
    for bits in (4, 3, 2):
        levels = max_levels(bits)
        for group in (32, 64) if bits == 3 else (32, 64, 128):
            yield f"Hadamard max {bits} bits, groups of {group}", bits + 16 / group, rotated(by_root(levels, group))
        for group in (32, 64, 128):
            yield f"affine {bits} bits, groups of {group}", bits + 32 / group, affine(bits, group)
            yield f"Hadamard affine {bits} bits, groups of {group}", bits + 32 / group, rotated(affine(bits, group))
        yield f"turbo {bits} bits", bits + 1, by_largest(levels, 32)
    for bits in (4, 3):
        levels = max_levels(bits)
        words = -(-(-(-size // 3) * 3 * bits) // 32)
        yield f"planar {bits} bits", 22, planar(levels)
        yield f"iso {bits} bits", bits + 4 + 16 / size, iso(levels)
        yield f"rotor {bits} bits", (32 * words + 16 * -(-size // 3) + 16) / size, rotor(levels)


def decibels(code, x):
    error = code(x) - x
    return 10 * np.log10((x * x).mean() / (error * error).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", type=int, default=2_000, help="number of heads")
    parser.add_argument("--size", type=int, default=256, help="elements of a head: a power of two from 128")
    args = parser.parse_args()
    if args.size < 128 or args.size & (args.size - 1):
        parser.error("--size must be a power of two from 128")
    normal = RNG.standard_normal((args.heads, args.size))
    outliers = normal.copy()
    outliers[:, RNG.choice(args.size, 4, replace=False)] *= 20
    rows = [(name, bits, decibels(code, normal), decibels(code, outliers)) for name, bits, code in codes(args.size)]
    print(f"{'code':40} {'bits':>7} {'normal':>8} {'outliers':>8}")
    for name, bits, a, b in sorted(rows, key=lambda row: -row[1]):
        best = [r for r in rows if r[1] <= bits and r[2] >= a and r[3] >= b and r[0] != name]
        print(f"{name:40} {bits:7.3f} {a:8.2f} {b:8.2f}" + (f"  dominated by {best[0][0]}" if best else ""))


if __name__ == "__main__":
    main()
