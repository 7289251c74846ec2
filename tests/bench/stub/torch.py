# SPDX-License-Identifier: MIT
"""As much of PyTorch as bench/peer_torch.py asks for, in plain Python, so that the script can be tested where there is no
PyTorch. Numbers are right for small shapes; backward() computes nothing. The environment says what it is like:

    STUB_LOG=FILE       what a test wants to know of is appended there, a JSON list a line
    STUB_VERSION=1.13   an old PyTorch, without scaled_dot_product_attention and flex_attention [2.15]
    STUB_WRONG=sdpa     one number of the result of scaled_dot_product_attention is off by 0.5
"""
import json
import math
import os
import random
import sys
import types

__version__ = os.environ.get("STUB_VERSION", "2.15")
OLD = __version__.startswith("1.")
float64 = "float64"


def note(*words):
    if "STUB_LOG" in os.environ:
        with open(os.environ["STUB_LOG"], "a") as log:
            log.write(json.dumps(words) + "\n")


note("import", os.environ.get("GLIBC_TUNABLES"))


def depth(x):
    return 1 + depth(x[0]) if isinstance(x, list) else 0


def each(function, *xs):
    """function of the numbers of lists of lists, which are spread as PyTorch does it."""
    deepest = max(map(depth, xs))
    if deepest == 0:
        return function(*xs)
    rows = [x if depth(x) == deepest else [x] for x in xs]
    return [each(function, *(row[i if len(row) > 1 else 0] for row in rows)) for i in range(max(map(len, rows)))]


def product(a, b):
    if depth(a) > 2:
        return [product(x, y) for x, y in zip(a, b)]
    columns = list(zip(*b))
    return [[sum(map(float.__mul__, row, column)) for column in columns] for row in a]


def turned(x):
    return [turned(y) for y in x] if depth(x) > 2 else [list(row) for row in zip(*x)]


def picked(x, keys):
    """x[:, None] and the like."""
    if not keys:
        return x
    return [picked(x, keys[1:])] if keys[0] is None else [picked(y, keys[1:]) for y in x]


def operator(function):
    return lambda self, other: Tensor(each(function, self.values, getattr(other, "values", other)))


class Tensor:
    def __init__(self, values):
        self.values, self.grad, self.wants_gradient = values, None, False

    __add__ = operator(lambda a, b: a + b)
    __sub__ = operator(lambda a, b: a - b)
    __mul__ = __rmul__ = operator(lambda a, b: a * b)
    __truediv__ = operator(lambda a, b: a / b)
    __rpow__ = operator(lambda a, b: b**a)
    __lt__ = operator(lambda a, b: a < b)
    __ge__ = operator(lambda a, b: a >= b)

    def __neg__(self):
        return self * -1.0

    def __matmul__(self, other):
        return Tensor(product(self.values, other.values))

    def __getitem__(self, key):
        if isinstance(key, Tensor):
            return Tensor(each(lambda i: self.values[i], key.values))
        return Tensor(picked(self.values, key if isinstance(key, tuple) else (key,)))

    def map(self, function):
        return Tensor(each(function, self.values))

    def float(self):
        return self

    double = contiguous = float

    def clone(self):
        return Tensor(self.values)

    def requires_grad_(self):
        self.wants_gradient = True
        return self

    def backward(self, gradient):
        assert each(lambda a, b: 0, self.values, gradient.values) == each(lambda a: 0, self.values)

    def transpose(self, *axes):
        assert axes == (-1, -2)
        return Tensor(turned(self.values))

    def clamp(self, min):
        return self.map(lambda a: max(a, min))

    def masked_fill(self, where, value):
        return Tensor(each(lambda a, hide: value if hide else a, self.values, where.values))

    def abs(self):
        return self.map(abs)

    def max(self):
        flat = self.values
        while depth(flat) > 1:
            flat = [x for row in flat for x in row]
        return Tensor(max(flat))

    def item(self):
        return self.values


class Generator:
    def manual_seed(self, seed):
        self.random = random.Random(seed)
        return self


class no_grad:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


def randn(*shape, generator):
    if not shape:
        return Tensor(generator.random.gauss(0, 1))
    return Tensor([randn(*shape[1:], generator=generator).values for _ in range(shape[0])])


def arange(count, dtype=None):
    return Tensor([float(i) if dtype else i for i in range(count)])


def log1p(x):
    return x.map(math.log1p)


def sqrt(x):
    return x.map(math.sqrt)


def clamp(x, min):
    return x.clamp(min=min)


def addcmul(x, a, b):
    return x + a * b


def softmax(x, axis):
    assert axis == -1

    def row(numbers):
        if depth(numbers) > 1:
            return [row(part) for part in numbers]
        powers = [math.exp(number - max(numbers)) for number in numbers]
        return [power / sum(powers) for power in powers]

    return Tensor(row(x.values))


def scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=False):
    note("sdpa", is_causal, attn_mask is not None)
    logits = q @ k.transpose(-1, -2) * len(q.values[0][0][0]) ** -0.5
    if is_causal:
        t = arange(len(q.values[0][0]))
        logits = logits.masked_fill(t[:, None] - t[None, :] < 0, -math.inf)
    if attn_mask is not None:
        logits = logits + attn_mask
    out = softmax(logits, -1) @ v
    if os.environ.get("STUB_WRONG") == "sdpa":
        out.values[0][0][1][2] += 0.5
    return out


def create_block_mask(visible, batch, heads, queries, keys, device):
    return visible


def flex_attention(q, k, v, score_mod, block_mask):
    if q.wants_gradient:
        raise NotImplementedError("flex_attention has no backward pass here.\nMore about it.")
    factor = len(q.values[0][0][0]) ** -0.5
    scores = (q @ k.transpose(-1, -2) * factor).values

    def logit(batch, head, i, j):
        if not block_mask(batch, head, i, j):
            return -math.inf
        return score_mod(scores[batch][head][i][j], batch, head, Tensor(i), Tensor(j)).values

    logits = [
        [[[logit(b, h, i, j) for j in range(len(row))] for i, row in enumerate(rows)] for h, rows in enumerate(heads)]
        for b, heads in enumerate(scores)
    ]
    return softmax(Tensor(logits), -1) @ v


def set_num_threads(count):
    note("threads", count)


backends, nn = types.SimpleNamespace(), types.ModuleType("torch.nn")
nn.functional = types.SimpleNamespace()
sys.modules["torch.nn"] = nn
if not OLD:
    backends.cpu = types.SimpleNamespace(get_cpu_capability=lambda: "no instruction set")
    nn.functional.scaled_dot_product_attention = scaled_dot_product_attention
    sys.modules["torch.nn.attention.flex_attention"] = types.SimpleNamespace(
        create_block_mask=create_block_mask, flex_attention=flex_attention
    )
    _dynamo = types.SimpleNamespace(config=types.SimpleNamespace(), reset=lambda: note("reset"))
    compile = lambda function, dynamic: function
