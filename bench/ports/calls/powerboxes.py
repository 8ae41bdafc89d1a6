"""Calls of powerboxes' compiled functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from powerboxes import _powerboxes as native  # type: ignore[import-not-found]


def calls() -> dict[str, Callable[[], Any]]:
    """The measured calls, by name."""
    few, many = boxes(1), boxes(1500)
    one, scores = np.ones(1), np.linspace(1, 0.1, 1500)
    return {
        "1 array in, 1 out, small": lambda: native.box_areas_f64(few),
        "2 arrays in, 1 out, small": lambda: native.iou_distance_f32(few.astype("f4"), few.astype("f4")),
        "2 arrays and numbers in, 1 out, small": lambda: native.nms_f64(few, one, 0.5, 0.0),
        "2 arrays in, 1 out, large": lambda: native.iou_distance_f64(many, many),
        "2 arrays and numbers in, 1 out, large": lambda: native.nms_f64(many, scores, 0.5, 0.0),
    }


def with_argument(convert: Callable[[Any], Any]) -> list[Any]:
    """A result that depends on one array, which is converted first."""
    return native.nms_f64(boxes(3), convert(np.array([0.5, 0.25, 0.75])), 0.5, 0.0).tolist()


def boxes(count: int) -> Any:
    corners = np.arange(2.0 * count).reshape(count, 2) % 97
    return np.concatenate([corners, corners + 10], axis=1)
