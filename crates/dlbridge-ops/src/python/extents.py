"""The shapes of an operator's outputs, from shapes with integers or symbols."""

from __future__ import annotations

from typing import Any


def shapes(function: Any, shapes: list[Any], attributes: list[Any], check: Any = None) -> list[Any]:
    """Return the shape of each output, None where the function decides.

    `shapes` has a shape for each parameter that is a tensor, and None otherwise; `attributes` the values of the others.
    `check(condition, message)` is called for each required equality; by default a false one raises ValueError.
    """
    results, requires = function.expressions
    values = Inputs(function, shapes, attributes)
    if function.elementwise:
        given = [(name, list(shape)) for (name, *_), shape in zip(function.parameters, shapes) if shape is not None]
        for name, shape in given[1:]:
            _require(function, (given[0][1], shape), f"{given[0][0]}[..] == {name}[..]", check)
    for left, right, text in requires:
        pairs = values.parts(left), values.parts(right)
        _require(function, pairs, text, check)
    if any(shape is not None and shape[0] == "function" for shape in results):
        concrete = [None if shape is None else [int(extent) for extent in shape] for shape in shapes]
        computed = function.shapes(concrete, attributes)
    else:
        computed = [None] * len(results)
    found = [values.shape(shape, known) for shape, known in zip(results, computed)]
    for name, shape, ndim in zip(function.outputs, found, function.ndims):
        _check(function, name, shape, ndim)
    return found


def _check(function: Any, name: str, shape: Any, ndim: int | None) -> None:
    """Refuse the shape of an output with another number of dimensions, or with an extent that is known to be negative."""
    if shape is not None and ndim not in (None, len(shape)):
        raise ValueError(f"{function.name}: {name} must have {ndim} dimensions, but its shape is {shape}")
    for extent in shape or ():
        if type(extent) is int and extent < 0:
            raise ValueError(f"{function.name}: an extent of the result would be {extent}; it must not be negative")


def _require(function: Any, pairs: tuple[list[Any], list[Any]], text: str, check: Any) -> None:
    left, right = pairs
    message = f"{function.name}: {text} is required, but the extents are {left} and {right}"
    if len(left) != len(right):
        raise ValueError(message)
    for one, other in zip(left, right):
        if check is not None:
            check(one == other, message)
        elif one != other:
            raise ValueError(message)


class Inputs:
    """The shapes and attributes of a call."""

    def __init__(self, function: Any, shapes: list[Any], attributes: list[Any]) -> None:
        self.function = function
        self.shapes = shapes
        self.attributes = attributes

    def shape(self, expression: Any, computed: Any) -> Any:
        """Return the shape of an output."""
        if expression is None:
            return None
        kind, *rest = expression
        if kind == "like":
            return list(self.given(rest[0]))
        return computed if kind == "function" else self.parts(rest[0])

    def parts(self, parts: list[Any]) -> list[Any]:
        """Return the extents that parts of a shape stand for."""
        extents: list[Any] = []
        for kind, *rest in parts:
            if kind == "one":
                extents.append(self.extent(rest[0]))
            else:
                position, start, stop = rest
                extents.extend(self.given(position)[start:stop])
        return extents

    def given(self, position: int) -> Any:
        """Return the shape of an input."""
        if self.shapes[position] is None:
            name = self.function.parameters[position][0]
            raise ValueError(f"{self.function.name}: the shape depends on {name}, which is None")
        return self.shapes[position]

    def extent(self, expression: Any) -> Any:
        """Return an extent."""
        kind, *rest = expression
        if kind == "number":
            return rest[0]
        if kind == "attribute":
            return self.attributes[rest[0]]
        if kind == "axis":
            return self.axis(*rest)
        left, right = (self.extent(one) for one in rest)
        if kind == "+":
            return left + right
        if kind == "-":
            return left - right
        if kind == "*":
            return left * right
        if type(right) is int and right <= 0:
            name = self.function.name
            raise ValueError(f"{name}: an extent is divided by {right}; divide by a positive number")
        return left // right

    def axis(self, position: int, axis: int) -> Any:
        """Return the extent of an axis of an input."""
        shape = self.given(position)
        if not -len(shape) <= axis < len(shape):
            name = self.function.parameters[position][0]
            raise ValueError(f"{self.function.name}: {name} needs an axis {axis}, but has {len(shape)} dimensions")
        return shape[axis]
