#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same attention in PyTorch and in sia, in the same rounds, on one thread: how many times faster is sia?

    python3 bench/peer_torch.py --sia build/release/sia
    python3 bench/peer_torch.py --sia build/release/sia --heads 6 --head-dim 128 --len 1024 --rounds 9 --json

Peers, each at its best form that we know of:
    eager   the scale-invariant logits as a matrix: tables by distance made beforehand, one fused multiply-add
    sdpa    scaled_dot_product_attention with is_causal: plain attention, nothing else
    mask    scaled_dot_product_attention with the bias of ALiBi as attn_mask (a factor on the logit, which the
            scale-invariant transform has, cannot be said in this way)
    flex    flex_attention, compiled, with the scale-invariant transform as score_mod and a causal block mask

With --model it is a whole step of training (forward, backward, Muon and Adam) of the model in peer_model.py, and its
forward and backward alone, at the shape of 'sia bench train --preset bench':

    python3 bench/peer_torch.py --model --sia build/release/sia --schemes si+prope,rope

PyTorch is measured twice there, as it is installed and with a malloc that keeps what it was given.

A round measures sia (a process of its own) and then every peer at one shape; the ratio of times is taken within
the round, and the median over the rounds is printed."""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time

# Without these glibc gives large blocks back to the system at every free, and eager PyTorch spends half its
# time in page faults: not a fair peer. They are read when a process starts, hence the second start below.
TUNABLES = (
    "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"
    ":glibc.malloc.top_pad=268435456"
)
TAU = 10.0
SAMPLE_SECONDS = 0.02
PASSES = ("forward", "forward+backward")
# The scheme of sia that computes the same function as the peer.
SAME = {"eager": "si+nope", "sdpa": "nope", "mask": "alibi", "flex": "si+nope"}


def numbers(text):
    return [int(word) for word in text.split(",")]


def read_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sia", default="build/release/sia", help="the program [build/release/sia]")
    parser.add_argument("--heads", type=numbers, default=[4, 6], help="one number for each shape [4,6]")
    parser.add_argument("--head-dim", type=numbers, default=[64, 128], help="one for each shape [64,128]")
    parser.add_argument("--len", type=numbers, default=[256, 1024, 4096], help="lengths [256,1024,4096]")
    parser.add_argument("--peers", default=",".join(SAME), help="[%s]" % ",".join(SAME))
    parser.add_argument("--model", action="store_true", help="training of a model instead of attention alone")
    parser.add_argument("--schemes", default="si+prope,rope", help="with --model [si+prope,rope]")
    parser.add_argument("--rounds", type=int, default=5, help="[5]")
    parser.add_argument("--json", action="store_true", help="one JSON object a line on stdout")
    arguments = parser.parse_args()
    arguments.peers = arguments.peers.split(",")
    unknown = [peer for peer in arguments.peers if peer not in SAME]
    if unknown:
        parser.error("--peers %s: want some of %s" % (unknown[0], ", ".join(SAME)))
    if len(arguments.heads) != len(arguments.head_dim):
        parser.error("--heads and --head-dim: want as many of one as of the other")
    if arguments.rounds < 1:
        parser.error("--rounds %d: want 1 or more" % arguments.rounds)
    return arguments


def restart_with_tunables():
    if os.environ.get("GLIBC_TUNABLES") != TUNABLES:
        os.environ["GLIBC_TUNABLES"] = TUNABLES
        os.execv(sys.executable, [sys.executable] + sys.argv)


def say(text):
    """Progress, for people who watch."""
    if sys.stderr.isatty():
        print("\r\033[K" + text, end="", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------------- sia


def measure_sia(program, schemes, heads, head_dim, length):
    """{(scheme, pass): seconds} from one round in a new process."""
    command = [program, "bench", "attention", "--json", "--rounds", "1", "--threads", "1"]
    command += ["--ops", "forward,backward", "--schemes", ",".join(schemes)]
    command += ["--heads", str(heads), "--head-dim", str(head_dim), "--len", str(length)]
    # The tunables are for PyTorch; sia runs as it comes.
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    except OSError as error:
        sys.exit("peer_torch: %s: %s (build it with 'make')" % (program, error.strerror))
    if done.returncode != 0:
        sys.exit("peer_torch: %s: %s" % (" ".join(command), done.stderr.strip()))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    seconds = {(line["scheme"], line["op"]): line["ms"] / 1e3 for line in lines}
    for scheme in schemes:
        both = seconds[scheme, "forward"] + seconds[scheme, "backward"]
        seconds[scheme, "forward+backward"] = both
    return seconds


# --------------------------------------------------------------------------------------------------- PyTorch


class Missing(Exception):
    """What a peer is made of came with a later PyTorch."""


class Shape:
    """The inputs and the tables of one shape, and a function for each peer."""

    def __init__(self, torch, heads, head_dim, length):
        self.torch, self.heads, self.head_dim, self.length = torch, heads, head_dim, length
        generator = torch.Generator().manual_seed(1)
        draw = lambda: torch.randn(1, heads, length, head_dim, generator=generator)
        self.inputs = [draw() for _ in range(3)]
        self.gradient = draw()
        # By distance: a_t = sqrt(2 log(t/tau + 1) + 1), m_t = -2 log(t/tau + 1).
        logarithm = torch.log1p(torch.arange(length, dtype=torch.float64) / TAU)
        self.scale = torch.sqrt(2 * logarithm + 1).float()
        self.bias = (-2 * logarithm).float()
        self.matrices = {}

    def distance(self):
        position = self.torch.arange(self.length)
        return position[:, None] - position[None, :]

    def matrix(self, name):
        """The [N, N] tables of eager and mask, made when they are first wanted and then kept."""
        if name not in self.matrices:
            torch, t = self.torch, self.distance()
            if name == "alibi":
                slope = 2.0 ** (-8.0 * (torch.arange(self.heads) + 1) / self.heads)
                filled = (-slope[:, None, None] * t).masked_fill(t < 0, -math.inf)[None]
            elif name == "scale":
                filled = self.scale[t.clamp(min=0)]
            else:
                filled = self.bias[t.clamp(min=0)].masked_fill(t < 0, -math.inf)
            self.matrices[name] = filled.contiguous()
        return self.matrices[name]

    def eager(self):
        torch, scale, bias = self.torch, self.matrix("scale"), self.matrix("bias")
        factor = self.head_dim**-0.5

        def run(q, k, v):
            return torch.softmax(torch.addcmul(bias, (q * factor) @ k.transpose(-1, -2), scale), -1) @ v

        return run

    def fused(self):
        functional = self.torch.nn.functional
        if not hasattr(functional, "scaled_dot_product_attention"):
            raise Missing("scaled_dot_product_attention came with PyTorch 2.0, and this is %s" % self.torch.__version__)
        return functional.scaled_dot_product_attention

    def sdpa(self):
        function = self.fused()
        return lambda q, k, v: function(q, k, v, is_causal=True)

    def mask(self):
        function, bias = self.fused(), self.matrix("alibi")
        return lambda q, k, v: function(q, k, v, attn_mask=bias)

    def flex(self):
        try:
            from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        except ModuleNotFoundError as error:
            if not error.name.startswith("torch.nn.attention"):
                raise
            raise Missing("flex_attention came with PyTorch 2.5, and this is %s" % self.torch.__version__) from None

        torch, scale, bias = self.torch, self.scale, self.bias

        def transform(score, batch, head, query, key):
            t = torch.clamp(query - key, min=0)
            return scale[t] * score + bias[t]

        causal = create_block_mask(
            lambda batch, head, query, key: query >= key, None, None, self.length, self.length, device="cpu"
        )
        compiled = torch.compile(flex_attention, dynamic=False)
        return lambda q, k, v: compiled(q, k, v, score_mod=transform, block_mask=causal)

    def prepare(self, peer, which):
        """A function without arguments that runs one pass."""
        function = getattr(self, peer)()
        torch = self.torch
        if which == "forward":

            def forward():
                with torch.no_grad():
                    return function(*self.inputs)

            return forward
        leaves = [x.clone().requires_grad_() for x in self.inputs]

        def both():
            for leaf in leaves:
                leaf.grad = None
            function(*leaves).backward(self.gradient)

        return both

    def check(self, peer, out):
        """A peer that computes something else would be no peer."""
        q, k, v = (x.double() for x in self.inputs)
        logits = q @ k.transpose(-1, -2) * self.head_dim**-0.5
        if peer == "mask":
            logits = logits + self.matrix("alibi")
        elif peer == "sdpa":
            logits = logits.masked_fill(self.distance() < 0, -math.inf)
        else:
            logits = logits * self.matrix("scale") + self.matrix("bias")
        error = (out - self.torch.softmax(logits, -1) @ v).abs().max().item()
        if not error < 1e-4:
            raise ValueError("its result is off by %.1e" % error)


def measure(run):
    """Seconds of a call, over a sample of SAMPLE_SECONDS or of one call."""
    calls, started = 0, time.perf_counter()
    while True:
        run()
        calls += 1
        elapsed = time.perf_counter() - started
        if elapsed >= SAMPLE_SECONDS:
            return elapsed / calls


def prepare_peers(shape, peers, refused):
    """{(peer, pass): function}, warm. What a peer cannot do goes to refused with its own words."""
    ready = {}
    for peer in peers:
        # Backward first: once flex_attention has refused it, torch.compile runs the forward pass of the same code
        # uncompiled, five times slower, until it is told to forget.
        for which in reversed(PASSES):
            if (peer, which) in refused:
                continue
            try:
                run = shape.prepare(peer, which)
                out = run()
                if which == "forward" and shape.length <= 1024:
                    shape.check(peer, out)
                run()
                ready[peer, which] = run
            except Missing as missing:
                refused[peer, which] = str(missing)
            except Exception as error:  # whatever PyTorch raises is the answer
                words = str(error).strip().splitlines()
                # What is wrong in the forward pass is wrong in both.
                for each in PASSES if which == "forward" else (which,):
                    refused.setdefault((peer, each), "%s: %s" % (type(error).__name__, words[0] if words else ""))
                    ready.pop((peer, each), None)
                if peer == "flex":
                    shape.torch._dynamo.reset()
    return ready


# ---------------------------------------------------------------------------------------------------- report


def measure_shape(torch, arguments, heads, head_dim, length, refused):
    """{(peer, pass): [(peer seconds, sia seconds) for each round]}"""
    say("%d x %d, length %d: compiling" % (heads, head_dim, length))
    ready = prepare_peers(Shape(torch, heads, head_dim, length), arguments.peers, refused)
    schemes = sorted({SAME[peer] for peer in arguments.peers})
    pairs = {key: [] for key in ready}
    for round_number in range(arguments.rounds):
        say("%d x %d, length %d: round %d" % (heads, head_dim, length, round_number + 1))
        sia = measure_sia(arguments.sia, schemes, heads, head_dim, length)
        for key, run in ready.items():
            pairs[key].append((measure(run), sia[SAME[key[0]], key[1]]))
    return pairs


def print_line(peer, which, heads, head_dim, length, pairs):
    line = {
        "peer": peer,
        "pass": which,
        "scheme": SAME[peer],
        "heads": heads,
        "head_dim": head_dim,
        "len": length,
        "peer_ms": 1e3 * statistics.median(theirs for theirs, _ in pairs),
        "sia_ms": 1e3 * statistics.median(ours for _, ours in pairs),
        "peer_over_sia": statistics.median(theirs / ours for theirs, ours in pairs),
    }
    print(json.dumps(line), flush=True)


def print_table(arguments, results, refused):
    print("\nPyTorch's time over sia's, one thread, median of %d rounds" % arguments.rounds)
    print("\n%-6s %-17s %-9s %11s" % ("peer", "pass", "scheme", "heads x dim"), end="")
    print("".join(" %7d" % length for length in arguments.len))
    for peer in arguments.peers:
        for which in PASSES:
            for heads, head_dim in zip(arguments.heads, arguments.head_dim):
                cells = [results[heads, head_dim, length].get((peer, which)) for length in arguments.len]
                if not any(cells):
                    continue
                shape = "%d x %d" % (heads, head_dim)
                print("%-6s %-17s %-9s %11s" % (peer, which, SAME[peer], shape), end="")
                ratios = [
                    " %7.2f" % statistics.median(theirs / ours for theirs, ours in pairs) if pairs else "       -"
                    for pairs in cells
                ]
                print("".join(ratios))
    passes = {}
    for (peer, which), words in refused.items():
        passes.setdefault((peer, words), []).append(which)
    for (peer, words), whiches in passes.items():
        print("%s cannot do %s here: %s" % (peer, " and ".join(whiches), words))


# -------------------------------------------------------------------------------------------- the whole model

BENCH = {"layers": 6, "width": 256, "heads": 4, "head_dim": 64, "hidden": 1024, "vocabulary": 4096, "tau": 10.0}
BENCH_BATCH, BENCH_LENGTH = 8, 256
PARTS = {"gradient": "forward+backward", "step": "whole step"}


class Peer:
    """PyTorch in a process of its own, which waits while others are measured: its malloc is told how to behave when a
    process starts."""

    def __init__(self, config, tuned):
        environment = dict(os.environ)
        environment.pop("GLIBC_TUNABLES", None)
        if tuned:
            environment["GLIBC_TUNABLES"] = TUNABLES
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_model.py")
        self.process = subprocess.Popen(
            [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.ask(json.dumps({"config": config, "batch": BENCH_BATCH, "length": BENCH_LENGTH}))

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("peer_torch: peer_model.py ended")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure_sia_model(program, scheme):
    """{part: (seconds, fraction of the FMA peak)} from one round in a new process."""
    command = [program, "bench", "train", "--json", "--rounds", "1", "--threads", "1", "--preset", "bench", "--scheme", scheme]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("peer_torch: %s: %s" % (" ".join(command), done.stderr.strip()))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["op"]: (line["ms"] / 1e3, line["peak_fraction"]) for line in lines if line["op"] in PARTS}


def compare_model(arguments, scheme):
    config = dict(BENCH, scheme=scheme, alpha=math.exp(0.5), beta=math.exp(0.5), sharp=2.0, prope_share=0.5)
    config.update(rotary_base=10000 * BENCH_LENGTH / 4096, prope_base=BENCH_LENGTH / 4)
    peers = {"installed": Peer(config, False), "tuned": Peer(config, True)}
    rounds = []
    for number in range(arguments.rounds):
        say("%s: round %d" % (scheme, number + 1))
        measured = {"sia": measure_sia_model(arguments.sia, scheme)}
        for name, peer in peers.items():
            measured[name] = {part: peer.ask(part) for part in PARTS}
        rounds.append(measured)
    for peer in peers.values():
        peer.close()
    tokens = BENCH_BATCH * BENCH_LENGTH
    for part, words in PARTS.items():
        line = {"scheme": scheme, "part": words, "rounds": len(rounds)}
        line["sia_tokens_per_s"] = statistics.median(tokens / r["sia"][part][0] for r in rounds)
        line["sia_peak_fraction"] = statistics.median(r["sia"][part][1] for r in rounds)
        for name in peers:
            line[name + "_tokens_per_s"] = statistics.median(tokens / r[name][part] for r in rounds)
            line["sia_over_" + name] = statistics.median(r[name][part] / r["sia"][part][0] for r in rounds)
        yield line


def compare_models(arguments):
    say("")
    if not arguments.json:
        print("tokens/s on one thread, %d layers, width %d, vocabulary %d, batch %d of %d; medians of %d rounds"
              % (BENCH["layers"], BENCH["width"], BENCH["vocabulary"], BENCH_BATCH, BENCH_LENGTH, arguments.rounds))
        print("\n%-12s %-17s %8s %9s %8s %11s %7s" % ("scheme", "part", "sia", "installed", "tuned", "sia over it", "tuned"))
    for scheme in arguments.schemes.split(","):
        for line in compare_model(arguments, scheme):
            say("")
            if arguments.json:
                print(json.dumps(line), flush=True)
            else:
                print("%-12s %-17s %8.0f %9.0f %8.0f %11.2f %7.2f"
                      % (scheme, line["part"], line["sia_tokens_per_s"], line["installed_tokens_per_s"], line["tuned_tokens_per_s"],
                         line["sia_over_installed"], line["sia_over_tuned"]), flush=True)


def describe(torch, program):
    try:
        sia = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit("peer_torch: %s: %s (build it with 'make')" % (program, error))
    words = " ".join(sia.split())
    cpu = getattr(torch.backends, "cpu", None)
    capability = cpu.get_cpu_capability() if cpu else "instruction set not told"
    return "PyTorch %s (%s), Python %s; %s" % (
        torch.__version__,
        capability,
        platform.python_version(),
        words,
    )


def main():
    arguments = read_arguments()
    if not arguments.model:
        restart_with_tunables()
    try:
        import torch
    except ImportError:
        sys.exit("peer_torch: this Python has no PyTorch; 'make bench-peer' makes an environment that has it")
    torch.set_num_threads(1)
    if hasattr(torch, "_dynamo"):
        torch._dynamo.config.cache_size_limit = 64
    print(describe(torch, arguments.sia), file=sys.stderr if arguments.json else sys.stdout, flush=True)
    if arguments.model:
        if not hasattr(torch.nn.functional, "rms_norm"):
            sys.exit("peer_torch: --model wants PyTorch 2.4 or later, for rms_norm and fused Adam; this is %s" % torch.__version__)
        compare_models(arguments)
        return
    refused, results = {}, {}
    for heads, head_dim in zip(arguments.heads, arguments.head_dim):
        for length in arguments.len:
            pairs = measure_shape(torch, arguments, heads, head_dim, length, refused)
            results[heads, head_dim, length] = pairs
            if arguments.json:
                for (peer, which), measured in pairs.items():
                    print_line(peer, which, heads, head_dim, length, measured)
    say("")
    if arguments.json:
        for (peer, which), words in refused.items():
            print(json.dumps({"peer": peer, "pass": which, "refused": words}))
    else:
        print_table(arguments, results, refused)


if __name__ == "__main__":
    main()
