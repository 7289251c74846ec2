# SPDX-License-Identifier: MIT
"""What the library says of itself, and small things that all parts use: names, paths, handles."""

import os
from typing import Any, List, Mapping, TypeVar, Union

from ._arrays import plain
from ._errors import ArgumentError
from ._sia import ffi, lib

Path = Union[str, bytes, "os.PathLike[str]"]

CACHE_TYPES = {"f32": lib.SIA_F32, "f16": lib.SIA_F16, "int8": lib.SIA_I8, "i8": lib.SIA_I8}


def version() -> str:
    """The version of the library."""
    return text(lib.sia_version())


def isa() -> str:
    """The instruction set in use; the environment's SIA_ISA, read once, overrides the choice."""
    return text(lib.sia_isa())


def schemes() -> List[str]:
    """The canonical names of the schemes that the paper compares, its ablations and the control."""
    return names(lib.sia_scheme_list())


def text(chars: Any) -> str:
    return ffi.string(chars).decode("utf-8")


def names(array: Any) -> List[str]:
    """A list of C strings that ends by NULL."""
    found: List[str] = []
    while array[len(found)] != ffi.NULL:
        found.append(text(array[len(found)]))
    return found


def path_bytes(path: Path) -> bytes:
    return c_string(os.fsencode(path), "path")


def c_string(value: Union[str, bytes], name: str) -> bytes:
    """For a const char *: a 0 within would cut it silently."""
    if not isinstance(value, (str, bytes)):
        raise ArgumentError("%s: %s, want a text" % (name, type(value).__name__))
    data = value.encode("utf-8") if isinstance(value, str) else value
    if b"\0" in data:
        raise ArgumentError("%s %r: holds a 0 byte" % (name, value))
    return data


def choice(what: str, word: Any, table: Mapping[str, int], wanted: str) -> int:
    """The number of one of a table's words."""
    if not isinstance(word, str) or word not in table:
        raise ArgumentError("%s %r: want %s" % (what, word, wanted))
    return table[word]


def cache_type(name: str) -> int:
    return choice("cache type", name, CACHE_TYPES, "f32, f16 or int8")


def fill_struct(struct: Any, what: str, values: Any) -> None:
    """Sets fields by name. What does not fit its C type is a ValueError, as any other bad value."""
    for name, value in values.items():
        try:
            setattr(struct, name, plain(name, value))
        except AttributeError:
            raise ArgumentError("%s: no setting is called %r" % (what, name)) from None
        except OverflowError:
            raise ArgumentError("%s %r: outside the range of its type" % (name, value)) from None
        except TypeError:
            real = dict(ffi.typeof(struct).item.fields)[name].type.cname == "double"
            wanted = "a number" if real else "an integer"
            raise ArgumentError("%s: %s, want %s" % (name, type(value).__name__, wanted)) from None


Kind = TypeVar("Kind", bound="Handle")


class Handle:
    """An object that owns one of the library's, until close(), the end of a `with`, or its own end.

    Views and objects that borrow it hold the pointer too, and with it the memory: closing never leaves them on
    memory that is gone."""

    _name = "object"
    _pointer: Any = None

    @property
    def _open(self) -> Any:
        if self._pointer is None:
            raise ArgumentError("%s: closed" % self._name)
        return self._pointer

    def close(self) -> None:
        """Lets go of it; calling it again does nothing."""
        self._pointer = None

    def __reduce__(self) -> Any:
        """For copy and pickle: the default would say only that cffi's pointers have no copies."""
        raise TypeError("%s: has no copies and cannot go to another process; want it made there" % self._name)

    def __enter__(self: Kind) -> Kind:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
