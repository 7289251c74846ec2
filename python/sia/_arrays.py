# SPDX-License-Identifier: MIT
"""NumPy arrays as the library sees them: an address, a shape, and one stride.

An array [batch, length, heads, head_dim] of float32 may have any step from one position to the next that is at least
a row; all else must be dense, batch after batch. [length, heads, head_dim] is a batch of one."""

import itertools
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._errors import ArgumentError
from ._sia import ffi

Shape = Tuple[int, ...]
FLOAT = np.dtype(np.float32)


def refuse_mask(name: str, array: Any) -> None:
    """The values under a mask would count: the library knows of no mask."""
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError("%s: a masked array, want one without a mask, such as its filled(0)" % name)


def plain(name: str, value: Any) -> Any:
    """A number of NumPy or PyTorch, also a 0-d array, as Python's own; what is no array, as it is."""
    if not hasattr(value, "shape"):
        return value
    refuse_mask(name, value)
    if value.shape != ():
        raise ArgumentError("%s: shape %s, want one number" % (name, list(value.shape)))
    return value.item()


def check_float(name: str, array: Any, write: bool) -> None:
    if not isinstance(array, np.ndarray):
        raise ArgumentError("%s: %s, want a NumPy array of float32" % (name, type(array).__name__))
    refuse_mask(name, array)
    if array.dtype != FLOAT:
        raise ArgumentError("%s: dtype %s, want float32" % (name, array.dtype))
    if not array.flags.aligned:
        raise ArgumentError("%s: want an array aligned to 4 bytes" % name)
    if write and not array.flags.writeable:
        raise ArgumentError("%s: read-only, want an array to write to" % name)


def pointer(array: Optional[np.ndarray]) -> Any:
    """Its address; the caller keeps the array alive during the call."""
    return ffi.NULL if array is None else ffi.cast("float *", array.__array_interface__["data"][0])


def refuse_overlap(out: Any, **inputs: Any) -> None:
    """What is written may not be read: rows that are done would change those that are not."""
    for name, array in inputs.items():
        if np.shares_memory(out, array):
            raise ArgumentError("out: shares memory with %s, want an array of its own" % name)


def dense(name: str, array: Any, shape: Sequence[int], write: bool = False) -> Any:
    """The address of a dense array of float32 that must have this shape; NULL for None."""
    if array is None:
        return ffi.NULL
    check_float(name, array, write)
    if array.shape != tuple(shape):
        raise ArgumentError("%s: shape %s, want %s" % (name, list(array.shape), list(shape)))
    if not array.flags.c_contiguous:
        raise ArgumentError("%s: strides %s, want a dense array" % (name, array.strides))
    return pointer(array)


def row_stride(name: str, array: np.ndarray) -> int:
    """Floats from one position to the next of [batch, length, heads, head_dim]; the library checks that it is at
    least a row. Strides of axes of length 1 mean nothing."""
    batch, length, heads, dim = array.shape
    of_batch, of_row, of_head, of_float = array.strides
    row = dim * heads * 4
    if array.size == 0:
        return row // 4  # the library refuses the length
    step = of_row if length > 1 else of_batch if batch > 1 else row
    within = (dim == 1 or of_float == 4) and (heads == 1 or of_head == dim * 4)
    outside = step % 4 == 0 and step != 0 and (batch == 1 or of_batch == length * step)
    if not (within and outside):
        raise ArgumentError(
            "%s: strides %s bytes, want an array that is dense but for the step from one position to the next, "
            "such as np.ascontiguousarray makes, or sia.torch with convert=True" % (name, array.strides)
        )
    return step // 4


def gradient_places(arrays: Mapping[str, np.ndarray]) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Each array, and where its gradient goes, which the library puts at the stride of the array.

    By itself, the gradient of a slice of a packed qkv would take the room of three. Slices that fill their stride get
    slices of one packed array, too; one that has other neighbours becomes a dense copy, and has a dense gradient."""
    strides = {name: row_stride(name, array) for name, array in arrays.items()}
    rows = {name: array.shape[2] * array.shape[3] for name, array in arrays.items()}
    apart: Dict[Tuple[Shape, int], List[str]] = {}
    for name, array in arrays.items():
        if strides[name] > rows[name]:
            apart.setdefault((array.shape[:2], strides[name]), []).append(name)
    places: Dict[str, np.ndarray] = {}
    for (positions, stride), names in apart.items():
        if sum(rows[name] for name in names) == stride:
            ends = list(itertools.accumulate(rows[name] for name in names))
            parts = np.split(np.empty((*positions, stride), FLOAT), ends[:-1], axis=2)
            places.update((name, part.reshape(arrays[name].shape)) for name, part in zip(names, parts))
    for name, array in arrays.items():
        if name in places:
            yield array, places[name]
        else:
            copied = np.ascontiguousarray(array) if strides[name] > rows[name] else array
            yield copied, np.empty(array.shape, FLOAT)
