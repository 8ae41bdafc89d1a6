"""Lets `torch.compile` trace the Python functions of operators.

The compiler follows Python code, but not a function written in C or Rust. Marked as allowed, the function becomes a
node of the graph, and the later stages of the compiler see the registered operator. Importing the compiler takes
seconds, so the functions are marked when the program imports it.
"""

import importlib.abc
import sys

_COMPILER = "torch._dynamo"


def allow(functions):
    """Mark functions as allowed in graphs: now if the compiler is imported, or else when it is."""
    if _COMPILER in sys.modules:
        _mark(functions)
    else:
        sys.meta_path.insert(0, _WhenImported(functions))


def _mark(functions):
    for function in functions:
        sys.modules[_COMPILER].allow_in_graph(function)


class _WhenImported(importlib.abc.MetaPathFinder):
    """Marks functions after the compiler's module has run. Another finder finds the module."""

    def __init__(self, functions):
        self.functions = functions

    def find_spec(self, name, path, target=None):
        if name != _COMPILER:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader, self.functions)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Runs the module with its own loader, then marks the functions."""

    def __init__(self, loader, functions):
        self.loader = loader
        self.functions = functions

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _mark(self.functions)
