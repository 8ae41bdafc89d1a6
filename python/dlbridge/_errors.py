"""The exceptions that functions of extensions raise for their arguments."""

from __future__ import annotations

from typing import Any

__all__ = ["TensorBorrowError", "TensorMismatchError"]

#: The text before and after the name of an argument, in the note that PyO3 adds.
BEFORE, AFTER = "while processing '", "'"

#: The attribute `args` of all exceptions.
ARGUMENTS: Any = vars(BaseException)["args"]


class _ArgumentError(Exception):
    """Puts the name of the argument in front of the message, when the message is first read.

    Code that tries one function after another never reads the message. Until then the name stays in PyO3's note, which
    costs no Python call: a method `add_note` in Python would cost more than the exception.
    """

    __slots__ = ()

    _argument: str | None = None

    def _name(self) -> None:
        notes = getattr(self, "__notes__", None)
        if not isinstance(notes, list):
            return
        for note in notes:
            name = note[len(BEFORE) : -len(AFTER)] if isinstance(note, str) else ""
            if name.isidentifier() and note == BEFORE + name + AFTER and self._argument in (None, name):
                break
        else:
            return
        # The note is removed last: if a signal handler raises in between, the next reader still finds the name.
        before = f"argument '{name}': "
        arguments = ARGUMENTS.__get__(self)
        if arguments and not str(arguments[0]).startswith(before):
            ARGUMENTS.__set__(self, (f"{before}{arguments[0]}", *arguments[1:]))
        self._argument = name
        # The list is changed in place: code that shows the exception may hold it already, and another thread may read it.
        try:
            notes.remove(note)
            if not notes:
                del self.__notes__
        except (ValueError, AttributeError):
            return

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

    @args.deleter
    def args(self) -> None:
        # Raises the `TypeError` that every exception raises here.
        ARGUMENTS.__delete__(self)

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
    """A tensor does not meet the demands of a function; the message lists all differences."""

    __slots__ = ()
    __module__ = "dlbridge"


class TensorBorrowError(_ArgumentError, BufferError):
    """A tensor meets the demands of a function, but cannot be borrowed.

    Other code has borrowed its memory, several indices lead to one element that the function writes, or an element is
    not a value of its dtype.
    """

    __slots__ = ()
    __module__ = "dlbridge"
