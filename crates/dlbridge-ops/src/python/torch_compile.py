"""Lets `torch.compile` trace the Python functions of operators.

The compiler follows Python code, but not a function written in C or Rust. Marked as allowed, the function becomes a
node of the graph, and the later stages of the compiler see the registered operator. Importing the compiler takes
seconds, so the functions are marked when the program imports it.
"""

import sys

_COMPILER = "torch._dynamo"


def allow(functions, register):
    """Mark functions as allowed in graphs: now if the compiler is imported, or else when it is.

    `register()` registers the operators with PyTorch, which the extension may have been imported before.
    """
    if _COMPILER in sys.modules:
        _mark(functions, register)
    else:
        sys.meta_path.insert(0, _WhenImported(functions, register))


def _mark(functions, register):
    try:
        register()
    except ImportError:
        # This release of PyTorch is not supported, which the first call on a tensor says.
        return
    for function in functions:
        sys.modules[_COMPILER].allow_in_graph(function)


class _WhenImported:
    """Marks functions after the compiler's module has run. Another finder finds the module."""

    def __init__(self, functions, register):
        self.functions = functions
        self.register = register
        self.asks_others = False

    def find_spec(self, name, path, target=None):
        # Another extension has a finder like this one, which asks this one.
        if name != _COMPILER or self.asks_others:
            return None
        self.asks_others = True
        try:
            for finder in list(sys.meta_path):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    spec.loader = _Loader(spec.loader, self)
                    return spec
            return None
        finally:
            self.asks_others = False


class _Loader:
    """Runs the module with its own loader, then marks the functions."""

    def __init__(self, loader, finder):
        self.loader = loader
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        _mark(self.finder.functions, self.finder.register)
