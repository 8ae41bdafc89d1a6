"""Runs a program for WASI with wasmtime: its arguments, the environment and the working folder are passed on."""

import os
import sys
import tempfile
from pathlib import Path

from wasmtime import Engine, ExitTrap, Linker, Module, Store, WasiConfig


def main() -> int:
    """Run the program that the first argument names, and return its exit code."""
    engine = Engine()
    module = Module.from_file(engine, sys.argv[1])
    linker = Linker(engine)
    linker.define_wasi()
    wasi = WasiConfig()
    wasi.argv = sys.argv[1:]
    wasi.env = [(name, os.environ[name]) for name in ("RUST_BACKTRACE", "PWD") if name in os.environ]
    wasi.inherit_stdin()
    wasi.inherit_stdout()
    wasi.inherit_stderr()
    with tempfile.TemporaryDirectory() as folder:
        wasi.preopen_dir(str(Path.cwd()), "/")
        wasi.preopen_dir(folder, "/tmp")
        store = Store(engine)
        store.set_wasi(wasi)
        start = linker.instantiate(store, module).exports(store)["_start"]
        try:
            start(store)
        except ExitTrap as ended:
            return ended.code
    return 0


sys.exit(main())
