# SPDX-License-Identifier: MIT
"""The tokenizer: round trips, training, files."""

import os
import pathlib

import numpy as np
import pytest

import sia
from sia._stream import TextStream

TEXT = "the cat sat on the mat; the dog sat on the log. " * 20
TEXTS = [
    "",
    "the cat",
    "  héllo\n\n\twörld ",
    "日本語 🙂",
    "a\0b",
    "<|endoftext|>",
    b"\xff\xfe \x80 abc",
    bytes(range(256)),
]


@pytest.fixture(scope="module")
def tokenizer():
    return sia.Tokenizer.train([TEXT], 270)


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip(tokenizer, text):
    ids = tokenizer.encode(text)
    assert ids.dtype == np.uint32 and (ids < len(tokenizer)).all() and tokenizer.end_of_text not in ids
    data = text if isinstance(text, bytes) else text.encode()
    assert tokenizer.decode_bytes(ids) == data == b"".join(tokenizer.token(int(i)) for i in ids)
    assert tokenizer.decode(ids.tolist()) == data.decode("utf-8", "replace")


def test_training_is_a_function_of_the_texts(tokenizer, tmp_path):
    assert len(tokenizer) == 270 and len(tokenizer.encode(TEXT)) < len(TEXT) / 2
    again = sia.Tokenizer.train(iter([TEXT.encode()]), 270, threads=1)
    again.save(tmp_path / "tokenizer.json")
    for other in (sia.Tokenizer(tmp_path / "tokenizer.json"), sia.Tokenizer(str(tmp_path)),
                  sia.Tokenizer.parse((tmp_path / "tokenizer.json").read_text())):  # fmt: skip
        np.testing.assert_array_equal(other.encode(TEXT), tokenizer.encode(TEXT))
    assert tokenizer.special(tokenizer.end_of_text) == "<|endoftext|>" and tokenizer.special(65) is None


def test_hugging_face_reads_the_same(tokenizer, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer.save(tmp_path / "tokenizer.json")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in (TEXT, "  héllo\n\n\twörld ", "日本語 🙂"):
        assert theirs.encode(text).ids == tokenizer.encode(text).tolist()


def test_gpt2():
    data = os.environ.get("SIA_TEST_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared/data")
    folder = pathlib.Path(data) / "gpt2-tokenizer"
    if not folder.exists():
        pytest.skip("no GPT-2 tokenizer in %s" % folder)
    assert sia.Tokenizer(folder).encode("Hello world").tolist() == [15496, 995]


def test_errors(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="token 1 is 270, want ids below 270"):
        tokenizer.decode([1, 270])
    with pytest.raises(ValueError, match="ids: -1 to 3"):
        tokenizer.decode([3, -1])
    with pytest.raises(ValueError, match="ids: dtype float64, want integers"):
        tokenizer.decode([0.5])
    with pytest.raises(ValueError, match="ids: a masked array, want one without a mask"):
        tokenizer.decode(np.ma.masked_array([1, 2], [True, False]))
    with pytest.raises(OSError, match="missing"):
        sia.Tokenizer(tmp_path / "missing")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(sia.FormatError, match="bad.json"):
        sia.Tokenizer(tmp_path / "bad.json")
    with pytest.raises(ValueError, match="a vocabulary of 10: want 257"):
        sia.Tokenizer.train([TEXT], 10)
    with sia.Tokenizer.parse(_saved(tokenizer, tmp_path)) as other:
        pass
    with pytest.raises(ValueError, match="tokenizer: closed"):
        other.encode("a")


def _saved(tokenizer, folder):
    tokenizer.save(folder / "saved.json")
    return (folder / "saved.json").read_bytes()


def test_text_comes_in_whole_characters():
    stream = TextStream()
    data = "a🙂é".encode() + b"\xf0\x9fz\xff" + "é".encode()[:1]
    said = [stream.add(bytes([b])) for b in data]
    assert "".join(said) + stream.end() == "a🙂é\ufffd\ufffdz\ufffd"
    assert said[:6] == ["a", "", "", "", "🙂", ""]


def test_text_ends_before_the_stop_text():
    stream = TextStream("the end")
    said = []
    for piece in (b"so", b" th", b"is the", b" the", b" end and"):
        said.append(stream.add(piece))
    assert stream.stopped and said == ["so", " ", "this ", "the ", ""] and "".join(said) == "so this the "
    assert TextStream("xyz").add(b"ab") == "ab"
