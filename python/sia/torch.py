# SPDX-License-Identifier: MIT
"""Attention on PyTorch's CPU tensors, differentiable.

    out = sia.torch.attention(q, k, v, scheme="si+prope")        # q, k, v [batch, length, heads, head_dim]

Tensors share their memory with the library: q, k, v may be slices of one packed qkv. The kernels compute in float32."""

from typing import Any, Callable, Dict, List, Optional

import torch

from ._attention import Attention, attention_for
from ._errors import ArgumentError

__all__ = ["attention"]

# torch.compile cannot look into the library: a compiled model calls it between two graphs. What it calls then is made
# when it is first wanted, since that loads the compiler.
_compiler: Any = getattr(torch, "compiler", None)  # older ones lack it, or the question
_is_compiling = getattr(_compiler, "is_compiling", lambda: False)
_not_compiled: List[Callable[..., torch.Tensor]] = []


class _Backward(torch.autograd.Function):
    """The backward pass of an Attention: a function of its own, so that gradients of gradients (there are none)
    are refused wherever they are asked for. (once_differentiable lets them be zero where d_out is a constant.)"""

    @staticmethod
    def forward(_: Any, a: Any, span: Any, d_out: Any, *saved: Any) -> Any:  # type: ignore[override]
        q, k, v, logn, out, lse = (None if t is None else t.detach().numpy() for t in saved)
        # Autograd hands on whatever lies at hand, such as one number expanded to a shape.
        d_array = d_out.detach().to(torch.float32).contiguous().numpy()
        found = a.backward(q, k, v, out, lse, d_array, logn=logn, **span)
        return tuple(None if array is None else torch.from_numpy(array) for array in found)

    @staticmethod
    def backward(_: Any, *__: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("sia.torch.attention: differentiated twice, want once: it has no gradients of gradients")


class _Function(torch.autograd.Function):
    """The forward and backward passes of an Attention."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, logn: Any, a: Attention, span: Any) -> Any:  # type: ignore[override]
        arrays = [t.detach().numpy() for t in (q, k, v)]
        done = a.forward(*arrays, logn=None if logn is None else logn.detach().numpy(), **span)
        out = torch.from_numpy(done.out)
        ctx.save_for_backward(q, k, v, logn, out, torch.from_numpy(done.lse))
        ctx.attention, ctx.span = a, span
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Any) -> Any:  # type: ignore[override]
        return (*_Backward.apply(ctx.attention, ctx.span, d_out, *ctx.saved_tensors), None, None)


def _check(name: str, tensor: Any, convert: bool) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError("%s: %s, want a tensor" % (name, type(tensor).__name__))
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise ArgumentError("%s: on %s, %s; want a strided tensor on cpu" % (name, tensor.device, tensor.layout))
    dtype = str(tensor.dtype).replace("torch.", "")
    if not tensor.is_floating_point():  # a result of the type of q would be cut to whole numbers
        raise ArgumentError("%s: dtype %s, want float32" % (name, dtype))
    if tensor.dtype != torch.float32 and not convert:
        raise ArgumentError("%s: dtype %s, want float32; with convert=True it is computed in float32" % (name, dtype))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scheme: str = "si+prope", *,
              logn: Optional[torch.Tensor] = None, q_pos: int = 0, k_pos: int = 0, convert: bool = False,
              **settings: Any) -> torch.Tensor:  # fmt: skip
    """softmax(L) v, causal, with exact gradients for q, k, v and logn.

    q [batch, length, heads, head_dim]; k, v [batch, length, kv_heads, head_dim]; logn [heads] for schemes with logn.
    Query i stands at q_pos + i, key j at k_pos + j. Settings are those of sia.Attention.

    Tensors are float32 and dense but for the step from one position to the next. With convert=True those of other
    types and strides are copied into such, and the result has the type of q: bfloat16 models, a transposed
    [batch, heads, length, head_dim], or float64 for torch.autograd.gradcheck.

    In a model that torch.compile compiles it runs as it is, between two graphs: fullgraph=True is refused."""
    options: Dict[str, Any] = {"logn": logn, "q_pos": q_pos, "k_pos": k_pos, "convert": convert, "settings": settings}
    if not _is_compiling():
        return _attend(q, k, v, scheme, **options)
    if not _not_compiled:
        _not_compiled.append(_compiler.disable(_attend))
    return _not_compiled[0](q, k, v, scheme, **options)


def _attend(q: Any, k: Any, v: Any, scheme: str, logn: Any, q_pos: int, k_pos: int, convert: bool,
            settings: Dict[str, Any]) -> torch.Tensor:  # fmt: skip
    for name, tensor in (("q", q), ("k", k), ("v", v), ("logn", logn)):
        if tensor is not None or name != "logn":
            _check(name, tensor, convert)
    for name, value in settings.items():
        if isinstance(value, torch.Tensor) and value.requires_grad:
            raise ArgumentError("%s: requires a gradient, which settings have none of; want its item()" % name)
    wanted = q.dtype
    if convert:  # dense copies in float32, through which gradients flow; a tensor that is one already stays itself
        q, k, v = (t.to(torch.float32).contiguous() for t in (q, k, v))
        logn = None if logn is None else logn.to(torch.float32).contiguous()
    a = attention_for(scheme, q, k, settings)
    out: torch.Tensor = _Function.apply(q, k, v, logn, a, {"q_pos": q_pos, "k_pos": k_pos})
    return out.to(wanted)
