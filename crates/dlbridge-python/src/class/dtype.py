"""The class of ``Tensor.dtype``; ``is_same`` is a function of Rust."""


class DTypeName(str):
    """The name of a dtype: a string that is also equal to the dtypes of libraries.

    ``==`` and ``!=`` accept a name, a dtype or scalar type of NumPy or ml_dtypes, a dtype of PyTorch, JAX or
    another library, and Python's float, int, bool and complex, which mean what they mean in NumPy.

    The hash is that of the string. So a dict or set finds this as a key by its name, not by a dtype object.
    """

    __slots__ = ()

    def __eq__(self, other):
        return True if str.__eq__(self, other) is True else is_same(self, other)

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self):
        # Another extension has a class of its own, which pickle would not find.
        try:
            from dlbridge._core import DTypeName as portable
        except ImportError:
            portable = str
        return portable, (str(self),)
