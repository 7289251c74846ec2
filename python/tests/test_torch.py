# SPDX-License-Identifier: MIT
"""Attention on tensors: against a reference in float64 with autograd's gradients, by gradcheck, and in a model."""

import numpy as np
import pytest
import reference

import sia

torch = pytest.importorskip("torch")

SCHEMES = sia.schemes()


def tensors(shape=(2, 23, 4, 2, 16), scheme="", dtype=torch.float32, seed=1):
    """q, k, v and, with logn, its scales."""
    batch, length, heads, kv_heads, dim = shape
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(batch, length, h, dim, generator=generator) for h in (heads, kv_heads, kv_heads)]
    made += [0.3 + 0.05 * torch.randn(heads, generator=generator)] if "logn" in scheme else []
    return [x.to(dtype).requires_grad_() for x in made]


def apply(function, inputs, scheme, **options):
    return function(*inputs[:3], scheme, logn=inputs[3] if len(inputs) > 3 else None, **options)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradients_are_those_of_the_reference(scheme):
    inputs = tensors(scheme=scheme)
    exact = [x.detach().double().requires_grad_() for x in inputs]
    settings = {"train_len": 8, "eval_len": 32}
    out = apply(sia.torch.attention, inputs, scheme, **settings)
    want = apply(reference.attention, exact, scheme, np=reference.Torch(torch), **settings)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    out.backward(weight)
    want.backward(weight.double())
    assert (out - want).abs().max() < 2e-5
    for x, y in zip(inputs, exact):
        assert (x.grad - y.grad).abs().max() < 1e-4 * (1 + y.grad.abs().max())


@pytest.mark.parametrize("scheme", ["si+prope", "logn+rope", "alibi", "nope"])
def test_gradcheck(scheme):
    """The kernels compute in float32 with an error near 1e-6: over a step of 1e-2 a difference is good to 1e-4, and
    the curvature within the step costs as much again. 5e-4 is two orders below the gradients."""
    inputs = tensors((1, 7, 2, 1, 8), scheme, torch.float64)

    def function(*values):
        return apply(sia.torch.attention, values, scheme, convert=True)

    assert torch.autograd.gradcheck(function, inputs, eps=1e-2, atol=5e-4, rtol=1e-2, nondet_tol=0.0)


def test_gradcheck_can_fail(monkeypatch):
    true = sia.Attention.backward

    def wrong(self, *arguments, **options):
        found = true(self, *arguments, **options)
        return found._replace(k=found.k * np.float32(1.05))

    monkeypatch.setattr(sia.Attention, "backward", wrong)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        test_gradcheck("si+prope")


def test_slices_of_a_packed_tensor():
    packed = torch.randn(2, 31, 3, 2, 16, requires_grad=True)
    sia.torch.attention(*packed.unbind(2)).square().sum().backward()
    apart = [x.detach().clone().requires_grad_() for x in packed.unbind(2)]
    sia.torch.attention(*apart).square().sum().backward()
    assert torch.equal(packed.grad, torch.stack([x.grad for x in apart], 2))


def test_memory_is_shared():
    q, k, v = tensors()
    assert q.detach().numpy().__array_interface__["data"][0] == q.data_ptr()
    out = sia.torch.attention(q, k, v)
    want = sia.attention(*(x.detach().numpy() for x in (q, k, v)))
    assert np.array_equal(out.detach().numpy(), want)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_convert(dtype):
    q, k, v = tensors((2, 20, 2, 2, 16), dtype=dtype)
    turned = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in (q, k, v)]
    out = sia.torch.attention(*turned, convert=True)
    assert out.dtype == dtype
    out.float().sum().backward()
    assert turned[0].grad.dtype == dtype and torch.isfinite(turned[0].grad).all()
    assert torch.equal(out, sia.torch.attention(q.float(), k.float(), v.float()).to(dtype))


class Block(torch.nn.Module):
    """Attention as a model has it, with a residual."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).unbind(2)
        return x + self.out(sia.torch.attention(q, k, v, scheme="si+prope").flatten(2))


def test_a_model_learns_with_it():
    """To say at each place what stood two places before: only attention can know."""
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(8, 32)
    model = torch.nn.Sequential(embedding, Block(), Block(), torch.nn.Linear(32, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        ids = torch.randint(8, (8, 16))
        logits = model(ids)[:, 2:]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 8), ids[:, :-2].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5  # ln 8 = 2.08 without attention


@pytest.mark.skipif(not hasattr(getattr(torch, "compiler", None), "is_compiling"), reason="an older PyTorch")
def test_a_compiled_model():
    """By the backend that needs no C++ compiler. Other lengths and schemes make it compile anew."""
    block = Block()
    compiled = torch.compile(block, backend="eager")
    for length in (20, 21, 30):
        x, found = torch.randn(2, length, 32), []
        for model in (block, compiled):
            block.zero_grad()
            out = model(x)
            out.square().sum().backward()
            found.append((out, block.qkv.weight.grad))
        assert all(torch.equal(one, other) for one, other in zip(*found))
    alone = torch.compile(lambda x, scheme: sia.torch.attention(x, x, x, scheme, tau=3.0) * 2, backend="eager")
    x = torch.randn(1, 9, 2, 8)
    for scheme in ("rope", "si+prope", "alibi"):
        assert torch.equal(alone(x, scheme), sia.torch.attention(x, x, x, scheme, tau=3.0) * 2)


GOOD = torch.ones(2, 5, 2, 8)
BAD = [
    (lambda: sia.torch.attention(GOOD.double(), GOOD, GOOD), "q: dtype float64, want float32; with convert=True"),
    (lambda: sia.torch.attention(GOOD, GOOD.numpy(), GOOD), "k: ndarray, want a tensor"),
    (lambda: sia.torch.attention(GOOD[0, 0], GOOD, GOOD), r"q: shape \[2, 8\], want \[batch"),
    (lambda: sia.torch.attention(GOOD, GOOD, GOOD[:, :3]), r"v: shape \[2, 3, 2, 8\], want \[2, 5, 2, 8\]"),
    (lambda: sia.torch.attention(GOOD.transpose(1, 2), GOOD.transpose(1, 2), GOOD.transpose(1, 2)), "q: strides"),
    (lambda: sia.torch.attention(GOOD, GOOD, GOOD, "logn+rope"), "logn: NULL, want one number for each head"),
    (lambda: sia.torch.attention(GOOD, GOOD, GOOD, "soup"), "scheme soup: unknown word"),
    (lambda: sia.torch.attention(GOOD.to("meta"), GOOD, GOOD), "q: on meta"),
    (lambda: sia.torch.attention(GOOD, GOOD.to_sparse(), GOOD, convert=True), "k: on cpu, torch.sparse_coo; want"),
    (lambda: sia.torch.attention(GOOD.int(), GOOD, GOOD, convert=True), "q: dtype int32, want float32$"),
    (lambda: sia.torch.attention(GOOD, GOOD, GOOD.cfloat(), convert=True), "v: dtype complex64, want float32$"),
    (lambda: sia.torch.attention(GOOD, GOOD, GOOD, tau=torch.ones(()).requires_grad_()), "tau: requires a gradient"),
]


@pytest.mark.parametrize("function, sentence", BAD)
def test_a_bad_call_is_a_value_error(function, sentence):
    with pytest.raises(ValueError, match=sentence):
        function()


@pytest.mark.parametrize("loss", [lambda out: out.square().sum(), lambda out: out.sum()])
def test_no_second_derivative(loss):
    """Also where the gradient of out is a constant, and the rest of what is differentiated has a gradient."""
    q, k, v = tensors((1, 4, 1, 1, 8))
    out = sia.torch.attention(q, k, v)
    (gradient,) = torch.autograd.grad(loss(out), q, create_graph=True)
    with pytest.raises(RuntimeError, match="sia.torch.attention: differentiated twice, want once"):
        (out.sum() + gradient.square().sum()).backward()
