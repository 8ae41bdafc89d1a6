"""Calls of cdshealpix' compiled functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from cdshealpix import cdshealpix as native  # type: ignore[import-not-found]


def calls() -> dict[str, Callable[[], Any]]:
    """The measured calls, by name."""
    few, many = np.arange(12.0), np.arange(12.0 * 4**8)
    small = few.astype("u1")
    lon, lat = np.array([0.1, 0.2, 0.2]), np.array([0.1, 0.1, 0.2])
    cells, values = np.arange(12, dtype="u8"), np.zeros(12)
    one, directions = filled(1), filled(200_000)
    return {
        "1 array in, small": lambda: native.depth_skymap_implicit(few),
        "1 array of the last dtype in, small": lambda: native.depth_skymap_implicit(small),
        "1 array in, 2 out, small": lambda: native.to_explicit(0, 0.0, few),
        "2 arrays in, 1 out, small": lambda: native.to_implicit(0, 0.0, cells, values),
        "2 arrays in, 3 out, small": lambda: native.polygon_search(3, lon, lat, True),
        "2 arrays in, 2 filled, small": lambda: native.lonlat_to_xy(*one, 1),
        "1 array in, 2 out, large": lambda: native.to_explicit(8, 0.0, many),
        "2 arrays in, 2 filled, large": lambda: native.lonlat_to_xy(*directions, 1),
    }


def with_argument(convert: Callable[[Any], Any]) -> list[Any]:
    """A result that depends on one array, which is converted first."""
    lon, lat, x, y = filled(3)
    native.lonlat_to_xy(convert(lon), lat, x, y, 1)
    return [x.tolist(), y.tolist()]


def filled(count: int) -> tuple[Any, ...]:
    """Longitudes and latitudes, and arrays to fill."""
    return np.linspace(0, 6, count), np.linspace(-1.5, 1.5, count), np.zeros(count), np.zeros(count)
