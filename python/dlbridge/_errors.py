"""The exceptions that functions of extensions raise for their arguments."""

from __future__ import annotations

__all__ = ["TensorBorrowError", "TensorMismatchError"]

#: How PyO3 tells the name of an argument, behind the message.
BEFORE, AFTER = "while processing '", "'"


class _ArgumentError(Exception):
    #: The name of the argument, once it is known.
    argument: str | None = None

    def add_note(self, note: str, /) -> None:
        """Put the name of the argument in front of the message, where it is read."""
        name = note[len(BEFORE) : -len(AFTER)]
        if self.argument is not None or note != BEFORE + name + AFTER or not name.isidentifier():
            super().add_note(note)
            return
        self.argument = name
        self.args = (f"argument '{name}': {self.args[0]}",)


class TensorMismatchError(_ArgumentError, TypeError):
    """A tensor is another one than a function takes: all that is different is in the message."""

    __module__ = "dlbridge"


class TensorBorrowError(_ArgumentError, BufferError):
    """The memory of a tensor is borrowed by somebody else, to be written or to be read."""

    __module__ = "dlbridge"
