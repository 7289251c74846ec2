#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/peer_torch.py with a PyTorch of plain Python (stub/torch.py) and the real sia, which it finds in $SIA.

    SIA=build/release/sia python3 tests/bench/test_peer_torch.py [-v]
"""
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "..", "bench")
STUB = os.path.join(HERE, "stub")
sys.path[:0] = [BENCH, STUB]
import peer_torch  # noqa: E402
import torch  # noqa: E402

SCRIPT = os.path.join(BENCH, "peer_torch.py")
SHAPE = ["--heads", "1", "--head-dim", "8", "--len", "16"]
SCHEMES = {"eager": "si+nope", "sdpa": "nope", "mask": "alibi", "flex": "si+nope"}
BOTH = ("forward", "forward+backward")

# sia, and in the log of the stub that it was called, how, and what it said.
SIA_THAT_NOTES = """#!/bin/sh
[ "$1" = bench ] || exec "$SIA" "$@"
echo "[\\"sia\\", \\"${GLIBC_TUNABLES-}\\", \\"$*\\"]" >>"$STUB_LOG"
"$SIA" "$@" | tee -a "$STUB_LOG"
"""


class Ran:
    """The script, run once. Of the log: notes are lists, what sia said are dictionaries."""

    def __init__(self, *options, shape=SHAPE, **settings):
        with tempfile.TemporaryDirectory() as folder:
            sia, log = os.path.join(folder, "sia"), os.path.join(folder, "log")
            with open(sia, "w") as file:
                file.write(SIA_THAT_NOTES)
            os.chmod(sia, 0o755)
            environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
            environment.update(settings, PYTHONPATH=STUB, STUB_LOG=log)
            command = [sys.executable, SCRIPT, "--sia", sia, *shape, *options]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            with open(log) as file:
                self.log = [json.loads(line) for line in file]
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        lines = [json.loads(line) for line in self.out.splitlines()] if "--json" in options else []
        self.timed = {(line["peer"], line["pass"]): line for line in lines if "refused" not in line}
        self.refused = {(line["peer"], line["pass"]): line["refused"] for line in lines if "refused" in line}

    def notes(self, what):
        return [line[1:] for line in self.log if isinstance(line, list) and line[0] == what]


class Rounds(unittest.TestCase):
    def test_one_round(self):
        ran = Ran("--json", "--rounds", "1")
        self.assertEqual(ran.code, 0, ran.err)
        self.assertIn("PyTorch 2.15 (no instruction set)", ran.err)
        self.assertEqual(set(ran.timed) | set(ran.refused), {(peer, which) for peer in SCHEMES for which in BOTH})
        self.assertEqual(ran.refused, {("flex", BOTH[1]): "NotImplementedError: flex_attention has no backward pass here."})
        self.assertEqual(len(ran.notes("reset")), 1)
        said = {(line["scheme"], line["op"]): line["ms"] for line in ran.log if isinstance(line, dict)}
        for (peer, which), line in ran.timed.items():
            scheme = SCHEMES[peer]
            same = {"peer": peer, "pass": which, "scheme": scheme, "heads": 1, "head_dim": 8, "len": 16}
            self.assertEqual(set(line), {*same, "peer_ms", "sia_ms", "peer_over_sia"})
            self.assertEqual({name: line[name] for name in same}, same)
            sia_ms = said[scheme, "forward"] + (said[scheme, "backward"] if which == BOTH[1] else 0)
            self.assertAlmostEqual(line["sia_ms"] / sia_ms, 1, 9)
            self.assertGreater(line["peer_ms"], 0)
            self.assertAlmostEqual(line["peer_over_sia"] / (line["peer_ms"] / line["sia_ms"]), 1, 9)

    def test_conditions(self):
        """PyTorch has its malloc tuned and one thread; sia has one thread and the malloc that there is."""
        ran = Ran("--json", "--rounds", "1", "--peers", "eager")
        self.assertEqual(ran.log[:2], [["import", peer_torch.TUNABLES], ["threads", 1]])
        self.assertEqual(len(ran.notes("import")), 1)
        ((tunables, command),) = ran.notes("sia")
        self.assertEqual(tunables, "")
        self.assertEqual(
            command,
            "bench attention --json --rounds 1 --threads 1 --ops forward,backward --schemes si+nope --heads 1 --head-dim 8 --len 16",
        )

    def test_same_rounds(self):
        """sia and the peers take turns; sdpa is causal by itself, mask by its matrix."""
        for peer, asked in (("sdpa", [True, False]), ("mask", [False, True])):
            ran = Ran("--json", "--rounds", "3", "--peers", peer)
            turns = [line[0] for line in ran.log if isinstance(line, list) and line[0] in ("sia", "sdpa")]
            changes = [turn for i, turn in enumerate(turns) if i == 0 or turn != turns[i - 1]]
            self.assertEqual(changes, ["sdpa"] + ["sia", "sdpa"] * 3)  # the first makes it warm
            self.assertEqual([call for call in ran.notes("sdpa") if call != asked], [])

    def test_shapes(self):
        shape = ["--heads", "1,2", "--head-dim", "8,16", "--len", "16,24"]
        ran = Ran("--peers", "eager", "--rounds", "1", shape=shape)
        self.assertEqual(ran.code, 0, ran.err)
        lines = [line.split() for line in ran.out.splitlines() if line.startswith("eager")]
        self.assertEqual([line[:6] for line in lines], [["eager", which, "si+nope", heads, "x", dim] for which in BOTH
                                                         for heads, dim in (("1", "8"), ("2", "16"))])
        self.assertTrue(all(len(line) == 8 and float(line[6]) > 0 and float(line[7]) > 0 for line in lines), lines)

    def test_medians(self):
        """The ratio is taken within a round: here 0.5, 4 and 1, where that of the medians is 1.5."""
        pairs = [(1.0, 2.0), (4.0, 1.0), (3.0, 3.0)]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            peer_torch.print_line("mask", "forward", 1, 8, 16, pairs)
        line = json.loads(out.getvalue())
        self.assertEqual((line["peer_ms"], line["sia_ms"], line["peer_over_sia"]), (3000.0, 2000.0, 1.0))
        arguments = types.SimpleNamespace(rounds=3, peers=["mask"], heads=[1], head_dim=[8], len=[16])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            peer_torch.print_table(arguments, {(1, 8, 16): {("mask", "forward"): pairs}}, {})
        self.assertEqual(out.getvalue().splitlines()[-1].split()[-1], "1.00")

    def test_tables(self):
        """The peers are checked with the tables that they use: those must be the ones of sia's schemes."""
        shape = peer_torch.Shape(torch, 2, 8, 16)
        for t in range(16):
            logarithm = math.log(t / 10 + 1)
            self.assertAlmostEqual(shape.scale.values[t], math.sqrt(2 * logarithm + 1))
            self.assertAlmostEqual(shape.bias.values[t], -2 * logarithm)
            for head, slope in enumerate((2**-4, 2**-8)):
                self.assertAlmostEqual(shape.matrix("alibi").values[0][head][15][15 - t], -slope * t)

    def test_sample(self):
        """Calls of 8 ms: three make a sample of 20."""
        clock = [5.0]

        def run():
            clock[0] += 0.008

        with mock.patch.object(peer_torch.time, "perf_counter", lambda: clock[0]):
            self.assertAlmostEqual(peer_torch.measure(run), 0.008)
        self.assertAlmostEqual(clock[0], 5.024)


class Refusals(unittest.TestCase):
    def test_wrong_result(self):
        ran = Ran("--json", "--rounds", "1", STUB_WRONG="sdpa")
        self.assertEqual(ran.code, 0, ran.err)
        self.assertEqual({peer for peer, _ in ran.timed}, {"eager", "flex"})
        for peer in ("sdpa", "mask"):
            for which in BOTH:
                self.assertEqual(ran.refused[peer, which], "ValueError: its result is off by 5.0e-01")

    def test_old_pytorch(self):
        fused = "scaled_dot_product_attention came with PyTorch 2.0, and this is 1.13"
        words = {"sdpa": fused, "mask": fused, "flex": "flex_attention came with PyTorch 2.5, and this is 1.13"}
        ran = Ran("--json", "--rounds", "1", STUB_VERSION="1.13")
        self.assertEqual(ran.code, 0, ran.err)
        self.assertIn("PyTorch 1.13 (instruction set not told)", ran.err)
        self.assertEqual(set(ran.timed), {("eager", which) for which in BOTH})
        self.assertEqual(ran.refused, {(peer, which): words[peer] for peer in words for which in BOTH})
        ran = Ran("--rounds", "1", STUB_VERSION="1.13")
        for peer in words:
            self.assertIn("\n%s cannot do forward+backward and forward here: %s\n" % (peer, words[peer]), ran.out)

    def test_old_pytorch_model(self):
        ran = Ran("--model", STUB_VERSION="1.13")
        self.assertEqual(ran.code, 1)
        self.assertIn("peer_torch: --model wants PyTorch 2.4 or later, for rms_norm and fused Adam; this is 1.13\n", ran.err)
        self.assertEqual(ran.notes("sia"), [])


if __name__ == "__main__":
    if "SIA" not in os.environ:
        sys.exit("want the program's path in SIA")
    unittest.main()
