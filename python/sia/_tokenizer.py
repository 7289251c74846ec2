# SPDX-License-Identifier: MIT
"""Byte-level BPE: text to ids and back, without loss for any bytes."""

from typing import Any, Iterable, Optional, Union

import numpy as np

from ._arrays import refuse_mask
from ._errors import ArgumentError, call
from ._library import Handle, Path, fill_struct, path_bytes, text
from ._sia import ffi, lib

Text = Union[str, bytes]


def _bytes(value: Text) -> bytes:
    """Lone surrogates, as os.fsdecode leaves them, become the bytes that they stand for."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)


def ids_array(ids: Any, name: str = "ids") -> np.ndarray:
    """A dense array of uint32 [n]; one that is so already is not copied."""
    refuse_mask(name, ids)
    array = np.asarray(ids)
    if array.ndim != 1:
        raise ArgumentError("%s: shape %s, want [n]" % (name, list(array.shape)))
    if array.size and array.dtype.kind not in "iu":
        raise ArgumentError("%s: dtype %s, want integers" % (name, array.dtype))
    if array.dtype != np.uint32 and array.size and not (0 <= array.min() and array.max() < 1 << 32):
        raise ArgumentError("%s: %d to %d, want 0 to 4294967295" % (name, array.min(), array.max()))
    return np.ascontiguousarray(array, np.uint32)


def ids_pointer(array: np.ndarray) -> Any:
    return ffi.cast("uint32_t *", array.__array_interface__["data"][0])


class Tokenizer(Handle):
    """path: a Hugging Face tokenizer.json, a folder with one, or a folder with GPT-2's files. Does not change once it
    is open: several threads may use it at once."""

    _name = "tokenizer"

    def __init__(self, path: Path) -> None:
        place = ffi.new("sia_tokenizer **")
        call(lib.sia_tokenizer_open, place, path_bytes(path))
        self._own(place[0])

    def _own(self, pointer: Any) -> None:
        self._pointer = ffi.gc(pointer, lib.sia_tokenizer_close)

    @classmethod
    def parse(cls, json: Text) -> "Tokenizer":
        """From what a tokenizer.json holds."""
        data, place = _bytes(json), ffi.new("sia_tokenizer **")
        call(lib.sia_tokenizer_parse, place, data, len(data))
        made = cls.__new__(cls)
        made._own(place[0])
        return made

    @classmethod
    def train(cls, texts: Iterable[Text], size: int, *, min_count: int = 0, threads: int = 0) -> "Tokenizer":
        """A vocabulary of `size` tokens from texts. The result depends on the texts alone."""
        held = [_bytes(value) for value in ([texts] if isinstance(texts, (str, bytes)) else texts)]
        array = ffi.new("sia_text[]", len(held))
        for place, data in zip(array, held):
            place.bytes, place.size = ffi.from_buffer(data), len(data)
        training = ffi.new("sia_tokenizer_training *")
        fill_struct(training, "training", {"size": size, "min_count": min_count, "threads": threads})
        place = ffi.new("sia_tokenizer **")
        call(lib.sia_tokenizer_train, place, training, array, len(held))
        made = cls.__new__(cls)
        made._own(place[0])
        return made

    def save(self, path: Path) -> None:
        """Writes a tokenizer.json, whole or not at all."""
        call(lib.sia_tokenizer_save, self._open, path_bytes(path))

    def __len__(self) -> int:
        """Ids are below it."""
        return lib.sia_tokenizer_size(self._open)

    @property
    def end_of_text(self) -> int:
        """The id that stands before every document."""
        return lib.sia_tokenizer_end_of_text(self._open)

    def special(self, id: int) -> Optional[str]:  # pylint: disable=redefined-builtin
        """A special token's name, such as "<|endoftext|>"; None for all other ids."""
        name = lib.sia_tokenizer_special(self._open, id)
        return None if name == ffi.NULL else text(name)

    def token(self, id: int) -> bytes:  # pylint: disable=redefined-builtin
        """The bytes of one token; none for a special one or an id outside the vocabulary."""
        length = ffi.new("size_t *")
        found = lib.sia_tokenizer_bytes(self._open, id, length)
        return bytes(ffi.buffer(found, length[0])) if length[0] else b""

    def encode(self, value: Text, *, threads: int = 1) -> np.ndarray:
        """The ids of a text, uint32 [n]. Special tokens never arise from text."""
        data, count = _bytes(value), ffi.new("size_t *")
        ids = np.empty(max(len(data), 1), np.uint32)
        call(lib.sia_tokenizer_encode_parallel, self._open, threads, data, len(data), ids_pointer(ids), count)
        return ids[: count[0]].copy()  # the room was for a token a byte

    def decode_bytes(self, ids: Any) -> bytes:
        """The bytes of ids [n]; special tokens have none."""
        array, size = ids_array(ids), ffi.new("size_t *")
        call(lib.sia_tokenizer_decode, self._open, ids_pointer(array), len(array), ffi.NULL, size)
        room = bytearray(size[0])
        if room:
            call(lib.sia_tokenizer_decode, self._open, ids_pointer(array), len(array), ffi.from_buffer(room), size)
        return bytes(room)

    def decode(self, ids: Any) -> str:
        """The text of ids [n]; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")
