# SPDX-License-Identifier: MIT
"""Scale-invariant attention for CPUs.

    import numpy as np, sia

    q, k, v = (np.random.randn(1, 1024, 8, 64).astype(np.float32) for _ in range(3))
    out = sia.attention(q, k, v, scheme="si+prope")          # [batch, length, heads, head_dim]

    a = sia.Attention("si+prope", heads=8, head_dim=64)      # the same, with gradients and decoding
    scale, bias = sia.tables("si+prope", 1000)               # what is done to a logit, by distance
    model = sia.Model("runs/first")                          # a checkpoint: tensors, loss, text
    sia.torch.attention(q, k, v, scheme="si+prope")          # on tensors, differentiable

Arrays go to the library as they lie in memory, without a copy: float32, dense but for the step from one position to
the next, which may be larger (a slice of a packed qkv). Anything else is a ValueError with one sentence. The
interpreter's lock is free while the library works. Objects are closed by `with`, or when nothing refers to them."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from ._attention import Attention, Cache, Forward, Gradients, Tables, attention, backward, forward, tables
from ._errors import ArgumentError, Error, FileError, FormatError, OutOfMemory
from ._library import isa, schemes, version
from ._model import Model, Session, sample
from ._tokenizer import Tokenizer

if TYPE_CHECKING:
    from . import torch as torch

__version__ = version()
__all__ = [
    "ArgumentError", "Attention", "Cache", "Error", "FileError", "FormatError", "Forward", "Gradients", "Model",
    "OutOfMemory", "Session", "Tables", "Tokenizer", "attention", "backward", "forward", "isa", "sample", "schemes",
    "tables", "torch", "version",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """sia.torch is loaded when it is first used: the rest works without PyTorch."""
    if name == "torch":
        return _import_module(".torch", __name__)
    raise AttributeError("module 'sia' has no attribute %r" % name)
