# SPDX-License-Identifier: Apache-2.0
"""Computes the log mel spectrogram of Whisper: a frame of 25 ms every 10 ms, with 80 bins on the mel scale of
Slaney. Values more than 80 dB below the maximum are raised to this limit, and all are scaled to about -1 … 1."""
import numpy as np
import torch

RATE, N_FFT, HOP, N_MELS = 16000, 400, 160, 80


def filters(n_mels=N_MELS):
    """Returns the filters, float32 [n_mels, 201]: triangles of equal area. The mel scale is linear up to 1 kHz, then
    logarithmic."""
    step, knee, log_step = 200 / 3, 1000.0, np.log(6.4) / 27
    to_mel = lambda f: np.where(f < knee, f / step,
                                knee / step + np.log(np.maximum(f, knee) / knee) / log_step)
    to_hz = lambda m: np.where(m < knee / step, m * step,
                               knee * np.exp(log_step * (m - knee / step)))
    edges = to_hz(np.linspace(0, to_mel(np.float64(RATE / 2)), n_mels + 2))
    f = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    up = (f - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - f) / (edges[2:] - edges[1:-1])[:, None]
    return (np.maximum(0, np.minimum(up, down)) *
            (2 / (edges[2:] - edges[:-2]))[:, None]).astype(np.float32)


FILTERS, WINDOW = torch.from_numpy(filters()), torch.hann_window(N_FFT)


def log_mel(samples):
    """Converts samples [..., n], where n is a multiple of 160, to frames [..., 80, n / 160]."""
    x = torch.as_tensor(samples)
    s = torch.stft(x, N_FFT, HOP, window=WINDOW, return_complex=True)[..., :-1].abs() ** 2
    y = (FILTERS @ s).clamp(min=1e-10).log10()
    return (torch.maximum(y, y.amax((-2, -1), keepdim=True) - 8) + 4) / 4
