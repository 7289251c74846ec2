# SPDX-License-Identifier: MIT
"""Models: the tensors of a checkpoint, the loss of a text, generation; on sessions, which are texts going through a
model with a KV cache.

    model = sia.Model("runs/first")
    model.tensors["unembedding.weight"]                  # float32 [vocabulary, width], the model's own memory
    model.loss("It was a dark and stormy night.")        # nats a token
    model.generate("It was a dark", tokens=50)"""

import os
import threading
import weakref
from pathlib import Path as FilePath
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import numpy as np

from ._arrays import FLOAT, dense, pointer
from ._errors import ArgumentError, call
from ._library import Handle, Path, c_string, cache_type, choice, fill_struct, names, path_bytes, text
from ._sia import ffi, lib
from ._stream import TextStream
from ._tokenizer import Tokenizer, ids_array, ids_pointer

PIECE = 8192  # tokens of a long text in one call: between two of them Ctrl-C is heard
INITS = {"paper": lib.SIA_INIT_PAPER, "narrow": lib.SIA_INIT_NARROW}
LEAST = np.finfo(FLOAT).min

Text = Union[str, bytes]


class _View:
    """Memory of a model for NumPy, which holds this object, which holds the model."""

    def __init__(self, model: Any, tensor: Any) -> None:
        shape = (tensor.columns,) if tensor.rows == 1 else (tensor.rows, tensor.columns)
        address = int(ffi.cast("uintptr_t", tensor.value))
        self.model = model
        self.__array_interface__ = {"version": 3, "typestr": "<f4", "shape": shape, "data": (address, False)}


def _settings(config: Any) -> Dict[str, Any]:
    values = {name: getattr(config, name) for name, _ in ffi.typeof("sia_model_config").fields}
    values["scheme"] = text(config.scheme)
    values["init"] = {number: name for name, number in INITS.items()}[config.init]
    return values


def _find_tokenizer(path: Path) -> Optional[FilePath]:
    """The tokenizer.json of a run, from the path of the run, of a checkpoint in it, or of a checkpoint's file."""
    place = FilePath(os.fsdecode(path)).absolute()
    for folder in [place, *place.parents][:3]:
        if (folder / "tokenizer.json").is_file():
            return folder / "tokenizer.json"
    return None


class Model(Handle):
    """path: the folder of a run (its newest checkpoint that is whole), of one checkpoint, or a model.safetensors.

    tokenizer: one that is open, or its path; left out, that of the run is taken where there is one. threads: 0 for
    all processors; results do not depend on it. Several threads may use a model as long as nobody changes its
    tensors."""

    _name = "model"
    tokenizer: Optional[Tokenizer]

    def __init__(self, path: Path, *, tokenizer: Union[Tokenizer, Path, None] = None, threads: int = 0) -> None:
        place = ffi.new("sia_model **")
        call(lib.sia_model_open, place, path_bytes(path), threads)
        self._own(place[0], None)
        found = tokenizer if tokenizer is not None else _find_tokenizer(path)
        if found is not None:
            self.tokenizer = found if isinstance(found, Tokenizer) else Tokenizer(found)

    def _own(self, model: Any, tokenizer: Optional[Tokenizer]) -> None:
        self._pointer = ffi.gc(model, lib.sia_model_destroy)
        self._sessions: Any = weakref.WeakSet()
        self.tokenizer = tokenizer

    @staticmethod
    def presets() -> List[str]:
        """The names of the presets."""
        return names(lib.sia_model_presets())

    @classmethod
    def create(cls, preset: str = "tiny", *, tokenizer: Optional[Tokenizer] = None, threads: int = 0,
               **settings: Any) -> "Model":  # fmt: skip
        """A new model, its weights drawn by the seed. Settings (layers, width, heads, vocabulary, scheme, seed, ...)
        take the place of the preset's."""
        config, place = ffi.new("sia_model_config *"), ffi.new("sia_model **")
        call(lib.sia_model_preset, c_string(preset, "preset"), config)
        if "init" in settings:
            settings["init"] = choice("init", settings["init"], INITS, "paper or narrow")
        if "scheme" in settings:
            settings["scheme"] = c_string(settings["scheme"], "scheme")
            if len(settings["scheme"]) >= lib.SIA_SCHEME_NAME:
                raise ArgumentError("scheme %s: too long" % settings["scheme"].decode("utf-8", "replace"))
        fill_struct(config, "model", settings)
        call(lib.sia_model_create, place, config, threads)
        model = cls.__new__(cls)
        model._own(place[0], tokenizer)
        return model

    @property
    def settings(self) -> Dict[str, Any]:
        """Its configuration, defaults filled in."""
        return _settings(lib.sia_model_settings(self._open))

    @property
    def size(self) -> int:
        """Parameters in all."""
        return lib.sia_model_size(self._open)

    @property
    def tensors(self) -> Mapping[str, np.ndarray]:
        """Its tensors by name, float32 [rows, columns] or [n]: the model's own memory. They may be changed between
        calls (not while a session is open), and stay valid after close()."""
        model = self._open
        found = [lib.sia_model_tensor(model, i) for i in range(lib.sia_model_tensors(model))]
        return {text(tensor.name): np.asarray(_View(model, tensor)) for tensor in found}

    def set_scheme(self, scheme: str, eval_len: int = 0) -> None:
        """Attention by this scheme from now on, for texts of up to eval_len tokens (the training length): NTK and
        YaRN for a model that was trained with rope. No session may be open."""
        if self._sessions:
            raise ArgumentError("set_scheme: %d of the model's sessions open, want none" % len(self._sessions))
        length = eval_len or self.settings["train_len"]
        call(lib.sia_model_set_scheme, self._open, c_string(scheme, "scheme"), length)

    def session(self, cache: str = "f32") -> "Session":
        """A new text; the type of its KV cache is "f32", "f16" or "int8"."""
        return Session(self, cache)

    # ------------------------------------------------------------------------------------------------ loss

    def losses(self, ids: Any, *, cache: str = "f32") -> np.ndarray:
        """float32 [n - 1]: the cross entropy, in nats, of each of ids[1:] after those before it."""
        array = ids_array(ids)
        if len(array) < 2:
            raise ArgumentError("ids: %d tokens, want 2 or more: one to read, one to predict" % len(array))
        with self.session(cache) as session:
            return session.losses(array[:-1], array[1:])

    def loss(self, value: Text, *, cache: str = "f32") -> float:
        """The mean loss of a text's tokens, in nats, the text being a document: end-of-text stands before it."""
        tokenizer = self._want_tokenizer()
        ids = np.concatenate([np.array([tokenizer.end_of_text], np.uint32), tokenizer.encode(value)])
        return float(self.losses(ids, cache=cache).mean(dtype=np.float64))

    def _want_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ArgumentError("no tokenizer.json beside the model: want Model(path, tokenizer=...)")
        return self.tokenizer

    # ---------------------------------------------------------------------------------------------- generation

    def generate(self, prompt: Text = "", *, tokens: int = 200, **options: Any) -> str:
        """Text that goes on from the prompt (none: a new document), until it ends or has `tokens` tokens. The same
        for the same model, prompt and options. Options:
            temperature     0.8; 0: always the likeliest token
            top_k, top_p    only the k likeliest; only the likeliest whose probabilities reach p
            seed            another seed, another text
            stop            end before this text
            ignore_end      never end the document
            cache           "f32", "f16" or "int8" """
        return "".join(self.stream(prompt, tokens=tokens, **options))

    def stream(self, prompt: Text = "", *, tokens: int = 200, stop: Text = "", **options: Any) -> Iterator[str]:
        """The same, piece by piece as it comes, in whole characters."""
        tokenizer = self._want_tokenizer()
        ids = tokenizer.encode(prompt) if prompt else [tokenizer.end_of_text]
        stream = TextStream(stop)
        for token in self.generate_ids(ids, tokens=tokens, **options):
            piece = stream.add(tokenizer.token(token))
            if piece:
                yield piece
            if stream.stopped:
                return
        last = stream.end()
        if last:
            yield last

    def generate_ids(self, ids: Any, *, tokens: int = 200, temperature: float = 0.8, top_k: int = 0, top_p: float = 1,
                     seed: int = 0, ignore_end: bool = False, cache: str = "f32") -> Iterator[int]:  # fmt: skip
        """Ids that follow ids [n], one by one; 0 tokens: without an end. With a tokenizer, no special token is drawn
        but end-of-text, which ends it."""
        if tokens < 0:
            raise ArgumentError("tokens %d: want 0 or more" % tokens)
        limit, forbidden, end = self._drawn(ignore_end)
        with self.session(cache) as session:
            logits = session.feed(ids)
            count = 0
            while True:
                logits[forbidden] = LEAST
                token = sample(logits[:limit], count, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
                if token == end:
                    return
                count += 1
                yield token
                if count == tokens:
                    return
                session.feed([token], out=logits)

    def _drawn(self, ignore_end: bool) -> Tuple[int, List[int], int]:
        """Ids that may be drawn are below the first number and not in the list; the last one ends the text."""
        vocabulary = self.settings["vocabulary"]
        if self.tokenizer is None:
            return vocabulary, [], -1
        size, end = len(self.tokenizer), self.tokenizer.end_of_text
        if size > vocabulary:
            sentence = "the tokenizer has %d tokens, the model's vocabulary ends at %d"
            raise ArgumentError(sentence % (size, vocabulary))
        special = [i for i in range(size) if self.tokenizer.special(i) is not None]
        return size, [i for i in special if ignore_end or i != end], end


class Session(Handle):
    """A text going through a model: chunk by chunk, or token by token. Memory is that of the KV cache, and a
    constant. It takes the weights as they are when it is made."""

    _name = "session"

    def __init__(self, model: Model, cache: str = "f32") -> None:
        place, borrowed = ffi.new("sia_session **"), model._open
        call(lib.sia_session_create, place, borrowed, cache_type(cache))
        self._pointer = ffi.gc(place[0], lambda s, _=borrowed: lib.sia_session_destroy(s))
        model._sessions.add(self._pointer)
        self._vocabulary = lib.sia_model_settings(borrowed).vocabulary
        self._lock = threading.Lock()  # the library wants one thread at a time

    def feed(self, ids: Any, *, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Appends ids [n], n > 0; gives the logits of what comes next, float32 [vocabulary]."""
        array = ids_array(ids)
        logits = np.empty(self._vocabulary, FLOAT) if out is None else out
        place = dense("out", logits, (self._vocabulary,), write=True)
        self._feed(array, None, None, place)
        return logits

    def losses(self, ids: Any, targets: Any) -> np.ndarray:
        """Appends ids [n]; float32 [n], the cross entropy of targets[i] after ids[i], in nats."""
        array, wanted = ids_array(ids), ids_array(targets, "targets")
        if len(array) != len(wanted):
            raise ArgumentError("targets: %d, want as many as ids, %d" % (len(wanted), len(array)))
        losses = np.empty(len(array), FLOAT)
        self._feed(array, wanted, losses, ffi.NULL)
        return losses

    def _feed(self, ids: np.ndarray, targets: Optional[np.ndarray], losses: Optional[np.ndarray], logits: Any) -> None:
        with self._lock:
            before = len(self)
            try:
                for at in range(0, max(len(ids), 1), PIECE):
                    part = slice(at, at + PIECE)
                    wanted = ffi.NULL if targets is None else ids_pointer(targets[part])
                    place = ffi.NULL if losses is None else pointer(losses[part])
                    n, last = len(ids[part]), at + PIECE >= len(ids)
                    call(lib.sia_session_feed, self._open, ids_pointer(ids[part]), n, wanted, place,
                         logits if last else ffi.NULL)  # fmt: skip
            except BaseException:
                call(lib.sia_session_truncate, self._open, before)  # all or nothing, as the library does it
                raise

    def __len__(self) -> int:
        """Tokens so far."""
        return lib.sia_session_length(self._open)

    @property
    def nbytes(self) -> int:
        """Of its caches and buffers."""
        return lib.sia_session_bytes(self._open)

    def truncate(self, length: int) -> None:
        """Forgets all tokens from length on."""
        with self._lock:
            call(lib.sia_session_truncate, self._open, length)


def sample(logits: np.ndarray, index: int = 0, *, temperature: float = 0, top_k: int = 0, top_p: float = 1,
           seed: int = 0) -> int:  # fmt: skip
    """The next token, from logits float32 [n]; index counts the tokens drawn so far. A pure function."""
    sampling = ffi.new("sia_sampling *")
    fill_struct(sampling, "sampling", {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed})
    place = dense("logits", logits, getattr(logits, "shape", ())[:1])
    token = ffi.new("uint32_t *")
    call(lib.sia_sample, place, len(logits), sampling, index, token)
    return token[0]
