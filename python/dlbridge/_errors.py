"""The exceptions that functions of extensions raise for their arguments."""

from __future__ import annotations

from typing import Any

__all__ = ["TensorBorrowError", "TensorMismatchError"]

#: How PyO3 tells the name of an argument, behind the message.
BEFORE, AFTER = "while processing '", "'"

#: The attribute `args` of all exceptions.
ARGUMENTS: Any = vars(BaseException)["args"]


class _ArgumentError(Exception):
    """Puts the name of the argument in front of the message, when the message is first read.

    Code that tries one function after another never reads it.
    """

    _note: str | None = None
    _argument: str | None = None

    def add_note(self, note: str, /) -> None:
        if self._note is None and note.startswith(BEFORE):
            self._note = note
        else:
            super().add_note(note)

    def _name(self) -> None:
        note = self._note
        if note is None or note == "":
            return
        self._note = ""
        name = note[len(BEFORE) : -len(AFTER)]
        if note != BEFORE + name + AFTER or not name.isidentifier():
            super().add_note(note)
            return
        self._argument = name
        ARGUMENTS.__set__(self, (f"argument '{name}': {ARGUMENTS.__get__(self)[0]}",))

    @property
    def argument(self) -> str | None:
        """The name of the argument, if it is known."""
        self._name()
        return self._argument

    @property
    def args(self) -> tuple[Any, ...]:
        self._name()
        found: tuple[Any, ...] = ARGUMENTS.__get__(self)
        return found

    @args.setter
    def args(self, arguments: tuple[Any, ...]) -> None:
        self._name()
        ARGUMENTS.__set__(self, arguments)

    def __str__(self) -> str:
        self._name()
        return super().__str__()

    def __repr__(self) -> str:
        self._name()
        return super().__repr__()

    def __reduce__(self) -> Any:
        self._name()
        return super().__reduce__()


class TensorMismatchError(_ArgumentError, TypeError):
    """A tensor is another one than a function takes: all that is different is in the message."""

    __module__ = "dlbridge"


class TensorBorrowError(_ArgumentError, BufferError):
    """The memory of a tensor is borrowed by somebody else, to be written or to be read."""

    __module__ = "dlbridge"
