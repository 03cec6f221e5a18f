#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the codes of keys and values with an implementation in numpy.

    check_kv_codes.py KV_CODES

KV_CODES is the program tests/golden/kv-codes. The functions below are written from the formulas of docs/formats.md, of
the papers (Max 1960; Zandieh et al. 2025, TurboQuant) and of rMLX, and share no code with libinfer. For each format:

- random bytes and scales, some of which are NaN, infinite or subnormal, are decoded to the same bits;
- heads of 96, 128 and 256 elements (normal, with outliers, zeros, and heads with NaN or infinity) are turned to the
  same numbers, except for rounding, and encoded to the same scales and codes, except where a number lies half way
  between two codes or two F16;
- for formats with a residual, the sum of estimated products over many heads is the sum of the exact products.

Exit status: 0 when all is equal, 1 when something differs, 77 (skipped) without numpy.
"""
import subprocess
import sys

try:
    import numpy as np
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

F = np.float32
RNG = np.random.default_rng(24)
HEADS = 400
MAX = {
    1: [0.7979],
    2: [0.4528, 1.510],
    3: [0.2451, 0.7560, 1.344, 2.152],
    4: [0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733],
}
Q4 = [6, 19, 32, 45, 60, 77, 97, 123]


def both(positive):
    return np.array([-x for x in positive[::-1]] + list(positive))


def whole(bits):
    """Returns the levels of Max as multiples of 1/127 of the largest one."""
    return both([int(np.rint(x / MAX[bits][-1] * 127)) for x in MAX[bits]])


class Format:
    """One format: how many elements share a scale, and the levels of the codes."""

    def __init__(self, name):
        self.name, self.rows, self.offset, self.signed, self.qjl = name, False, False, False, False
        self.group = None  # the whole head
        if name == "q4_0":
            self.bits, self.group, self.levels = 4, 32, both(Q4)
        elif name in ("q6_0", "q5_0"):
            self.bits, self.group = int(name[1]), 64
            self.levels = np.arange(2**self.bits) * 2 - (2**self.bits - 1)
        elif name in ("q3_0", "q2_0"):
            self.bits, self.group, self.levels = int(name[1]), 128, whole(int(name[1]))
        elif name.startswith("affine"):
            self.bits, self.group, self.offset = int(name[6]), int(name[8:]), True
            self.levels = np.arange(2**self.bits) * 2 - (2**self.bits - 1)
        elif name.startswith("turbo"):
            self.qjl, self.signed = name.endswith("_qjl"), True
            self.bits = int(name[5]) - self.qjl
            self.levels = whole(self.bits)
        else:
            self.rows, self.bits, self.kind = True, int(name[-1]), name[:-1]
            self.levels = both(MAX[self.bits]).astype(F)

    def unit(self):
        return 8 if self.rows else {6: 64, 5: 128, 4: 32, 3: 128, 2: 64, 1: 128}[self.bits] if not self.qjl else 128

    def fits(self, n):
        return n % self.unit() == 0 and n % (self.group or 1) == 0


# Random numbers


def splitmix(seed, n):
    out, mask = [], 2**64 - 1
    for _ in range(n):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        x = seed
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        out.append(x ^ (x >> 31))
    return out


def signs(seed, n):
    words = splitmix(seed, -(-n // 64))
    return np.array([-1.0 if words[i // 64] >> (i % 64) & 1 else 1.0 for i in range(n)])


def hadamard(x):
    n = x.shape[1]
    order = n & -n
    matrix = np.ones((1, 1))
    while len(matrix) < order:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return (x.reshape(-1, order) @ matrix / np.sqrt(order)).reshape(x.shape)


def rotors(n):
    out, words, at = [], splitmix(42, 16 * n + 64), 0
    while len(out) < n:
        v = [((x >> 40) - 2**23) / 2**23 for x in words[at : at + 4]]
        at += 4
        norm = np.sqrt(np.float64(v[0]) ** 2 + v[1] ** 2 + v[2] ** 2 + v[3] ** 2)
        if norm > 1 or norm < 0.1:
            continue
        w, x, y, z = (c / norm for c in v)
        out.append([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])
    return np.array(out).astype(F)


# Codes


def unpack(raw, bits, n):
    """Returns the codes of heads, [heads, n], whose packed bytes are @raw."""
    if bits == 3:
        p = raw.reshape(len(raw), n // 128, 48)
        low, high = p & 7, p >> 4 & 7
        tops = [(p >> s & 1).reshape(len(raw), n // 128, 3, 16) for s in (3, 7)]
        rest = [t[:, :, 0] | t[:, :, 1] << 1 | t[:, :, 2] << 2 for t in tops]
        return np.concatenate([low, high, *rest], axis=2).reshape(len(raw), n)
    if bits > 4:  # runs of the lowest 4 bits, then of the other bits
        run = 128 // (bits - 4)
        p = raw.reshape(-1, run // 2 + 16)
        low, high = unpack(p[:, : run // 2], 4, run), unpack(p[:, run // 2 :], bits - 4, run)
        return (low | high << 4).reshape(len(raw), n)
    p = raw.reshape(len(raw), -1, 1, 16)
    shifts = np.arange(0, 8, bits, dtype=np.uint8).reshape(1, 1, -1, 1)
    return (p >> shifts & (2**bits - 1)).reshape(len(raw), -1)[:, :n]


def decode_codes(f, raw, scalars, n):
    group = f.group or n
    codes = unpack(raw[:, : n * f.bits // 8], f.bits, n).reshape(-1, n // group, group)
    x = f.levels[codes].astype(F) * scalars[:, : n // group, None]
    if f.offset:
        x = x + scalars[:, n // group :, None]
    return x.reshape(-1, n)


def half(x):
    """Rounds to F16, as a float; what is not finite becomes NaN."""
    with np.errstate(all="ignore"):
        y = x.astype(np.float16).astype(F)
    return np.where(np.isfinite(y), y, np.nan)


def choose(f, y):
    """Returns the nearest level of each element of @y."""
    return f.levels[np.abs(y[..., None] - f.levels).argmin(axis=-1)]


def scales_of(f, x, n):
    """Returns the scales, and offsets or None, of turned heads, before they are rounded to F16."""
    y = x.reshape(len(x), -1, f.group or n)
    root = np.sqrt((y * y).mean(axis=2))
    if f.offset:
        least, most = y.min(axis=2), y.max(axis=2)
        return (most - least) / (2 * (2**f.bits - 1)), (most + least) / 2
    if f.name == "q4_0" or f.bits > 4:
        return np.abs(y).max(axis=2) / (127 if f.name == "q4_0" else f.levels[-1]), None
    scale = root * MAX[f.bits][-1] / 127
    if not f.signed:  # the scale with the least squared error for the codes
        codes = choose(f, y / np.maximum(scale, 1e-30)[..., None])
        scale = (y * codes).sum(axis=2) / (codes * codes).sum(axis=2)
    return scale, None


# Rows


def halves(raw):
    return np.ascontiguousarray(raw).view("<f2").astype(F)


def bit_codes(raw, bits, n):
    stream = np.unpackbits(raw, axis=1, bitorder="little")[:, : n * bits].reshape(len(raw), n, bits)
    return (stream << np.arange(bits, dtype=np.uint8)).sum(axis=2)


def turn_back(f, y, angles):
    """Turns groups back: @y is [heads, groups, size] in float32. The operations have a fixed order."""
    if f.kind == "planar":
        k = np.arange(16)
        cosines = np.cos(k * np.pi / 16).astype(F)
        cosines[8] = 0
        sines = np.sin(k * np.pi / 16).astype(F)
        c, s, a, b = cosines[angles], -sines[angles], y[..., 0], y[..., 1]
        return np.stack([a * c - b * s, a * s + b * c], axis=-1)
    if f.kind == "iso":
        golden = (1 + np.sqrt(5)) / 2
        w, i, j, k = (np.array([1, golden, golden - 1, 1]) / np.sqrt(5)).astype(F)
        i, j, k = -i, -j, -k
        a, b, c, d = (y[..., m] for m in range(4))
        return np.stack([w * a - i * b - j * c - k * d, w * b + i * a + j * d - k * c,
                         w * c - i * d + j * a + k * b, w * d + i * c - j * b + k * a], axis=-1)
    m = rotors(y.shape[1])
    a, b, c = (y[..., i] for i in range(3))
    return np.stack([m[:, 0, i] * a + m[:, 1, i] * b + m[:, 2, i] * c for i in range(3)], axis=-1)


def decode_rows(f, raw, n):
    size = {"planar": 2, "iso": 4, "rotor": 3}[f.kind]
    groups, at, norm, angles = -(-n // size), 0, np.ones((len(raw), 1), F), None
    if f.kind != "planar":
        norm, at = halves(raw[:, :2]), 2
    scales = halves(raw[:, at : at + 2 * groups])
    at += 2 * groups
    if f.kind == "planar":
        angles = bit_codes(raw[:, at : at + groups // 2], 4, groups).astype(int)
        at += groups // 2
    codes = bit_codes(raw[:, at:], f.bits, groups * size).reshape(len(raw), groups, size)
    y = f.levels[codes] * scales[..., None]
    return turn_back(f, y, angles).reshape(len(raw), -1)[:, :n] * norm


# Comparisons


class Check:
    def __init__(self, program):
        self.program, self.n_bad = program, 0

    def run(self, what, f, n, data):
        return subprocess.run([self.program, what, f.name, str(n)], input=data, stdout=subprocess.PIPE,
                              check=True).stdout

    def fail(self, text):
        print(text)
        self.n_bad += 1

    def decode(self, f, raw, scalars, n):
        heads = [r.tobytes() + s.tobytes() for r, s in zip(raw, scalars)]
        return np.frombuffer(self.run("decode", f, n, b"".join(heads)), F).reshape(-1, n)

    def encode(self, f, x, n_bytes, n_scalars):
        out = self.run("encode", f, x.shape[1], x.tobytes())
        out = np.frombuffer(out, np.uint8).reshape(len(x), n_bytes + 4 * n_scalars)
        return out[:, :n_bytes], np.ascontiguousarray(out[:, n_bytes:]).view(F)


def sizes(f, n):
    """Returns the bytes and the scalars of a head."""
    if not f.rows:
        groups = n // (f.group or n)
        return n * (f.bits + f.qjl) // 8, groups * (2 if f.offset or f.qjl else 1)
    if f.kind == "planar":
        return n + n // 4 + n * f.bits // 8, 0
    groups = -(-n // (4 if f.kind == "iso" else 3))
    return 2 + 2 * groups + -(-groups * (4 if f.kind == "iso" else 3) * f.bits // 8), 0


def hostile_scalars(n_scalars):
    with np.errstate(all="ignore"):
        return RNG.integers(0, 65536, (HEADS, n_scalars), np.uint16).view(np.float16).astype(F)


def check_decoding(check, f, n):
    n_bytes, n_scalars = sizes(f, n)
    raw = RNG.integers(0, 256, (HEADS, n_bytes), np.uint8)
    raw[0], raw[1] = 0, 255
    scalars = hostile_scalars(n_scalars)
    with np.errstate(all="ignore"):
        want = decode_rows(f, raw, n) if f.rows else decode_codes(f, raw, scalars, n)
    got = check.decode(f, raw, scalars, n)
    same = (got.view(np.uint32) == want.astype(F).view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    if not same.all():
        check.fail(f"{f.name} of {n}: {np.count_nonzero(~same)} of {same.size} decoded numbers differ")


def sample(n):
    x = RNG.standard_normal((HEADS, n))
    x[HEADS // 2 :, RNG.choice(n, 4, replace=False)] *= 20
    x[:40] *= 10.0 ** RNG.integers(-3, 3, (40, 1))
    return x.astype(F)


def check_encoding(check, f, n):
    x = sample(n)
    raw, scalars = check.encode(f, x, *sizes(f, n))
    turned = x.astype(np.float64)
    if not f.rows:
        turned = hadamard(turned * signs(42, n) if f.signed else turned)
        got = np.frombuffer(check.run("turn", f, n, x.tobytes()), F).reshape(x.shape)
        if np.abs(got - turned).max() > 1e-5 * np.abs(turned).max():
            check.fail(f"{f.name} of {n}: heads are turned differently")
        check_codes(check, f, n, turned, raw, scalars)
    else:
        check_rows(check, f, n, x, raw)
    bad = x[:4].copy()
    bad[0, 3], bad[1, n - 1], bad[2, 0], bad[3] = np.nan, np.inf, -np.inf, 0
    raw, scalars = check.encode(f, bad, *sizes(f, n))
    got = check.decode(f, raw, scalars, n)
    if not np.isnan(got[:3]).any(axis=1).all() or got[3].any():
        check.fail(f"{f.name} of {n}: NaN, infinity or zero is lost")


def check_codes(check, f, n, turned, raw, scalars):
    group, groups = f.group or n, n // (f.group or n)
    scale, offset = scales_of(f, turned, n)
    # The scale of q3_0 and q2_0 is computed from the codes. A number half way between two levels may have either code.
    limit = 2e-3 if f.name in ("q3_0", "q2_0") else 1.1e-3
    if (np.abs(scalars[:, :groups] - half(scale)) > limit * scale + 6e-8).any():
        check.fail(f"{f.name} of {n}: scales differ")
    if f.offset and (np.abs(scalars[:, groups:] - offset) > 1.1e-3 * np.abs(offset) + 1e-5 * scale * 16 + 6e-8).any():
        check.fail(f"{f.name} of {n}: offsets differ")
    decoded = decode_codes(f, raw, scalars, n).reshape(len(raw), groups, group)
    stored, y = scalars[:, :groups, None], turned.reshape(decoded.shape)
    base = scalars[:, groups:, None] if f.offset else 0
    levels = choose(f, (y - base) / np.maximum(stored, 1e-30))
    worse = np.abs(decoded - y) - np.abs(levels * stored + base - y)
    if (worse > 1e-4 * np.abs(y).max(axis=2, keepdims=True) * stored / stored.max() + 1e-3 * stored).any():
        check.fail(f"{f.name} of {n}: codes are not those of the nearest levels")
    if f.qjl:
        check_residual(check, f, n, turned, decoded.reshape(turned.shape), raw, scalars)


def check_residual(check, f, n, turned, decoded, raw, scalars):
    rest = turned - decoded
    turned_rest = hadamard(rest * signs(43, n))
    bits = unpack(raw[:, n * f.bits // 8 :], 1, n)
    clear = np.abs(turned_rest) > 1e-4 * np.abs(turned_rest).max(axis=1, keepdims=True)
    if ((turned_rest > 0) != (bits == 1))[clear].any():
        check.fail(f"{f.name} of {n}: bits of the residual differ")
    want = np.sqrt((rest * rest).sum(axis=1)) * np.sqrt(np.pi / (2 * n))
    if (np.abs(scalars[:, 1] - want) > 1e-3 * want + 6e-8).any():
        check.fail(f"{f.name} of {n}: factors of the residual differ")
    # The products of residuals with themselves are estimated. Over many heads, the mean of the errors is nearly 0.
    estimate = scalars[:, 1:] * (bits * 2.0 - 1)
    ratio = (estimate * turned_rest).sum() / (turned_rest * turned_rest).sum()
    if not 0.97 < ratio < 1.03:
        check.fail(f"{f.name} of {n}: the residual is {ratio:.3f} of what it should be")


def check_rows(check, f, n, x, raw):
    got = decode_rows(f, raw, n)
    error = ((got - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum()
    most = {"planar4": 0.0004, "planar3": 0.0008, "iso4": 0.004, "iso3": 0.015, "rotor4": 0.0035, "rotor3": 0.013}
    if not error < most[f.name]:
        check.fail(f"{f.name} of {n}: the error is {error:.4f} of the mean square")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    check = Check(sys.argv[1])
    for line in subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines():
        name, kind, n_bytes, n_scalars = line.split()
        f = Format(name)
        if (int(n_bytes), int(n_scalars)) != sizes(f, 256) or f.rows != (kind == "rows"):
            check.fail(f"{name}: a head of 256 has {n_bytes} bytes and {n_scalars} scalars")
            continue
        for n in (96, 128, 256):
            if f.fits(n):
                check_decoding(check, f, n)
                check_encoding(check, f, n)
    print(f"{check.n_bad} differences")
    sys.exit(1 if check.n_bad else 0)


if __name__ == "__main__":
    main()
