# SPDX-License-Identifier: MIT
"""Attention on NumPy arrays against the reference in float64."""

import copy
import gc
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import reference

import sia
from sia._arrays import row_stride

SCHEMES = sia.schemes()
SHAPES = [(1, 1, 1, 1, 8), (2, 37, 4, 2, 16), (1, 130, 6, 1, 64), (3, 65, 3, 3, 24)]  # batch, length, heads, kv, dim


def inputs(random, shape, scheme):
    batch, length, heads, kv_heads, dim = shape
    q, k, v = (
        random(batch, length, heads, dim),
        random(batch, length, kv_heads, dim),
        random(batch, length, kv_heads, dim),
    )
    logn = 0.3 + 0.05 * random(heads) if "logn" in scheme else None
    return q, k, v, logn


def wide(*arrays):
    return [None if a is None else a.astype(np.float64) for a in arrays]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_is_the_reference(random, scheme, shape):
    q, k, v, logn = inputs(random, shape, scheme)
    # A length of use that is four times that of training: ntk and yarn differ from rope.
    settings = {"train_len": 64, "eval_len": 256}
    out = sia.attention(q, k, v, scheme, logn=logn, **settings)
    *wide_inputs, wide_logn = wide(q, k, v, logn)
    want = reference.attention(*wide_inputs, scheme, wide_logn, **settings)
    assert out.dtype == np.float32 and out.shape == q.shape
    np.testing.assert_allclose(out, want, atol=2e-5, rtol=0)


@pytest.mark.parametrize("scheme", ["si+prope", "logn+rope", "alibi"])
def test_backward_is_the_slope_of_the_reference(random, scheme):
    q, k, v, logn = inputs(random, (2, 19, 4, 2, 8), scheme)
    d_out = random(*q.shape)
    done = sia.forward(q, k, v, scheme, logn=logn)
    found = sia.backward(q, k, v, done.out, done.lse, d_out, scheme, logn=logn)
    assert (found.logn is None) == (logn is None)
    rng = np.random.default_rng(1)
    values = wide(q, k, v, logn)
    for i, gradient in enumerate(found):
        if gradient is None:
            continue
        assert gradient.shape == values[i].shape
        direction = rng.standard_normal(values[i].shape)
        ends = []
        for step in (1e-5, -1e-5):
            moved = [x + step * direction if j == i else x for j, x in enumerate(values)]
            ends.append((reference.attention(*moved[:3], scheme, moved[3]) * d_out).sum())
        slope = (ends[0] - ends[1]) / 2e-5
        assert abs((gradient * direction).sum() - slope) < 1e-4 * (1 + abs(slope))


def test_slices_of_a_packed_array_are_not_copied(random):
    packed = random(2, 33, 3, 4, 16)
    q, k, v = packed[:, :, 0], packed[:, :, 1], packed[:, :, 2]
    dense = [np.ascontiguousarray(x) for x in (q, k, v)]
    a = sia.Attention(heads=4, head_dim=16)
    done, want = a.forward(q, k, v), a.forward(*dense)
    np.testing.assert_array_equal(done.out, want.out)
    d_out = random(2, 33, 4, 16)
    found, exact = a.backward(q, k, v, done.out, done.lse, d_out), a.backward(*dense, want.out, want.lse, d_out)
    for one, other in zip(found[:3], exact[:3]):
        np.testing.assert_array_equal(one, other)


def owner(array):
    """The array that has the memory."""
    return array if array.base is None else owner(array.base)


# q, k and v of 4, 2 and 2 heads of 8, and for how many floats a position each gradient is to hold memory.
ROOMS = [
    (lambda q, k, v: (q, k, v), [32, 16, 16]),
    (lambda q, k, v: np.split(np.concatenate([q, k, v], 2), [4, 6], 2), [64, 64, 64]),
    (lambda q, k, v: (q, *np.split(np.concatenate([k, v], 2), 2, 2)), [32, 32, 32]),  # q's stride is theirs, too
    (lambda q, k, v: (np.concatenate([q, k, v], 2)[:, :, :4], k, v), [32, 16, 16]),
    (lambda q, k, v: (q, k, np.concatenate([q, v], 2)[:, :, 4:]), [32, 16, 16]),
    (lambda q, k, v: np.split(np.concatenate([q, k, v, q], 2), [4, 6, 8], 2)[:3], [32, 16, 16]),
]


@pytest.mark.parametrize("arrange, floats", ROOMS)
@pytest.mark.parametrize("batch, length", [(2, 33), (1, 33), (2, 1)])
def test_gradients_take_no_more_room_than_their_arrays(random, arrange, floats, batch, length):
    dense = random(batch, length, 4, 8), random(batch, length, 2, 8), random(batch, length, 2, 8)
    a, d_out = sia.Attention(heads=4, kv_heads=2, head_dim=8), random(batch, length, 4, 8)
    done, arrays = a.forward(*dense), arrange(*dense)
    found = a.backward(*arrays, done.out, done.lse, d_out)
    want = a.backward(*dense, done.out, done.lse, d_out)
    for one, other, room in zip(found[:3], want[:3], floats):
        np.testing.assert_array_equal(one, other)
        assert owner(one).size == batch * length * room and row_stride("", one) == room
    owners = {id(owner(one)): owner(one).size for one in found[:3]}
    assert sum(owners.values()) == sum(x.size for x in dense)


def test_result_goes_where_it_is_asked_to(random):
    q = random(9, 2, 8)
    room = np.zeros((9, 5, 2, 8), np.float32)
    done = sia.Attention(heads=2, head_dim=8).forward(q, q, q, out=room[:, 3])
    np.testing.assert_array_equal(done.out, sia.attention(q, q, q))
    assert np.shares_memory(done.out, room) and not room[:, 2].any() and not room[:, 4].any()


def test_three_axes_are_a_batch_of_one(random):
    q, k, v = random(20, 2, 16), random(20, 1, 16), random(20, 1, 16)
    done, want = sia.forward(q, k, v, statistics=True), sia.forward(q[None], k[None], v[None], statistics=True)
    for one, other in zip(done, want):
        np.testing.assert_array_equal(one, other[0])
    np.testing.assert_allclose(done.mass.sum(-1), 1, atol=1e-5)


def test_a_chunk_of_a_long_text(random):
    q, k, v, _ = inputs(random, (1, 90, 2, 2, 16), "")
    whole = sia.attention(q, k, v)
    chunk = sia.attention(q[:, 60:], k, v, q_pos=60)
    np.testing.assert_allclose(chunk, whole[:, 60:], atol=2e-6)


@pytest.mark.parametrize("type, tolerance", [("f32", 3e-6), ("f16", 3e-3), ("int8", 5e-2)])
@pytest.mark.parametrize("scheme", ["si+prope", "logn+rope", "alibi"])
def test_decoding_is_the_forward_pass(random, scheme, type, tolerance):
    q, k, v, logn = inputs(random, (1, 60, 4, 2, 16), scheme)
    want = sia.attention(q, k, v, scheme, logn=logn)[0]
    a = sia.Attention(scheme, heads=4, kv_heads=2, head_dim=16)
    with a.cache(type) as cache:
        first = cache.decode(q[0, :40], k[0, :40], v[0, :40], logn=logn)
        rest = [cache.decode(q[0, i : i + 1], k[0, i : i + 1], v[0, i : i + 1], logn=logn) for i in range(40, 60)]
        assert len(cache) == 60 and cache.nbytes > 0
        np.testing.assert_allclose(np.concatenate([first, *rest]), want, atol=tolerance)
        cache.truncate(40)
        np.testing.assert_array_equal(cache.decode(q[0, 40:41], k[0, 40:41], v[0, 40:41], logn=logn), rest[0])


# A cache of 3 positions is asked for 2 more, wrongly.
BAD_DECODES = [
    ({"q": (2, 2, 16)}, r"q: shape \[2, 2, 16\], want \[2, 2, 8\]"),
    ({"q": (3, 2, 8)}, r"q: shape \[3, 2, 8\], want \[2, 2, 8\]"),
    ({"q": (1, 2, 8)}, r"q: shape \[1, 2, 8\], want \[2, 2, 8\]"),
    ({"q": None}, "q: NULL, want an array"),
    ({"k": (2, 1, 8)}, r"k: shape \[2, 1, 8\], want \[2, 2, 8\]"),
    ({"v": (1, 2, 8)}, r"v: shape \[1, 2, 8\], want \[2, 2, 8\]"),
    ({"logn": (3,)}, r"logn: shape \[3\], want \[2\]"),
    ({"logn": None}, "logn: NULL, want one number for each head"),
    ({"q": (0, 2, 8), "k": (0, 2, 8), "v": (0, 2, 8)}, "n 0: want 1 to"),
]


@pytest.mark.parametrize("wrong, sentence", BAD_DECODES)
@pytest.mark.parametrize("type", ["f32", "f16", "int8"])
def test_a_decode_that_fails_appends_nothing(random, type, wrong, sentence):
    shapes = {"q": (2, 2, 8), "k": (2, 2, 8), "v": (2, 2, 8), "logn": (2,)}
    good = {name: random(*shape) for name, shape in shapes.items()}
    bad = {name: None if shape is None else random(*shape) for name, shape in wrong.items()}
    first = [random(3, 2, 8) for _ in range(3)]
    cache, other = (sia.Attention("logn+rope", heads=2, head_dim=8).cache(type) for _ in range(2))
    for each in (cache, other):
        each.decode(*first, logn=good["logn"])
    with pytest.raises(sia.ArgumentError, match=sentence):
        cache.decode(**{**good, **bad})
    assert len(cache) == 3
    np.testing.assert_array_equal(cache.decode(**good), other.decode(**good))


def test_a_decode_whose_fill_fails_appends_nothing(random):
    def fill(head, heads, t):
        if t[-1] >= 1024:  # the first table is that long
            raise KeyError("on purpose")
        return 1, -t

    x = random(1000, 1, 8)
    for name in ("decode", "append"):
        cache = sia.Attention("nope", heads=1, head_dim=8, fill=fill).cache()
        cache.decode(x, x, x)
        more = (x, x, x) if name == "decode" else (x, x)
        with pytest.raises(KeyError, match="on purpose"):
            getattr(cache, name)(*more)
        assert len(cache) == 1000
        with pytest.raises(sia.ArgumentError, match="its fill has failed"):
            getattr(cache, name)(*more)
        assert len(cache) == 1000


def test_tables():
    t = np.arange(1000.0)
    scale, bias = sia.tables("si+prope", 1000)
    want = reference.scale_and_bias("si", t, 0, 1)
    np.testing.assert_allclose(scale, want[0], rtol=1e-6)
    np.testing.assert_allclose(bias, want[1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(sia.tables("alibi", 9, head=3, heads=8).bias, -t[:9] / 16)
    np.testing.assert_allclose(sia.tables("si", 9, tau=3).scale ** 2, 2 * np.log(t[:9] / 3 + 1) + 1, rtol=1e-6)
    assert len(sia.tables("nope", 0).scale) == 0
    for head in range(2):
        own = sia.tables("nope", 9, head=head, heads=2, fill=lambda head, heads, t: (1 + head, -t / (1 + head)))
        np.testing.assert_allclose(own.scale, 1 + head)
        np.testing.assert_allclose(own.bias, -t[:9] / (1 + head), rtol=1e-6)


def test_own_distance_slot(random):
    q, k, v, _ = inputs(random, (1, 40, 2, 2, 16), "")
    own = sia.Attention(
        "nope",
        heads=2,
        head_dim=16,
        fill=lambda head, heads, t: (np.sqrt(2 * np.log1p(t / 10) + 1), -2 * np.log1p(t / 10)),
    )
    np.testing.assert_allclose(own.forward(q, k, v).out, sia.attention(q, k, v, "si+nope"), atol=1e-6)


def test_own_distance_slot_that_fails(random):
    def fill(head, heads, t):
        raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose"):
        a = sia.Attention("nope", heads=1, head_dim=8, fill=fill)
        a.forward(*[random(1, 9, 1, 8)] * 3)


def test_own_distance_slot_that_failed_once(random):
    calls = []

    def fill(head, heads, t):
        calls.append(t)
        if len(calls) == 1:
            raise KeyError("on purpose")
        return 1, -t

    a = sia.Attention("nope", heads=1, head_dim=8, fill=fill)
    arrays = [random(1, 9, 1, 8)] * 3
    with pytest.raises(KeyError, match="on purpose"):
        a.forward(*arrays)
    with pytest.raises(sia.ArgumentError, match="its fill has failed .*on purpose.*: make it anew"):
        a.forward(*arrays)


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_without_an_object_a_fill_that_failed_once_is_asked_again(random, error):
    calls = []

    def fill(head, heads, t):
        calls.append(t)
        if len(calls) == 1:
            raise error("on purpose")
        return 1, -0.5 * t

    q = random(1, 9, 1, 8)
    with pytest.raises(error, match="on purpose"):
        sia.attention(q, q, q, "nope", fill=fill)
    exact = q[0, :, 0].astype(np.float64)
    logits = exact @ exact.T / np.sqrt(8) - 0.5 * (np.arange(9)[:, None] - np.arange(9))
    weights = np.tril(np.exp(logits))
    want = weights / weights.sum(1, keepdims=True) @ exact
    np.testing.assert_allclose(sia.attention(q, q, q, "nope", fill=fill)[0, :, 0], want, atol=2e-6)
    asked = len(calls)
    sia.attention(q, q, q, "nope", fill=fill)
    assert len(calls) == asked  # and the tables are kept


@pytest.mark.parametrize(
    "values, sentence",
    [
        (lambda t: (np.ones(len(t)),), "want a pair, scale and bias, got tuple"),
        (lambda t: -0.1 * t, "want a pair, scale and bias, got ndarray"),
        (lambda t: (1, -t, 0), "want a pair, scale and bias, got tuple"),
        (lambda t: None, "want a pair, scale and bias, got NoneType"),
        (lambda t: (1, -t[:-1]), "bias of shape .*: want one number, or"),
        (lambda t: (np.ma.masked_less(t, 5), -t), "fill: scale: a masked array"),
    ],
)
def test_own_distance_slot_of_a_wrong_shape(random, values, sentence):
    with pytest.raises(sia.ArgumentError, match=sentence):
        a = sia.Attention("nope", heads=1, head_dim=8, fill=lambda head, heads, t: values(t))
        a.forward(*[random(1, 9, 1, 8)] * 3)


def test_settings_have_their_defaults():
    a = sia.Attention("prope+si", heads=4, head_dim=16, train_len=400)
    assert a.scheme == "si+prope"
    assert a.settings["kv_heads"] == 4 and a.settings["prope_base"] == 100 and a.settings["pairs"] == "halves"


def test_closing():
    a = sia.Attention(heads=1, head_dim=8)
    cache = a.cache()
    one = np.ones((1, 1, 8), np.float32)
    a.close()
    a.close()
    with pytest.raises(ValueError, match="attention: closed"):
        a.forward(one, one, one)
    del a
    gc.collect()
    np.testing.assert_array_equal(cache.decode(one, one, one), one)  # it holds what it borrowed


def own_fill(head, heads, t):
    return 1, -0.5 * t


@pytest.mark.parametrize("settings", [{"tau": 3.0, "train_len": 64}, {"scheme": "nope", "fill": own_fill}])
def test_copies_are_made_anew(random, settings):
    """Such as in a module that is deep-copied, or that goes to a process that was spawned."""
    a, q = sia.Attention(heads=2, head_dim=8, **settings), random(1, 20, 2, 8)
    want = a.forward(q, q, q).out
    copies = [copy.deepcopy(a), pickle.loads(pickle.dumps(a))]
    a.close()
    for other in copies:
        np.testing.assert_array_equal(other.forward(q, q, q).out, want)
        with pytest.raises(TypeError, match="cache: has no copies"):
            copy.deepcopy(other.cache())


def test_threads_share_an_object(random):
    q, k, v, _ = inputs(random, (1, 200, 4, 2, 16), "")
    a, results = sia.Attention(heads=4, kv_heads=2, head_dim=16), [None] * 4

    def work(i):
        results[i] = a.forward(q, k, v).out

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        np.testing.assert_array_equal(result, results[0])


# ---------------------------------------------------------------------------------------------------------- errors

F = np.float32
GOOD = np.ones((2, 5, 2, 8), F)
ODD = np.frombuffer(b"\0" * (GOOD.nbytes + 1), np.uint8)[1:].view(F).reshape(GOOD.shape)

BAD_ARRAYS = [
    (GOOD.astype(np.float64), "q: dtype float64, want float32"),
    (GOOD.astype(">f4"), "q: dtype >f4, want float32"),
    (GOOD.tolist(), "q: list, want a NumPy array of float32"),
    (GOOD[0, 0], r"q: shape \[2, 8\], want \[batch, length, heads, head_dim\]"),
    (GOOD[:, :, :1], r"q: shape \[2, 5, 1, 8\], want \[2, 5, 2, 8\]"),
    (np.ones((2, 5, 2, 16), F), r"q: shape \[2, 5, 2, 16\], want \[2, 5, 2, 8\]"),
    (GOOD[:1], r"k: shape \[2, 5, 2, 8\], want \[1, 5, 2, 8\]"),
    (GOOD[0], "q, k, v: 3, 4 and 4 axes, want as many"),
    (GOOD[:0], r"q: shape \[0, 5, 2, 8\], want a batch of 1 or more"),
    (np.ma.masked_array(GOOD, GOOD > 0), "q: a masked array, want one without a mask"),
    (GOOD[:, :0], "q_len 0: want 1 to"),
    (np.ones((2, 2, 5, 8), F).swapaxes(1, 2), "q: strides .* want an array that is dense but for the step"),
    (np.ones((2, 5, 2, 16), F)[..., ::2], "q: strides"),
    (np.ones((4, 5, 2, 8), F)[::2], "q: strides"),
    (np.broadcast_to(np.ones((2, 1, 2, 8), F), GOOD.shape), "q: strides"),
    (GOOD[:1, ::-1], "k: shape"),
    (ODD, "q: want an array aligned"),
]


@pytest.mark.parametrize("q, sentence", BAD_ARRAYS)
def test_a_bad_array_is_a_value_error(q, sentence):
    with pytest.raises(ValueError, match=sentence):
        sia.Attention(heads=2, head_dim=8).forward(q, GOOD, GOOD)


def test_positions_backwards():
    back = np.ones((1, 5, 2, 8), F)[:, ::-1]
    with pytest.raises(ValueError, match="q_stride -16: want at least a row, 16"):
        sia.attention(back, back, back)
    done = sia.forward(GOOD[:1], GOOD[:1], GOOD[:1])
    with pytest.raises(ValueError, match="k_stride -16: want at least a row, 16"):
        sia.backward(GOOD[:1], back, back, done.out, done.lse, GOOD[:1])


def test_no_copies_of_bad_strides():
    done, wide = sia.forward(GOOD, GOOD, GOOD), np.ones((2, 2, 5, 8), F).swapaxes(1, 2)
    with pytest.raises(ValueError, match="k: strides .* want an array that is dense but for the step"):
        sia.backward(GOOD, wide, GOOD, done.out, done.lse, GOOD)


BAD_CALLS = [
    (lambda: sia.Attention("si+rop", heads=1, head_dim=8), "scheme si[+]rop: unknown word 'rop'"),
    (lambda: sia.Attention("si+alibi", heads=1, head_dim=8), "both fill the distance slot"),
    (lambda: sia.Attention(heads=1, head_dim=12), "head_dim 12: want a multiple of 8"),
    (lambda: sia.Attention(heads=4, kv_heads=3, head_dim=8), "kv_heads 3: want a divisor of heads, 4"),
    (lambda: sia.Attention(heads=1, head_dim=8, taw=3), "no setting is called 'taw'"),
    (lambda: sia.Attention(heads=1, head_dim=8, tau=-1.0), "tau -1: want a number from 1e-9 to 1e15"),
    (lambda: sia.Attention(heads=1 << 40, head_dim=8), "heads 1099511627776: outside the range"),
    (lambda: sia.Attention(heads=1, head_dim=8, pairs="odd"), "pairs 'odd': want halves or adjacent"),
    (lambda: sia.Attention(heads=1, head_dim=8, pairs=["halves"]), r"pairs \['halves'\]: want halves or adjacent"),
    (lambda: sia.Attention(heads=1, head_dim=8, tau=[3.0]), "tau: list, want a number"),
    (lambda: sia.Attention(heads=1, head_dim=8, tau=np.ones(1)), r"tau: shape \[1\], want one number"),
    (lambda: sia.Attention(heads=1, head_dim=8, tau=np.ma.masked), "tau: a masked array"),
    (lambda: sia.Attention(heads=1, head_dim=8, train_len=64.5), "train_len: float, want an integer"),
    (lambda: sia.Attention(heads=None, head_dim=8), "heads: NoneType, want an integer"),
    (lambda: sia.Attention("nope", heads=1, head_dim=8, fill=1), "fill: int, want a function"),
    (lambda: sia.Attention(None, heads=1, head_dim=8), "scheme: NoneType, want a text"),
    (lambda: sia.tables(3, 9), "scheme: int, want a text"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, None), "scheme: NoneType, want a text"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, ["si"]), "scheme: list, want a text"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, tau=[3.0]), "tau: list, want a number"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, tau=np.ones(2)), r"tau: shape \[2\], want one number"),
    (lambda: sia.attention(GOOD[:0], GOOD[:0], GOOD[:0]), r"q: shape \[0, 5, 2, 8\], want a batch of 1 or more"),
    (lambda: sia.attention(GOOD, GOOD[:, :, :0], GOOD), r"k: shape \[2, 5, 0, 8\], want 1 head or more"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, q_pos="1"), "q_pos: str, want an integer"),
    (lambda: sia.attention(GOOD, GOOD, np.ma.masked_array(GOOD)), "v: a masked array, want one without a mask"),
    (lambda: sia.sample(np.ma.masked_array(np.ones(4, F))), "logits: a masked array"),
    (lambda: sia.Model.create("tiny", layers=None), "layers: NoneType, want an integer"),
    (lambda: sia.Model.create("tiny", scheme=None), "scheme: NoneType, want a text"),
    (lambda: sia.Model.create("tiny", init="wide"), "init 'wide': want paper or narrow"),
    (lambda: sia.Attention("si\0", heads=1, head_dim=8), "holds a 0 byte"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, "logn+rope"), "logn: NULL, want one number for each head"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, logn=np.ones(2, F)), "logn: given, but scheme si[+]prope has no logn"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, "logn+rope", logn=np.ones(3, F)), r"logn: shape \[3\], want \[2\]"),
    (lambda: sia.attention(GOOD, GOOD[:, :4], GOOD), r"v: shape \[2, 5, 2, 8\], want \[2, 4, 2, 8\]"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, q_pos=-1), "q_pos -1: want 0 to"),
    (lambda: sia.attention(GOOD, GOOD, GOOD, q_pos=1 << 70), "q_pos .* outside the range"),
    (lambda: sia.tables("si", -1), "n -1: want 0 to"),
    (lambda: sia.tables("si", 9, head=1), "head 1: want 0 to 0"),
    (lambda: sia.Attention(heads=2, head_dim=8).cache("f64"), "cache type 'f64': want f32, f16 or int8"),
    (lambda: sia.Attention(heads=2, head_dim=8).cache().attend(GOOD[0]), "n 5: the cache is empty"),
    (lambda: sia.Attention(heads=2, head_dim=8).cache().append(GOOD[0], GOOD[0, :3]), r"v: shape \[3, 2, 8\]"),
    (lambda: sia.Attention(heads=2, head_dim=8).cache().append(GOOD[0, ::2], GOOD[0, ::2]), "k: strides .* want a dense"),
    (lambda: sia.Attention(heads=2, head_dim=8).cache().truncate(1), "length 1: the cache holds 0"),
]  # fmt: skip


@pytest.mark.parametrize("function, sentence", BAD_CALLS)
def test_a_bad_call_is_a_value_error(function, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        function()
    assert isinstance(caught.value, sia.Error) and caught.value.status in ("argument", "scheme")


@pytest.mark.parametrize("three", [3, np.float32(3), np.array(3), np.array(3.0)])
def test_numbers_of_numpy_are_settings(random, three):
    q = random(1, 20, 2, 8)
    want = sia.attention(q, q, q, tau=3.0)
    np.testing.assert_array_equal(sia.attention(q, q, q, tau=three), want)
    np.testing.assert_array_equal(sia.Attention(heads=2, head_dim=8, tau=three).forward(q, q, q).out, want)


def test_a_fill_that_cannot_be_hashed(random):
    class Fill:
        __hash__ = None

        def __call__(self, head, heads, t):
            return 1, 0 * t

    q = random(1, 20, 2, 8)
    np.testing.assert_array_equal(sia.attention(q, q, q, "nope", fill=Fill()), sia.attention(q, q, q, "nope"))


def test_every_error_has_a_name():
    for kind in (sia.Error, sia.ArgumentError, sia.FileError, sia.FormatError, sia.OutOfMemory):
        assert kind.__name__ in sia.__all__ and issubclass(kind, sia.Error)


def test_no_memory():
    """A table of all positions is 8 GB: more than this process may have. The limit is for one process: another one."""
    script = """
import resource, numpy as np, sia
resource.setrlimit(resource.RLIMIT_AS, (7 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
one = np.ones((1, 1, 8), np.float32)
try:
    sia.attention(one, one, one, "nope", q_pos=(1 << 30) - 1)
except sia.OutOfMemory as error:
    assert isinstance(error, MemoryError) and error.status == "memory", error.status
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "tables" in done.stdout, done


def test_bad_places_for_results(random):
    a, done = sia.Attention(heads=2, head_dim=8), sia.forward(GOOD, GOOD, GOOD)
    closed = np.ones(GOOD.shape, F)
    closed.flags.writeable = False
    with pytest.raises(ValueError, match="out: read-only"):
        a.forward(GOOD, GOOD, GOOD, out=closed)
    with pytest.raises(ValueError, match=r"out: shape \[2, 4, 2, 8\], want that of q"):
        a.forward(GOOD, GOOD, GOOD, out=np.empty((2, 4, 2, 8), F))
    q, cache = GOOD.copy(), a.cache()
    for name in "qkv":
        with pytest.raises(ValueError, match="out: shares memory with %s, want an array of its own" % name):
            a.forward(**{**dict(q=GOOD, k=GOOD, v=GOOD), name: q}, out=q)
    cache.append(q[0], q[0])
    with pytest.raises(ValueError, match="out: shares memory with q"):
        cache.attend(q[0], out=q[0])
    with pytest.raises(ValueError, match="d_out: strides .* want those of out"):
        a.backward(GOOD, GOOD, GOOD, done.out, done.lse, np.ones((2, 5, 3, 8), F)[:, :, :2])
    with pytest.raises(ValueError, match="lse: shape"):
        a.backward(GOOD, GOOD, GOOD, done.out, done.lse[:1], GOOD)
