# SPDX-License-Identifier: MIT
"""Attention in float64, written from the definition in sia.h, not from the library's code: the whole matrix of logits.

np is the module that computes: NumPy, or torch for gradients."""

import math

import numpy


def words(scheme):
    return set(scheme.split("+"))


def frequencies(scheme, dim, train_len=4096, eval_len=None, base=10000.0, share=0.5):
    """Of the pairs i < dim / 2: radians a position; 0 for those that do not turn."""
    pairs, parts = dim // 2, words(scheme)
    stretch = (eval_len or train_len) / train_len
    i = numpy.arange(pairs)
    if "prope" in parts:
        turning = round(share * pairs)
        found = (train_len / 4) ** (-i / max(turning - 1, 1))
        return numpy.where(i < turning, found, 0.0)
    if not parts & {"rope", "ntk", "yarn"}:
        return numpy.zeros(pairs)
    if "ntk" in parts:
        base = base * stretch ** (dim / (dim - 2))
    found = base ** (-2.0 * i / dim)
    if "yarn" in parts and stretch > 1:
        keep = numpy.clip((train_len * found / (2 * math.pi) - 1) / (32 - 1), 0, 1)
        found = (1 - keep) * found / stretch + keep * found
    return found


def turn(np, x, positions, frequency):
    """Pairs (x[i], x[i + d/2]) of x [batch, length, heads, dim]."""
    angle = positions[:, None, None] * frequency
    cos, sin = (np.asarray(f(angle)) for f in (numpy.cos, numpy.sin))
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    parts = [a * cos - b * sin, a * sin + b * cos]
    return np.concatenate(parts, -1)


def scale_and_bias(scheme, t, head, heads, tau=10.0):
    if "si" in words(scheme):
        square = 2 * numpy.log(t / tau + 1) + 1
        return numpy.sqrt(square), 1 - square
    slope = 2.0 ** (-8 * (head + 1) / heads) if "alibi" in words(scheme) else 0.0
    return numpy.ones_like(t, dtype=float), -slope * t


def attention(q, k, v, scheme, logn=None, q_pos=0, k_pos=0, np=numpy, **settings):
    """q [batch, q_len, heads, dim], k, v [batch, k_len, kv_heads, dim]; every query must see a key."""
    heads, dim = q.shape[2:]
    group = heads // k.shape[2]
    q_at, k_at = q_pos + numpy.arange(q.shape[1]), k_pos + numpy.arange(k.shape[1])
    frequency = frequencies(scheme, dim, **settings)
    q, k = turn(np, q, q_at, frequency), turn(np, k, k_at, frequency)
    t = q_at[:, None] - k_at[None, :]
    seen = np.asarray(t >= 0)
    constant = 2.0 if "sharp" in words(scheme) else 1.0
    stretch = settings.get("eval_len", 1) / settings.get("train_len", settings.get("eval_len", 1))
    if "yarn" in words(scheme) and stretch > 1:
        constant *= (0.1 * math.log(stretch) + 1) ** 2
    out = []
    for h in range(heads):
        scale, bias = (np.asarray(x) for x in scale_and_bias(scheme, numpy.maximum(t, 0), h, heads))
        logits = q[:, :, h] @ np.swapaxes(k[:, :, h // group], 1, 2) / math.sqrt(dim)
        row = constant * np.asarray(numpy.log(q_at + 1.0)[:, None]) * logn[h] if logn is not None else constant
        logits = np.where(seen, scale * row * logits + bias, np.asarray(-numpy.inf))
        weights = np.exp(logits - np.max(logits, -1)[..., None])
        out.append(weights / weights.sum(-1)[..., None] @ v[:, :, h // group])
    return np.stack(out, 2)


class Torch:
    """The functions of NumPy that the above uses, in torch."""

    def __init__(self, torch):
        self.torch, self.exp, self.where = torch, torch.exp, torch.where
        self.concatenate, self.stack, self.swapaxes, self.max = torch.cat, torch.stack, torch.transpose, torch.amax

    def asarray(self, array):
        return self.torch.as_tensor(array)
