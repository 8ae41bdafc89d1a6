"""Calls of fastpdb's compiled functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from fastpdb import fastpdb as native  # type: ignore[import-not-found]

#: one ATOM record
RECORD = "ATOM      1  N   ALA A   1      11.104   6.134  -6.504  1.00  0.00           N  "


def calls() -> dict[str, Callable[[], Any]]:
    """The measured calls, by name."""
    small, large = file_of(1), file_of(20_000)
    few, many = annotations(1), annotations(20_000)
    return {
        "1 array out, small": lambda: small.atom_line_i,
        "1 array in, 1 out, small": lambda: small.parse_bonds(few[8]),
        "11 arrays in, small": lambda: native.PDBFile([]).write_models(*few),
        "11 arrays in, large": lambda: native.PDBFile([]).write_models(*many),
        "12 arrays out, small": lambda: small.parse_annotations(1, True, True, True, True),
        "12 arrays out, large": lambda: large.parse_annotations(1, True, True, True, True),
    }


def with_argument(convert: Callable[[Any], Any]) -> list[Any]:
    """A result that depends on one array, which is converted first."""
    file = native.PDBFile([RECORD, "CONECT    1    2    3".ljust(80)])
    return file.parse_bonds(convert(np.array([1, 2, 3]))).tolist()


def file_of(atoms: int) -> Any:
    return native.PDBFile([RECORD] * atoms)


def annotations(atoms: int) -> tuple[Any, ...]:
    """Arguments of write_models: coordinates and ten annotations, with one left out."""
    coord = np.zeros((1, atoms, 3), "f4")
    letters = [np.full((atoms, width), 65, "u4") for width in (4, 1, 5, 6, 2)]
    chain_id, ins_code, res_name, atom_name, element = letters
    numbers, hetero = np.ones(atoms, "i8"), np.zeros(atoms, "?")
    floats = np.ones(atoms)
    return (
        coord, chain_id, numbers, ins_code, res_name, hetero, atom_name, element, numbers, floats, floats, None,
    )  # fmt: skip
