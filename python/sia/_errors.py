# SPDX-License-Identifier: MIT
"""The library's statuses as exceptions: each holds the one sentence that the library said."""

from typing import Any, Dict, Type

from ._sia import ffi, lib


class Error(Exception):
    """Any failure of the library; status is its name there, such as "argument"."""

    status = "error"


class ArgumentError(Error, ValueError):
    """A value outside its range, a scheme that is not known, an array of the wrong shape, dtype or strides."""

    status = "argument"


class FileError(Error, OSError):
    """A file could not be opened, read or written."""


class FormatError(Error, ValueError):
    """A file does not hold what it should."""


class OutOfMemory(Error, MemoryError):
    """The system gave no memory."""


KINDS: Dict[int, Type[Error]] = {
    lib.SIA_ARGUMENT: ArgumentError,
    lib.SIA_SCHEME: ArgumentError,
    lib.SIA_MEMORY: OutOfMemory,
    lib.SIA_FILE: FileError,
    lib.SIA_FORMAT: FormatError,
}


def call(function: Any, *arguments: Any) -> None:
    """Calls a function of the library whose last parameter is a sia_error."""
    err = ffi.new("sia_error *")
    try:
        status = function(*arguments, err)
    except OverflowError as overflow:  # a number that its C type cannot hold
        raise ArgumentError(str(overflow)) from None
    if status == lib.SIA_OK:
        return
    error = KINDS.get(status, Error)(ffi.string(err.text).decode("utf-8", "replace"))
    error.status = ffi.string(lib.sia_status_name(status)).decode()
    raise error
