"""Environments with the newest release of each library, one for each, so that no library holds back another."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from findings_page import ROOT

#: The requirements of each library with a finding. Builds for the CPU, where the package index has them.
REQUIREMENTS = {
    "array-api-strict": ["array-api-strict"],
    "dpnp": ["dpnp", "intel-opencl-rt"],
    "jax": ["jax"],
    "mlx": ["mlx[cpu]"],
    "mpi4py": ["mpi4py", "mpich"],
    "nanobind": ["nanobind"],
    "numkong": ["numkong"],
    "numpy": ["numpy"],
    "onnxruntime": ["onnxruntime"],
    "paddle": ["paddlepaddle"],
    "pyarrow": ["pyarrow"],
    "tensorflow": ["tensorflow-cpu"],
    "torch": ["torch"],
    "tvm-ffi": ["apache-tvm-ffi"],
    "warp-lang": ["warp-lang"],
}
#: Libraries of a finding that are a second consumer of another one.
SAME_AS = {"pyarrow-array": "pyarrow"}
#: Libraries that no supported Python can import any more, and why.
NOT_INSTALLABLE = {"mxnet": "not importable: it needs NumPy before 1.24, and so Python 3.11; retired in 2023"}


class Environments:
    """A folder of environments, which uv makes when they are first needed."""

    def __init__(self, folder: Path, python: str, uv: str) -> None:
        self.folder, self.python, self.uv = folder.absolute(), python, uv

    def interpreter(self, library: str) -> Path:
        """Returns the Python whose environment has a library, the kit and NumPy.

        Raises CalledProcessError if something cannot be built or installed. The next call then tries again. Raises
        FileExistsError if the folder has something else in the place of the environment.
        """
        name = SAME_AS.get(library, library)
        interpreter = self.folder / name / "bin/python"
        if not interpreter.exists():
            wheels = self.wheels()
            if (self.folder / name).exists():
                raise FileExistsError(f"{self.folder / name} exists, and is not an environment; name another folder")
            try:
                self._uv("venv", "--python", self.python, str(self.folder / name))
                self._uv("pip", "install", "--python", str(interpreter), "numpy", *REQUIREMENTS[name], *map(str, wheels))
            except BaseException:
                # An environment without its library would count as ready in the next run.
                shutil.rmtree(self.folder / name, ignore_errors=True)
                raise
        return interpreter

    def wheels(self) -> list[Path]:
        """Returns the wheels of dlbridge and of the kit, built from this checkout unless the folder has them."""
        folder = self.folder / "wheels"
        found: list[Path] = []
        for pattern, project in (("dlbridge-*.whl", ROOT), ("dlbridge_conformance-*.whl", ROOT / "conformance")):
            if not list(folder.glob(pattern)):
                self._uv("build", "--wheel", "--out-dir", str(folder), str(project))
            found += folder.glob(pattern)
        return found

    def _uv(self, *arguments: str) -> None:
        subprocess.run([self.uv, "--quiet", *arguments], check=True)
