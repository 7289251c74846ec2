# SPDX-License-Identifier: MIT
"""Attention on NumPy arrays: forward, backward, tables, and the KV cache for decoding.

With S = q.k / sqrt(head_dim) and t the distance from query to key, out = softmax(scale[t] * row * S' + bias[t]) v,
causal; sia.h says what each scheme puts for scale, row, bias, and S' (the rotary part)."""

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from ._arrays import FLOAT, check_float, dense, gradient_places, plain, pointer, refuse_mask, refuse_overlap, row_stride
from ._errors import ArgumentError, call
from ._library import Handle, c_string, cache_type, choice, fill_struct, text
from ._sia import ffi, lib

PAIRS = {"halves": lib.SIA_PAIRS_HALVES, "adjacent": lib.SIA_PAIRS_ADJACENT}

Array = np.ndarray
Fill = Callable[[int, int, np.ndarray], Any]


class Forward(NamedTuple):
    """What a forward pass leaves. lse is for the backward pass; entropy and mass are there when asked for."""

    out: Array  # [batch, q_len, heads, head_dim]
    lse: Array  # [batch, q_len, heads] the log of each row's sum
    entropy: Optional[Array]  # [batch, q_len, heads] in nats
    mass: Optional[Array]  # [batch, q_len, heads, 11] weight on t = 0, then on 10^(i-1) <= t < 10^i


class Gradients(NamedTuple):
    """Of the loss with respect to q, k, v and logn, each shaped as it; logn is None in schemes without it."""

    q: Array
    k: Array
    v: Array
    logn: Optional[Array]


class Tables(NamedTuple):
    """By distance t, float32 [n]: what a logit is multiplied by, and what is added to it."""

    scale: Array
    bias: Array


# ------------------------------------------------------------------------------------------- a scheme of your own


class _Own:
    """A distance slot in Python, and the exception that it raised. A table that has been filled stays: after a failure
    the attention is of no use any more, and every call says so."""

    def __init__(self, function: Fill) -> None:
        self.function = function
        self.error: Optional[BaseException] = None
        self.told = False

    def fill(self, head: int, heads: int, first: int, places: Sequence[Array]) -> None:
        """Both halves of what the function returns, checked before anything is written."""
        values = self.function(head, heads, np.arange(first, first + len(places[0])))
        if not isinstance(values, (tuple, list)) or len(values) != 2:
            raise ArgumentError("fill: want a pair, scale and bias, got %s" % type(values).__name__)
        for name, value in zip(("fill: scale", "fill: bias"), values):
            refuse_mask(name, value)
        pair = [np.asarray(value, np.float64) for value in values]
        for name, value in zip(("scale", "bias"), pair):
            if value.shape not in ((), places[0].shape):
                raise ArgumentError(
                    "fill: %s of shape %s: want one number, or %d" % (name, value.shape, len(places[0]))
                )
        for place, value in zip(places, pair):
            place[:] = value

    def raise_error(self) -> None:
        """What it failed with, the first time; then that it did."""
        if self.error is None:
            return
        if self.told:
            raise ArgumentError("attention: its fill has failed (%r): make it anew" % (self.error,))
        self.told = True
        raise self.error


@ffi.def_extern()
def sia_python_fill(context, head, heads, first, count, scale, bias):  # type: ignore[no-untyped-def]
    """The library asks for t = first .. first + count. It cannot hear of a failure: NaN, and the caller is told."""
    own = ffi.from_handle(context)
    places = [np.frombuffer(ffi.buffer(p, count * 8), np.float64) for p in (scale, bias)]
    try:
        own.fill(head, heads, first, places)
    except BaseException as error:  # pylint: disable=broad-except
        own.error = error
        for place in places:
            place[:] = np.nan


# ------------------------------------------------------------------------------------------------------ attention


def _make_config(values: Dict[str, Any]) -> Any:
    config = ffi.new("sia_attention_config *")
    pairs = choice("pairs", values.pop("pairs", "halves"), PAIRS, "halves or adjacent")
    fill_struct(config, "attention", values)
    config.pairs = pairs
    return config


class Attention(Handle):
    """A scheme with its parameters and tables. Several threads may use one at once.

    Settings, each of which has the library's default when it is left out:
        heads, kv_heads     query heads, and key heads: a divisor of them
        head_dim            a multiple of 8, from 8 to 256
        threads             all processors; results do not depend on it
        train_len, eval_len for ntk and yarn: lengths of training and of use
        tau, alpha, beta    si (10, sqrt(e), sqrt(e))
        sharp, rotary_base, prope_base, prope_share     of the schemes with these words
        pairs               "halves" or "adjacent": what rotary encodings turn together
        fill                a distance slot of your own: fill(head, heads, t) -> scale, bias, where t is an int64
                            array of distances; a pure function, which the library calls from any thread"""

    _name = "attention"

    def __init__(self, scheme: str = "si+prope", *, heads: int, head_dim: int, fill: Optional[Fill] = None,
                 **settings: Any) -> None:  # fmt: skip
        if fill is not None and not callable(fill):
            raise ArgumentError("fill: %s, want a function" % type(fill).__name__)
        settings.update(heads=heads, head_dim=head_dim)
        config = _make_config(settings)
        self._asked = scheme  # its canonical name cannot be asked for where there is a fill
        self._own = None if fill is None else _Own(fill)
        context = ffi.NULL if fill is None else ffi.new_handle(self._own)
        if fill is not None:
            config.fill, config.fill_context = lib.sia_python_fill, context
        place = ffi.new("sia_attention **")
        call(lib.sia_attention_create, place, c_string(scheme, "scheme"), config)
        # The destructor holds the context: it lives as long as the pointer does.
        self._pointer = ffi.gc(place[0], lambda a, _=context: lib.sia_attention_destroy(a))
        self._check_own()
        done = lib.sia_attention_settings(self._pointer)
        self.heads, self.kv_heads, self.head_dim = done.heads, done.kv_heads, done.head_dim

    def __reduce__(self) -> Any:
        """A copy, or what another process gets, is a new one with the same settings."""
        fill = None if self._own is None else self._own.function
        return _make_attention, (self._asked, fill, self.settings)

    def _check_own(self) -> None:
        if self._own:
            self._own.raise_error()

    @property
    def _failed(self) -> bool:
        """Its fill has raised an exception: it is of no use any more."""
        return self._own is not None and self._own.error is not None

    @property
    def scheme(self) -> str:
        """The scheme's canonical name."""
        return text(lib.sia_attention_scheme(self._open))

    @property
    def settings(self) -> Dict[str, Any]:
        """All settings, defaults filled in."""
        done = lib.sia_attention_settings(self._open)
        values = {name: getattr(done, name) for name, _ in ffi.typeof(done[0]).fields}
        del values["fill"], values["fill_context"]
        values["pairs"] = {number: name for name, number in PAIRS.items()}[done.pairs]
        return values

    def tables(self, n: int, head: int = 0) -> Tables:
        """scale[t] and bias[t] for t < n, float32 [n], as the kernels use them."""
        if not 0 <= n <= lib.SIA_MAX_POSITION:
            raise ArgumentError("n %d: want 0 to %d" % (n, lib.SIA_MAX_POSITION))
        scale, bias = np.empty(n, FLOAT), np.empty(n, FLOAT)
        call(lib.sia_attention_tables, self._open, head, n, pointer(scale), pointer(bias))
        self._check_own()
        return Tables(scale, bias)

    def forward(self, q: Array, k: Array, v: Array, *, logn: Optional[Array] = None, out: Optional[Array] = None,
                q_pos: int = 0, k_pos: int = 0, statistics: bool = False) -> Forward:  # fmt: skip
        """out = softmax(L) v.

        q [batch, q_len, heads, head_dim]; k, v [batch, k_len, kv_heads, head_dim]; without the batch axis, a batch of
        one. logn [heads] for schemes with logn. Query i stands at q_pos + i, key j at k_pos + j. out: where the result
        goes, like q; else a new array. statistics: entropy and mass too."""
        q4, k4, v4 = self._inputs(q, k, v)
        made = np.empty(q4.shape, FLOAT) if out is None else _four("out", out, write=True)
        if made.shape != q4.shape:
            raise ArgumentError("out: shape %s, want that of q, %s" % (list(made.shape), list(q4.shape)))
        refuse_overlap(made, q=q4, k=k4, v=v4)
        rows = q4.shape[:3]
        lse = np.empty(rows, FLOAT)
        entropy = np.empty(rows, FLOAT) if statistics else None
        mass = np.empty(rows + (lib.SIA_DECADES,), FLOAT) if statistics else None
        io = ffi.new("sia_forward *")
        self._set_inputs(io, q4, k4, v4, logn)
        io.out, io.out_stride = pointer(made), row_stride("out", made)
        io.lse, io.entropy, io.mass = pointer(lse), pointer(entropy), pointer(mass)
        call(lib.sia_attention_forward, self._open, _span(q4, k4, q_pos, k_pos)[0], io, ffi.NULL)
        self._check_own()
        if q.ndim == 4:
            return Forward(made if out is None else out, lse, entropy, mass)
        of_rows = [None if array is None else array[0] for array in (entropy, mass)]
        return Forward(made[0] if out is None else out, lse[0], of_rows[0], of_rows[1])

    def backward(self, q: Array, k: Array, v: Array, out: Array, lse: Array, d_out: Array, *,
                 logn: Optional[Array] = None, q_pos: int = 0, k_pos: int = 0) -> Gradients:  # fmt: skip
        """The exact gradients: of slices of a packed qkv slices of one packed array, else dense. All arguments as they
        were in the forward pass, and out, lse as it left them; d_out, the gradient of out, like out."""
        (q4, d_q), (k4, d_k), (v4, d_v) = gradient_places(dict(zip("qkv", self._inputs(q, k, v))))
        out4, d_out4 = _four("out", out), _four("d_out", d_out)
        for name, array in (("out", out4), ("d_out", d_out4)):
            if array.shape != q4.shape:
                raise ArgumentError("%s: shape %s, want that of q, %s" % (name, list(array.shape), list(q4.shape)))
        io = ffi.new("sia_backward *")
        self._set_inputs(io, q4, k4, v4, logn)
        io.out, io.d_out, io.out_stride = pointer(out4), pointer(d_out4), row_stride("out", out4)
        if row_stride("d_out", d_out4) != io.out_stride:
            raise ArgumentError("d_out: strides %s, want those of out, %s" % (d_out4.strides, out4.strides))
        io.lse = dense("lse", lse, out.shape[:-1])
        io.d_q, io.d_k, io.d_v = pointer(d_q), pointer(d_k), pointer(d_v)
        d_logn = None if logn is None else np.empty(self.heads, FLOAT)
        io.d_logn = pointer(d_logn)
        call(lib.sia_attention_backward, self._open, _span(q4, k4, q_pos, k_pos)[0], io, ffi.NULL)
        self._check_own()
        if q.ndim == 4:
            return Gradients(d_q, d_k, d_v, d_logn)
        return Gradients(d_q[0], d_k[0], d_v[0], d_logn)

    def cache(self, type: str = "f32") -> "Cache":  # pylint: disable=redefined-builtin
        """A new KV cache, of "f32", "f16" or "int8"."""
        return Cache(self, type)

    def _inputs(self, q: Array, k: Array, v: Array) -> Any:
        """q, k, v with a batch axis, their shapes checked against each other and the settings."""
        arrays = _four("q", q), _four("k", k), _four("v", v)
        if not q.ndim == k.ndim == v.ndim:
            raise ArgumentError("q, k, v: %d, %d and %d axes, want as many" % (q.ndim, k.ndim, v.ndim))
        batch = arrays[0].shape[0]
        if batch == 0:  # the library takes a 0 there for a batch of one
            raise ArgumentError("q: shape %s, want a batch of 1 or more" % list(q.shape))
        for name, array, heads in zip("qkv", arrays, (self.heads, self.kv_heads, self.kv_heads)):
            want = (batch, arrays[1].shape[1] if name == "v" else array.shape[1], heads, self.head_dim)
            if array.shape != want:
                raise ArgumentError("%s: shape %s, want %s" % (name, list(array.shape), list(want)))
        return arrays

    def _set_inputs(self, io: Any, q: Array, k: Array, v: Array, logn: Optional[Array]) -> None:
        io.q, io.k, io.v = pointer(q), pointer(k), pointer(v)
        io.q_stride, io.k_stride, io.v_stride = row_stride("q", q), row_stride("k", k), row_stride("v", v)
        io.logn = dense("logn", logn, (self.heads,))


def _make_attention(scheme: str, fill: Optional[Fill], settings: Dict[str, Any]) -> Attention:
    return Attention(scheme, fill=fill, **settings)


def _four(name: str, array: Any, write: bool = False) -> Array:
    """The array with a batch axis; a view."""
    check_float(name, array, write)
    if array.ndim not in (3, 4):
        raise ArgumentError("%s: shape %s, want [batch, length, heads, head_dim]" % (name, list(array.shape)))
    return array if array.ndim == 4 else array[None]


def _span(q: Array, k: Array, q_pos: int, k_pos: int) -> Any:
    span = ffi.new("sia_span *")
    lengths = {"batch": q.shape[0], "q_len": q.shape[1], "k_len": k.shape[1]}
    fill_struct(span, "span", {**lengths, "q_pos": q_pos, "k_pos": k_pos})
    return span


# ---------------------------------------------------------------------------------------------------------- cache


def _rows(array: Any) -> int:
    """Positions of [n, heads, head_dim]; 0 for what is no array, which is refused where its shape is."""
    return array.shape[0] if isinstance(array, np.ndarray) and array.ndim else 0


class Cache(Handle):
    """The keys and values of one sequence in one layer.

        cache = a.cache("f16")
        for each chunk of new tokens:
            cache.append(k, v)
            out = cache.attend(q)

    Attending equals a forward pass over all that was appended, up to the rounding of the cache's type."""

    _name = "cache"

    def __init__(self, attention: Attention, type: str = "f32") -> None:  # pylint: disable=redefined-builtin
        place = ffi.new("sia_cache **")
        borrowed = attention._open
        call(lib.sia_cache_create, place, borrowed, cache_type(type))
        self._pointer = ffi.gc(place[0], lambda c, _=borrowed: lib.sia_cache_destroy(c))
        self._attention = attention
        self._shape = attention.heads, attention.kv_heads, attention.head_dim
        self._lock = threading.Lock()  # the library wants one thread at a time

    def append(self, k: Array, v: Array) -> None:
        """k, v [n, kv_heads, head_dim], dense, join at the end."""
        n, keys, values = self._keys(k, v)
        with self._all_or_nothing() as cache:
            call(lib.sia_cache_append, cache, n, keys, values)
            self._attention._check_own()

    def attend(self, q: Array, *, logn: Optional[Array] = None, out: Optional[Array] = None) -> Array:
        """The last n positions ask: q [n, heads, head_dim], dense, gives out of that shape."""
        result, asking = self._queries(_rows(q), q, logn, out)
        with self._lock:
            call(lib.sia_cache_attend, self._open, *asking)
        self._attention._check_own()
        return result

    def decode(self, q: Array, k: Array, v: Array, *, logn: Optional[Array] = None) -> Array:
        """append(k, v) and attend(q), for as many queries as keys: the new tokens' output, [n, heads, head_dim]. When
        it fails, nothing was appended."""
        n, keys, values = self._keys(k, v)
        result, asking = self._queries(n, q, logn, None)
        with self._all_or_nothing() as cache:
            call(lib.sia_cache_append, cache, n, keys, values)
            call(lib.sia_cache_attend, cache, *asking)
            self._attention._check_own()
        return result

    def _keys(self, k: Array, v: Array) -> Any:
        n, (_, heads, dim) = _rows(k), self._shape
        return n, dense("k", k, (n, heads, dim)), dense("v", v, (n, heads, dim))

    def _queries(self, n: int, q: Array, logn: Optional[Array], out: Optional[Array]) -> Any:
        """Where the output goes, and the library's arguments for n queries."""
        heads, _, dim = self._shape
        queries = dense("q", q, (n, heads, dim))
        result = np.empty((n, heads, dim), FLOAT) if out is None else out
        place = dense("out", result, (n, heads, dim), write=True)
        refuse_overlap(result, q=q)
        return result, (n, queries, dense("logn", logn, (heads,)), place, ffi.NULL)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[Any]:
        """Nobody else has the cache meanwhile; what fails leaves it as long as it was, so that a retry does not append
        twice."""
        with self._lock:
            cache = self._open
            before = lib.sia_cache_length(cache)
            try:
                yield cache
            except BaseException:
                call(lib.sia_cache_truncate, cache, before)
                raise

    def __len__(self) -> int:
        return lib.sia_cache_length(self._open)

    @property
    def nbytes(self) -> int:
        """The memory that it holds."""
        return lib.sia_cache_bytes(self._open)

    def truncate(self, length: int) -> None:
        """Forgets all positions from length on, keeping the memory."""
        with self._lock:
            call(lib.sia_cache_truncate, self._open, length)


# ------------------------------------------------------------------------------------------------ without an object


@functools.lru_cache(maxsize=32)
def _shared(scheme: str, settings: Any) -> Attention:
    return Attention(scheme, **dict(settings))


def attention_for(scheme: str, q: Any, k: Any, settings: Dict[str, Any]) -> Attention:
    """An object for these shapes ([.., length, heads, head_dim]); the last few are kept, with their tables."""
    for name, array in (("q", q), ("k", k)):
        if len(array.shape) < 3:
            raise ArgumentError("%s: shape %s, want [batch, length, heads, head_dim]" % (name, list(array.shape)))
        if array.shape[-2] == 0:  # the library takes 0 kv_heads for as many as heads
            raise ArgumentError("%s: shape %s, want 1 head or more" % (name, list(array.shape)))
    settings = {name: value if name == "fill" else plain(name, value) for name, value in settings.items()}
    settings.update(heads=q.shape[-2], kv_heads=k.shape[-2], head_dim=q.shape[-1])
    key = tuple(sorted(settings.items()))
    try:
        hash((scheme, key))
    except TypeError:  # a fill that cannot be kept; or a list for a number, which Attention refuses
        return Attention(scheme, **settings)
    if _shared(scheme, key)._failed:
        # Nobody else can make it anew. One entry cannot be dropped alone, and the others are soon made again.
        _shared.cache_clear()
    return _shared(scheme, key)


def forward(q: Array, k: Array, v: Array, scheme: str = "si+prope", *, logn: Optional[Array] = None, q_pos: int = 0,
            k_pos: int = 0, statistics: bool = False, **settings: Any) -> Forward:  # fmt: skip
    """Attention.forward with the heads of the arrays; settings as in Attention."""
    check_float("q", q, False)
    check_float("k", k, False)
    a = attention_for(scheme, q, k, settings)
    return a.forward(q, k, v, logn=logn, q_pos=q_pos, k_pos=k_pos, statistics=statistics)


def backward(q: Array, k: Array, v: Array, out: Array, lse: Array, d_out: Array, scheme: str = "si+prope", *,
             logn: Optional[Array] = None, q_pos: int = 0, k_pos: int = 0, **settings: Any) -> Gradients:  # fmt: skip
    """Attention.backward with the heads of the arrays; settings as in Attention."""
    check_float("q", q, False)
    check_float("k", k, False)
    a = attention_for(scheme, q, k, settings)
    return a.backward(q, k, v, out, lse, d_out, logn=logn, q_pos=q_pos, k_pos=k_pos)


def attention(q: Array, k: Array, v: Array, scheme: str = "si+prope", **options: Any) -> Array:
    """softmax(L) v of float32 arrays: q [batch, length, heads, head_dim], k, v [batch, length, kv_heads, head_dim],
    giving an array like q. Options: logn, q_pos, k_pos, and the settings of Attention."""
    return forward(q, k, v, scheme, **options).out


def tables(scheme: str, n: int, *, head: int = 0, heads: int = 1, **settings: Any) -> Tables:
    """scale[t] and bias[t] of a scheme for t < n, float32 [n]; they depend on the head in alibi, and with a fill."""
    with Attention(scheme, heads=heads, head_dim=8, **settings) as a:
        return a.tables(n, head)
