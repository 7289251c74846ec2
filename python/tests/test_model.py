# SPDX-License-Identifier: MIT
"""Models: tensors, losses, sessions and text, against the program and other readers of its files."""

import gc
import json
import math

import numpy as np
import pytest

import sia


@pytest.fixture(scope="module")
def small():
    model = sia.Model.create("tiny", layers=2, width=32, heads=2, head_dim=16, hidden=64, vocabulary=300, threads=1)
    rng = np.random.default_rng(3)
    for tensor in model.tensors.values():  # a new model's unembedding is 0: nothing could be told apart
        tensor += 0.1 * rng.standard_normal(tensor.shape).astype(np.float32)
    return model


@pytest.fixture(scope="module")
def ids():
    return np.random.default_rng(5).integers(0, 300, 200).astype(np.uint32)


# ----------------------------------------------------------------------------------------------- without a program


def test_a_new_model_knows_nothing():
    model = sia.Model.create("tiny", vocabulary=500, seed=3)
    assert model.settings["vocabulary"] == 500 and model.settings["seed"] == 3 and "tiny" in model.presets()
    assert model.size == sum(tensor.size for tensor in model.tensors.values())
    np.testing.assert_allclose(model.losses([1, 2, 3]), math.log(500), rtol=1e-6)


def test_losses_are_those_of_the_logits(small, ids):
    losses = small.losses(ids)
    with small.session() as session:
        for i in range(len(ids) - 1):
            logits = session.feed(ids[i : i + 1]).astype(np.float64)
            want = np.log(np.exp(logits).sum()) - logits[ids[i + 1]]
            assert abs(losses[i] - want) < 1e-4
        assert len(session) == 199 and session.nbytes > 0


def test_losses_in_pieces(small, ids, monkeypatch):
    want = small.losses(ids)
    monkeypatch.setattr(sia._model, "PIECE", 64)
    np.testing.assert_allclose(small.losses(ids), want, atol=1e-5)
    with small.session() as session, pytest.raises(ValueError, match="token 300"):
        session.feed([7])
        try:
            session.feed(np.append(ids, 300))
        finally:
            assert len(session) == 1


def test_a_session_goes_back(small, ids):
    with small.session("f16") as session:
        session.feed(ids[:50])
        first = session.feed(ids[50:60])
        session.truncate(50)
        np.testing.assert_array_equal(session.feed(ids[50:60]), first)


def test_weights_can_be_changed(ids):
    model = sia.Model.create("tiny", vocabulary=300)
    before = model.losses(ids)
    model.tensors["unembedding.weight"][:] = 0.1 * model.tensors["embedding.weight"]
    assert np.abs(model.losses(ids) - before).max() > 0.01


def test_tensors_outlive_the_model():
    with sia.Model.create("tiny", vocabulary=300) as model:
        tensor = model.tensors["embedding.weight"]
        before = tensor.copy()
    del model
    gc.collect()
    filler = [sia.Model.create("tiny", vocabulary=300, seed=i) for i in range(1, 4)]
    np.testing.assert_array_equal(tensor, before)
    assert len(filler) == 3


def test_schemes_of_evaluation(ids):
    model = sia.Model.create("tiny", vocabulary=300, scheme="rope")
    session = model.session()
    with pytest.raises(ValueError, match="set_scheme: 1 of the model's sessions open"):
        model.set_scheme("rope+ntk", 1024)
    session.close()
    model.set_scheme("rope+ntk", 1024)
    assert len(model.losses(ids)) == 199


def test_generation_without_a_tokenizer(small):
    one = list(small.generate_ids([1, 2], tokens=20, seed=1))
    assert one == list(small.generate_ids([1, 2], tokens=20, seed=1)) and len(one) == 20
    assert one != list(small.generate_ids([1, 2], tokens=20, seed=2))
    likeliest = list(small.generate_ids([1, 2], tokens=1, temperature=0))
    assert likeliest == [int(small.session().feed([1, 2]).argmax())]


def test_sampling():
    logits = np.array([0, 3, 1, 3], np.float32)
    assert sia.sample(logits) == 1
    drawn = [sia.sample(logits, i, temperature=1.0, seed=9) for i in range(4000)]
    want = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4000, want, atol=0.03)
    assert {sia.sample(logits, i, temperature=1.0, top_k=2) for i in range(50)} == {1, 3}


BAD = [
    (lambda m: m.losses([1]), "ids: 1 tokens, want 2 or more"),
    (lambda m: m.losses([1, 300]), "token 300: the vocabulary ends at 300"),
    (lambda m: m.session().feed([]), "0 tokens after 0: want 1 to"),
    (lambda m: m.session().feed([[1]]), r"ids: shape \[1, 1\], want \[n\]"),
    (lambda m: m.session().losses([1, 2], [1]), "targets: 1, want as many as ids, 2"),
    (lambda m: m.session().feed([1], out=np.empty(3, np.float32)), r"out: shape \[3\], want \[300\]"),
    (lambda m: m.session("f8"), "cache type 'f8'"),
    (lambda m: m.session().truncate(5), "length 5: the session holds 0 tokens"),
    (lambda m: m.loss("text"), "no tokenizer.json beside the model"),
    (lambda m: sia.Model.create("huge"), "huge"),
    (lambda m: sia.Model.create("tiny", vocabulary=-1), "vocabulary -1: outside the range"),
    (lambda m: sia.Model.create("tiny", scheme="si" * 40), "scheme .*: too long"),
    (lambda m: sia.sample(np.ones(3)), "logits: dtype float64"),
    (lambda m: sia.sample(np.ones(3, np.float32), temperature=-1.0), "temperature"),
]


@pytest.mark.parametrize("function, sentence", BAD)
def test_a_bad_call_is_a_value_error(small, function, sentence):
    with pytest.raises(ValueError, match=sentence):
        function(small)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="nothing"):
        sia.Model(tmp_path / "nothing")
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(sia.FormatError, match="model.safetensors"):
        sia.Model(tmp_path / "model.safetensors")


# -------------------------------------------------------------------------------------------------- with the program


def newest(run_folder):
    return sorted(run_folder.glob("step-*"))[-1]


def test_tensors_are_those_of_the_file(run_folder):
    safetensors = pytest.importorskip("safetensors.numpy")
    stored = safetensors.load_file(newest(run_folder) / "model.safetensors")
    for path in (run_folder, newest(run_folder), newest(run_folder) / "model.safetensors"):
        model = sia.Model(path)
        assert model.tokenizer is not None and set(model.tensors) == set(stored)
        for name, tensor in model.tensors.items():
            np.testing.assert_array_equal(tensor, stored[name], err_msg=name)


def test_loss_is_that_of_the_program(program, run_folder, tmp_path):
    model = sia.Model(run_folder)
    text = program("data", "generate", "--words", 300, "--seed", 99)
    count = len(model.tokenizer.encode(text))
    (tmp_path / "text.txt").write_text(text)
    arguments = ["--data", tmp_path / "text.txt", "--lengths", count, "--windows", 1, "--json", "--quiet"]
    line = json.loads(program("eval", run_folder, *arguments).splitlines()[0])
    assert line["length"] == count and line["tokens"] == count
    assert abs(model.loss(text) - line["loss"]) < 6e-6  # it prints 6 digits
    assert model.loss(text) < math.log(512) - 0.1  # it has learned something


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0},
        {"seed": 5},
        {"seed": 6, "top_k": 20, "top_p": 0.9, "cache": "f16"},
        {"seed": 7, "stop": " "},
        {"seed": 8, "ignore_end": True},
        {"prompt": ""},
    ],
)
def test_text_is_that_of_the_program(program, run_folder, options):
    model = sia.Model(run_folder, threads=1)
    options = {"prompt": "The man went", "tokens": 60, **options}
    flags = []
    for name, value in options.items():
        flags += ["--" + name.replace("_", "-")] + ([] if value is True else [value])
    want = json.loads(program("generate", run_folder, "--json", "--quiet", *flags))
    text = model.generate(**options)
    assert text == want["text"] and text == "".join(model.stream(**options))
