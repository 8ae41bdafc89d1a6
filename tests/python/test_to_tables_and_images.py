"""Exports to polars, pandas and pillow by `to`."""

from __future__ import annotations

from typing import Any

import dlbridge
import pytest
from conftest import require
from test_to_library import numbers

np = require("numpy")


def address(array: Any) -> int:
    """The address of the first element."""
    return int(array.__array_interface__["data"][0])


def test_polars_copies_elements_that_are_not_aligned_to_their_size() -> None:
    require("polars")
    unaligned = np.frombuffer(bytearray(13), "f4", 3, 1)
    unaligned[...] = [1, 2, 3]
    tensor = dlbridge.asdlpack(unaligned)
    match = r"polars copies elements whose address is not a multiple of their size.*asdlpack\(obj, copy=True\)"
    with pytest.raises(BufferError, match=match):
        tensor.to("polars", copy=False)
    assert not dlbridge.explain(tensor, to="polars").verdicts[0].zero_copy
    series = tensor.to("polars")
    unaligned[0] = 9
    assert series.to_list() == [1, 2, 3]
    assert dlbridge.asdlpack(unaligned, copy=True).to("polars", copy=False).to_list() == [9, 2, 3]


def test_polars_shares_a_column() -> None:
    polars = require("polars")
    tensor = numbers().reshape(6)
    for name in ("polars", "pl", polars):
        series = tensor.to(name, copy=False)
        assert (type(series), series.to_list()) == (polars.Series, [0, 1, 2, 3, 4, 5])
        assert address(series.to_numpy()) == tensor.address
    assert address(tensor.to("polars", copy=True).to_numpy()) != tensor.address
    assert dlbridge.asdlpack(b"abc").to("polars", copy=False).to_list() == [97, 98, 99]
    assert tensor[::2].to("polars").to_list() == [0, 2, 4]
    assert dlbridge.like(polars.Series([1]), tensor).to_list() == series.to_list()
    assert dlbridge.explain(tensor, to="polars").verdicts[0].zero_copy
    with pytest.raises(BufferError, match="polars accepts C order only"):
        tensor[::2].to("polars", copy=False)
    with pytest.raises(BufferError, match="polars takes at most 1 dimension, not 2"):
        numbers().to("polars")
    with pytest.raises(BufferError, match="polars does not support bool"):
        dlbridge.empty(3, "bool").to("polars")


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "uint8"])
def test_pandas_shares_a_column_and_a_table(dtype: str) -> None:
    pandas = require("pandas")
    array = np.arange(12).astype(dtype)
    for view in (array, array[::2], array[::-1], array.reshape(3, 4), array.reshape(3, 4).T):
        tensor = dlbridge.asdlpack(view)
        made = tensor.to("pandas", copy=False)
        assert type(made) is (pandas.Series if view.ndim == 1 else pandas.DataFrame)
        assert (made.to_numpy() == view).all()
        assert address(made.to_numpy()) == tensor.address
        assert address(tensor.to("pandas", copy=True).to_numpy()) != tensor.address
    assert dlbridge.explain(array, to="pandas").verdicts[0].zero_copy
    read_only = dlbridge.asdlpack(b"abc").to("pd")
    with pytest.raises(ValueError, match="read-only"):
        read_only.iloc[0] = 1
    with pytest.raises(BufferError, match="pandas takes at most 2 dimensions, not 3"):
        dlbridge.empty((1, 2, 3)).to("pandas")


@pytest.mark.parametrize(
    ("mode", "dtype", "bands"),
    [("L", "uint8", ()), ("F", "float32", ()), ("I", "int32", ()), ("I;16", "uint16", ()), ("RGBA", "uint8", (4,))],
)
def test_pillow_shares_the_modes_that_it_can(mode: str, dtype: str, bands: tuple[int, ...]) -> None:
    image_class = require("PIL.Image").Image
    array = np.zeros((2, 3, *bands), dtype)
    for library in ("pillow", "PIL"):
        image = dlbridge.asdlpack(array).to(library, copy=False)
        assert (type(image), image.mode, image.size) == (image_class, mode, (3, 2))
    array[1, 2] = 7
    assert np.atleast_1d(image.getpixel((2, 1))).tolist() == [7] * max(1, len(bands) and 4)
    image.putpixel((0, 0), 9 if not bands else (9, 9, 9, 9))
    assert array[0, 0].max() == 0
    assert dlbridge.explain(array, to="PIL").verdicts[0].zero_copy
    copied = dlbridge.asdlpack(array).to("pillow", copy=True)
    array[1, 2] = 8
    assert np.atleast_1d(copied.getpixel((2, 1)))[0] == 7


@pytest.mark.parametrize(("mode", "dtype", "bands"), [("RGB", "uint8", (3,)), ("LA", "uint8", (2,)), ("1", "bool", ())])
def test_pillow_copies_the_other_modes_once(mode: str, dtype: str, bands: tuple[int, ...]) -> None:
    require("PIL.Image")
    array = np.ones((2, 3, *bands), dtype)
    tensor = dlbridge.asdlpack(array)
    image = tensor.to("pillow")
    assert (image.mode, image.size) == (mode, (3, 2))
    assert (np.asarray(image) == array).all()
    with pytest.raises(BufferError, match="pillow keeps such an image in another layout, and copy=False"):
        tensor.to("pillow", copy=False)
    assert not dlbridge.explain(tensor, to="pillow").verdicts[0].zero_copy


@pytest.mark.parametrize("tensor", [dlbridge.empty((2, 3, 5), "uint8"), dlbridge.empty((2, 3, 4)), dlbridge.empty((2, 3), "int64"), dlbridge.empty(3)])
def test_pillow_refuses_what_is_not_an_image(tensor: dlbridge.Tensor) -> None:
    require("PIL.Image")
    with pytest.raises(BufferError, match="pillow (takes|does not support)"):
        tensor.to("pillow")
