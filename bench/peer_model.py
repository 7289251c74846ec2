#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The model of sia in PyTorch, with its optimisers: a peer for speed (peer_torch.py --model), and a second opinion on
losses and gradients (tests/outside/model_agree.py).

    x = norm(embedding[ids])
    every block:   x += Wo attention(norm(Wq y), norm(Wk y), Wv y), y = norm(x)       norms of q and k by head
                   x += Wout relu(Win norm(x))^2
    loss = cross entropy of unembedding norm(x)

Attention is PyTorch's own scaled_dot_product_attention wherever the scheme can be said in it: a factor on the query
(LogN, sharp), a bias by distance (ALiBi). The scale-invariant transform cannot, and is written out.

As a program it measures what its standard input asks for: see Worker."""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
SAMPLE_SECONDS = 0.3


def norm(x):
    return F.rms_norm(x, (x.shape[-1],), eps=2.0**-23)


class Scheme:
    """The tables of a scheme for one length; config is the "model" of a run's config.json."""

    def __init__(self, config, length, dtype=torch.float32):
        words = config["scheme"].split("+")
        self.heads, self.head_dim = config["heads"], config["head_dim"]
        self.logn = "logn" in words
        self.sharp = config["sharp"] if "sharp" in words else None
        self.distance = "si" if "si" in words else "alibi" if "alibi" in words else None
        position = torch.arange(length, dtype=torch.float64)
        self.log_keys = torch.log(position + 1).to(dtype)
        frequency = self.frequencies(words, config)
        self.rotates = bool(frequency.abs().sum() > 0)
        angle = position[:, None] * frequency[None, :]
        self.cos, self.sin = angle.cos().to(dtype)[None, :, None], angle.sin().to(dtype)[None, :, None]
        t = position[:, None] - position[None, :]
        future = t < 0
        t = t.clamp(min=0)
        if self.distance == "si":
            square = 2 * (torch.log(t / config["tau"] + 1) - math.log(config["alpha"]) + config["beta"] / config["alpha"])
            self.scale = square.clamp(min=0).sqrt().to(dtype)
            self.bias = (config["beta"] / config["alpha"] - square).masked_fill(future, -math.inf).to(dtype)
        if self.distance == "alibi":
            slope = 2.0 ** (-8.0 * (torch.arange(self.heads, dtype=torch.float64) + 1) / self.heads)
            self.bias = (-slope[:, None, None] * t).masked_fill(future, -math.inf).to(dtype)[None]

    def frequencies(self, words, config):
        """Of each pair of a head. NTK and YaRN turn as RoPE does at the length that was trained."""
        pairs = self.head_dim // 2
        index = torch.arange(pairs, dtype=torch.float64)
        if "prope" in words:
            turning = round(config["prope_share"] * pairs)
            slowest = max(turning - 1, 1)
            return torch.where(index < turning, config["prope_base"] ** (-index / slowest), 0.0)
        if {"rope", "ntk", "yarn"} & set(words):
            return config["rotary_base"] ** (-index / pairs)
        return torch.zeros(pairs, dtype=torch.float64)

    def turn(self, x):
        if not self.rotates:
            return x
        a, b = x.chunk(2, -1)
        return torch.cat((a * self.cos - b * self.sin, a * self.sin + b * self.cos), -1)

    def attend(self, q, k, v, logn):
        """q, k, v [batch, length, heads, head_dim]"""
        q, k = self.turn(q), self.turn(k)
        if self.logn:
            q = q * (self.log_keys[:, None] * logn)[None, :, :, None]
        if self.sharp:
            q = q * self.sharp
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if self.distance == "si":
            logits = (q * self.head_dim**-0.5) @ k.transpose(-1, -2)
            out = torch.softmax(torch.addcmul(self.bias, logits, self.scale), -1) @ v
        elif self.distance == "alibi":
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias)
        else:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2)


class Model:
    """weights: {name: tensor}, by the names and shapes of sia's checkpoints."""

    def __init__(self, config, weights, length, dtype=torch.float32):
        self.config = config
        self.weights = {name: w.to(dtype).requires_grad_() for name, w in weights.items()}
        self.scheme = Scheme(config, length, dtype)

    def loss(self, ids, targets):
        """The mean; targets below 0 are not scored."""
        w, config = self.weights, self.config
        batch, length = ids.shape
        heads = lambda x: x.view(batch, length, -1, config["head_dim"])
        x = norm(F.embedding(ids, w["embedding.weight"]))
        for block in range(config["layers"]):
            part = "blocks.%d." % block
            y = norm(x)
            q, k, v = (heads(F.linear(y, w[part + "attention.%s.weight" % name])) for name in "qkv")
            z = self.scheme.attend(norm(q), norm(k), v, w.get(part + "attention.logn", torch.empty(0)).view(-1))
            x = x + F.linear(z.reshape(batch, length, -1), w[part + "attention.o.weight"])
            h = F.relu(F.linear(norm(x), w[part + "mlp.in.weight"])).square()
            x = x + F.linear(h, w[part + "mlp.out.weight"])
        logits = F.linear(norm(x), w["unembedding.weight"])
        return F.cross_entropy(logits.view(batch * length, -1), targets.view(-1), ignore_index=-1)


# ------------------------------------------------------------------------------------------------ optimisers


class Muon:
    def __init__(self, matrices, rate=0.02, momentum=0.95):
        self.matrices, self.rate, self.momentum = matrices, rate, momentum
        self.buffers = [torch.zeros_like(m) for m in matrices]

    @torch.no_grad()
    def step(self):
        for matrix, buffer in zip(self.matrices, self.buffers):
            buffer.mul_(self.momentum).add_(matrix.grad)
            x = matrix.grad.add(buffer, alpha=self.momentum)
            tall = x.shape[0] > x.shape[1]
            x = (x.T if tall else x) / (x.norm() + 1e-7)
            a, b, c = NEWTON_SCHULZ
            for _ in range(5):
                gram = x @ x.T
                x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
            matrix.add_(x.T if tall else x, alpha=-self.rate * math.sqrt(max(1, matrix.shape[0] / matrix.shape[1])))


def optimisers(model):
    named = model.weights
    matrices = [w for name, w in named.items() if name.startswith("blocks.") and name.endswith(".weight")]
    scalars = [w for name, w in named.items() if name.endswith("logn")]
    groups = [{"params": [named["embedding.weight"]], "lr": 0.3}, {"params": [named["unembedding.weight"]], "lr": 0.002}]
    if scalars:
        groups.append({"params": scalars, "lr": 0.002})
    return Muon(matrices), torch.optim.Adam(groups, betas=(0.9, 0.95), eps=1e-8, fused=True)


# ------------------------------------------------------------------------------------------------ measuring


def random_weights(config):
    """Small and nowhere zero: what they are does not matter for speed."""
    generator = torch.Generator().manual_seed(1)
    width, q = config["width"], config["heads"] * config["head_dim"]
    shapes = {"embedding.weight": (config["vocabulary"], width), "unembedding.weight": (config["vocabulary"], width)}
    for block in range(config["layers"]):
        part = "blocks.%d." % block
        shapes.update({part + "attention.%s.weight" % name: (q, width) for name in "qkv"})
        shapes[part + "attention.o.weight"] = (width, q)
        shapes[part + "mlp.in.weight"] = (config["hidden"], width)
        shapes[part + "mlp.out.weight"] = (width, config["hidden"])
        if "logn" in config["scheme"]:
            shapes[part + "attention.logn"] = (config["heads"],)
    return {name: 0.05 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


class Worker:
    """Reads {"config": ..., "batch": B, "length": L} and then "gradient" or "step", a line each; answers each line with
    seconds of one call."""

    def __init__(self, config, batch, length):
        self.model = Model(config, random_weights(config), length)
        generator = torch.Generator().manual_seed(2)
        draw = lambda: torch.randint(config["vocabulary"], (batch, length), generator=generator)
        self.ids, self.targets = draw(), draw()
        self.muon, self.adam = optimisers(self.model)

    def gradient(self):
        for w in self.model.weights.values():
            w.grad = None
        self.model.loss(self.ids, self.targets).backward()

    def step(self):
        self.gradient()
        self.muon.step()
        self.adam.step()

    def measure(self, which):
        run = getattr(self, which)
        calls, started = 0, time.perf_counter()
        while True:
            run()
            calls += 1
            elapsed = time.perf_counter() - started
            if elapsed >= SAMPLE_SECONDS:
                return elapsed / calls


def main():
    torch.set_num_threads(1)
    worker = Worker(**json.loads(sys.stdin.readline()))
    for _ in range(2):
        worker.step()
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        print(worker.measure(line.strip()), flush=True)


if __name__ == "__main__":
    main()
