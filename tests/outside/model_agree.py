# SPDX-License-Identifier: MIT
"""Does the same model in PyTorch (bench/peer_model.py) have our loss and our gradients? Needs torch and safetensors.

    python3 tests/outside/model_agree.py build/release/sia build/release/tests/model/gradient_tool

For each scheme 'sia train' trains a small model for some steps, so that no tensor is zero. Hugging Face's safetensors opens
its weights; the loss and the gradient of every tensor on one random batch are compared with PyTorch's in float32, and
with PyTorch's in float64, which tells who of the two is nearer.
    error of a tensor = largest |ours - theirs| / largest |theirs|;  want 1e-4
The state of the optimiser is opened too: a tensor for each weight, of its shape, finite.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
from peer_model import Model  # noqa: E402

SCHEMES = ["si+prope", "si+rope", "si+nope", "rope", "prope", "nope", "ntk", "yarn", "logn+rope", "logn+prope", "logn+ntk",
           "alibi", "sharp+prope", "logn+si+prope"]
SHAPE = {"layers": 3, "width": 64, "heads": 4, "vocabulary": 320, "train-len": 64, "batch": 4}
BOUND = 1e-4


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(command), done.stderr.strip()))


def checkpoint(sia, folder, scheme):
    out = os.path.join(folder, scheme)
    shape = [word for name, value in SHAPE.items() for word in ("--" + name, str(value))]
    run([sia, "train", "--out", out, "--scheme", scheme, "--quiet", "--steps", "30", "--lengths", "1x", "--eval-windows", "2"] + shape)
    return os.path.join(out, "step-000030")


def gradients(config, weights, ids, targets, dtype):
    model = Model(config, {name: w.clone() for name, w in weights.items()}, ids.shape[1], dtype)
    loss = model.loss(ids, targets)
    loss.backward()
    return loss.item(), {name: w.grad for name, w in model.weights.items()}


def optimizer_fits(path, weights):
    """Adam has m and v of a weight, Muon its momentum."""
    with safe_open(os.path.join(path, "optimizer.safetensors"), "pt") as file:
        states = {name: file.get_tensor(name) for name in file.keys()}
    owners = {name.rsplit(".", 1)[0] for name in states}
    return owners == set(weights) and all(torch.isfinite(s).all() and s.numel() == weights[name.rsplit(".", 1)[0]].numel() for name, s in states.items())


def agree(sia, tool, folder, scheme):
    path = checkpoint(sia, folder, scheme)
    model_file, out = os.path.join(path, "model.safetensors"), os.path.join(folder, "gradients.safetensors")
    run([tool, path, "4", "64", out])
    with safe_open(model_file, "pt") as file:
        config = json.loads(file.metadata()["model"])
    weights = load_file(model_file)
    with safe_open(out, "pt") as file:
        loss = float(file.metadata()["loss"])
    ours = load_file(out)
    ids, targets = ours.pop("ids").long(), ours.pop("targets").long()
    their_loss, theirs = gradients(config, weights, ids, targets, torch.float32)
    exact_loss, exact = gradients(config, weights, ids, targets, torch.float64)
    error = lambda a, b, name: ((a[name].double() - b[name].double()).abs().max() / b[name].double().abs().max()).item()
    with_theirs = {name: error(ours, theirs, name) for name in theirs}
    worst = max(with_theirs, key=with_theirs.get)
    ours_exact = max(error(ours, exact, name) for name in exact)
    theirs_exact = max(error(theirs, exact, name) for name in exact)
    loss_error = abs(loss - their_loss) / abs(their_loss)
    good = loss_error < BOUND and with_theirs[worst] < BOUND and optimizer_fits(path, weights) and set(ours) == set(theirs)
    print("%-14s loss %.6f, off by %.1e; gradients of %d tensors off by %.1e (%s); from float64: sia %.1e, PyTorch %.1e: %s"
          % (scheme, loss, loss_error, len(theirs), with_theirs[worst], worst, ours_exact, theirs_exact, "agrees" if good else "DIFFERENT"), flush=True)
    return good


def main():
    torch.set_num_threads(1)
    sia, tool = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        results = [agree(sia, tool, folder, scheme) for scheme in SCHEMES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
