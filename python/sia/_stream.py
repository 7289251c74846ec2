# SPDX-License-Identifier: MIT
"""The bytes of tokens to text: whole characters only, up to a stop text. Bytes that may begin the stop text wait until
that is decided, then those that may begin a character."""

import codecs
from typing import Tuple, Union


def _one_byte(error: UnicodeError) -> Tuple[str, int]:
    """U+FFFD for every byte that is no part of a character, as the program writes it."""
    assert isinstance(error, UnicodeDecodeError)
    return "\ufffd", error.start + 1


codecs.register_error("sia_one_byte", _one_byte)


class TextStream:
    def __init__(self, stop: Union[str, bytes] = "") -> None:
        self._stop = stop.encode("utf-8") if isinstance(stop, str) else stop
        self._held = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("sia_one_byte")
        self.stopped = False

    def add(self, data: bytes) -> str:
        """What can be said now. After the stop text came up, `stopped`, and nothing more is to be added."""
        self._held += data
        found = self._held.find(self._stop) if self._stop else -1
        if found >= 0:
            self.stopped = True
        return self._take(found if found >= 0 else len(self._held) - self._undecided())

    def end(self) -> str:
        """What was held back, but for a character that is not whole."""
        return self._take(len(self._held))

    def _take(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        return self._decoder.decode(taken)

    def _undecided(self) -> int:
        """How many bytes at the end may be the start of the stop text."""
        for count in range(min(len(self._stop) - 1, len(self._held)), 0, -1):
            if self._stop.startswith(self._held[-count:]):
                return count
        return 0
