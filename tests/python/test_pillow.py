"""Pillow images: copied once by the array interface, shared by Arrow."""

import sys
from typing import Any, cast

import dlbridge
import pytest
from conftest import require

np = require("numpy")
image = require("PIL.Image")

#: The size of the header of a bytes object.
HEADER = sys.getsizeof(b"") - 1


@pytest.mark.parametrize("mode", ["L", "P", "I", "F", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I;16B", "I;16L", "I;16N"])
def test_image_is_copied_once(mode: str) -> None:
    picture = image.new(mode, (5, 3))
    tensor = dlbridge.asdlpack(picture)
    assert (tensor.copied, tensor.copy_reason) == (True, "the producer made a copy")
    assert not tensor.readonly, "no other object uses the copy"
    array = tensor.numpy()
    array[...] = 1
    assert (array.ctypes.data, array.flags.writeable) == (tensor.address, True)
    assert not np.asarray(picture).any(), "the image has not changed"
    again = dlbridge.asdlpack(picture, writable=True, copy=None)
    assert again.copy_reason == "the producer made a copy"


def test_torch_takes_the_copy_of_an_image_as_it_is() -> None:
    torch = require("torch")
    tensor = dlbridge.asdlpack(image.new("RGB", (5, 3)))
    assert tensor.torch().data_ptr() == tensor.address
    text = str(dlbridge.explain(image.new("RGB", (5, 3)), to="torch"))
    assert "would change the source" not in text
    assert torch.from_dlpack(tensor).shape == (3, 5, 3)


@pytest.mark.parametrize("mode", ["L", "RGB", "1", "F"])
def test_copy_false_names_arrow_which_shares_this_image(mode: str) -> None:
    picture = image.new(mode, (5, 3))
    match = "copies its data in each export of its array interface.*leave copy=False out, or pass protocol='arrow' too"
    with pytest.raises(BufferError, match=match):
        dlbridge.asdlpack(picture, copy=False)
    assert not dlbridge.asdlpack(picture, copy=False, protocol="arrow").copied


@pytest.mark.parametrize("mode", ["1", "L", "F", "RGB", "I;16", "I;16L", "I;16B", "I;16N"])
def test_bytes_that_pillow_made_are_kept_and_not_copied(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    def tobytes(picture: Any, *arguments: Any) -> bytes:
        data = original(picture, *arguments)
        places.append(id(data) + HEADER)
        return cast(bytes, data)

    places: list[int] = []
    original = image.Image.tobytes
    monkeypatch.setattr(image.Image, "tobytes", tobytes)
    # A number whose bytes in the other order are another number.
    picture = image.new(mode, (5, 3), 0x0102 if mode.startswith("I;16") else 1)
    tensor = dlbridge.asdlpack(picture)
    assert [tensor.address] == places
    assert (tensor.tolist() == np.asarray(picture).tolist(), tensor.copied) == (True, True)
    assert tensor.copy_reason == "the producer made a copy"


@pytest.mark.parametrize("mode", ["I;16", "I;16L", "I;16B", "I;16N"])
def test_unsigned_pixels_of_16_bits_that_arrow_would_sign_are_refused(mode: str) -> None:
    picture = image.new(mode, (5, 3), 40_000)
    with pytest.raises(BufferError, match="leave copy=False out, or pass protocol='arrow' too"):
        dlbridge.asdlpack(picture, copy=False)
    with pytest.raises(BufferError, match="leave out protocol='arrow' and copy=False, and they are copied"):
        dlbridge.asdlpack(picture, copy=False, protocol="arrow")
    with pytest.raises(BufferError, match=f"mode {mode} to Arrow as signed integers; leave out"):
        dlbridge.asdlpack(picture, protocol="arrow")
    tensor = dlbridge.asdlpack(picture)
    assert (tensor.copied, tensor.dtype, tensor.numpy().max()) == (True, "uint16", 40_000)


def test_image_in_several_blocks_is_copied_and_never_shared() -> None:
    picture = image.new("L", (5_000, 5_000))
    with pytest.raises(BufferError, match="Pillow cannot share the pixels.*leave out protocol='arrow', and they are copied") as refused:
        dlbridge.asdlpack(picture, protocol="arrow")
    assert isinstance(refused.value.__cause__, ValueError)
    with pytest.raises(BufferError, match="leave copy=False out, or pass protocol='arrow' too"):
        dlbridge.asdlpack(picture, copy=False)
    assert dlbridge.asdlpack(picture).shape == (5_000, 5_000)


@pytest.mark.parametrize(("mode", "bands"), [("L", 1), ("P", 1), ("I", 1), ("F", 1), ("RGB", 4), ("RGBA", 4), ("CMYK", 4)])
def test_arrow_shares_the_pixels_row_by_row(mode: str, bands: int) -> None:
    picture = image.new(mode, (5, 3))
    tensor = dlbridge.asdlpack(picture, protocol="arrow", copy=False)
    assert tensor.shape == ((15,) if bands == 1 else (15, bands))
    assert not tensor.copied
    picture.putpixel((2, 0), 7 if bands == 1 else (7, 8, 9))
    channels = np.asarray(picture).reshape(15, -1)
    assert np.array_equal(tensor.numpy().reshape(15, -1)[:, : channels.shape[1]], channels)
