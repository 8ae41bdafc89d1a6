"""Operators as functions of JAX arrays: under `jit`, `grad`, `vmap`, `scan` and `shard_map`, and in exported programs.

XLA calls the operator without Python. This module only describes the call while JAX traces: dtypes and shapes of the
results, the rule for `vmap`, memory that results share with arguments, and the operator that computes gradients.
"""

import functools
import inspect
import operator
import os
import struct
import sys
import types

import jax
import numpy as np

# The module that computes shapes with symbolic extents; the loader of this file sets it.
extents = None

# The attribute with a bit for each optional input that a call has. The handler has the same constant.
PRESENT = "dlbridge.present"

TENSORS = ("tensor", "optional", "in_place")

# The first release of JAX with version 0.3 of XLA's foreign function interface, which the handlers need.
OLDEST = (0, 10, 0)


def make(f):
    """Returns the function of JAX arrays for the operator `f`.

    It takes the operator's parameters except the outputs, by position or by name. It returns the arrays that the
    operator changes in place, then its outputs: one array, or a tuple of several. Arguments themselves never change.

    Gradients come from the operator's vjp. Inputs for which it has no gradient count as constants.
    """
    if jax.__version_info__ < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(
            f"{f.name}: operators need JAX {oldest} or later, but {jax.__version__} is imported; "
            f"install a newer one: pip install --upgrade jax jaxlib"
        )
    if any(f.dynamic):
        return _refuse_dynamic(f)
    _register(f)
    return _function(f, _traced(f))


def _function(f, traced):
    """The function that checks arguments and calls `traced` in a compiled program, which is cached."""

    # Faster than attributes as static arguments of one function. Few, because each program takes about 0.7 MB.
    @functools.lru_cache(maxsize=32)
    def compiled(static):
        def run(*tensors):
            return traced(static, *tensors)

        run.__name__ = run.__qualname__ = f.name
        return jax.jit(run, inline=True)

    signature = _signature(f)
    parameters = f.parameters
    tensors = [i for i, (_, kind, _) in enumerate(parameters) if kind in TENSORS]
    attributes = [(i, name, ENCODE[kind]) for i, (name, kind, _) in enumerate(parameters) if kind not in TENSORS]
    changed = [(i, name) for i, (name, kind, _) in enumerate(parameters) if kind == "in_place"]
    only_tensors, plain = len(tensors) == len(parameters), compiled(())

    def call(*arguments, **keywords):
        if keywords or len(arguments) != len(parameters):
            arguments = _bind(f, signature, arguments, keywords)
        for i, name in changed:
            # JAX would copy an array of another library, and change the copy.
            if not isinstance(arguments[i], jax.Array):
                raise TypeError(
                    f"{f.name}: {name} changes in place, so it must be a JAX array as another argument is, but is of type "
                    f"{type(arguments[i]).__name__}; pass jax.numpy.asarray({name}) and use the result, or pass no JAX array"
                )
        if only_tensors:
            return plain(*arguments)
        static = tuple([encode(f, name, arguments[i]) for i, name, encode in attributes])
        return compiled(static)(*[arguments[i] for i in tensors])

    call.__name__ = call.__qualname__ = f.name
    call.__signature__ = signature
    call.__doc__ = getattr(f, "__doc__", None)
    return call


def _signature(f):
    parameter = inspect.Parameter
    kind = parameter.POSITIONAL_OR_KEYWORD
    found, optional = [], False
    for name, _, default in f.parameters:
        # Python refuses a required parameter behind an optional one; behind one, parameters are passed by name.
        if default is ... and optional:
            kind = parameter.KEYWORD_ONLY
        optional = optional or default is not ...
        found.append(parameter(name, kind, default=parameter.empty if default is ... else default))
    return inspect.Signature(found)


def _bind(f, signature, arguments, keywords):
    """The value of each parameter, in order."""
    names = [name for name, _, _ in f.parameters]
    if len(arguments) > len(names):
        raise TypeError(f"{f.name}: {len(names)} arguments are expected, but there are {len(arguments)}")
    given = dict(zip(names, arguments))
    for name, value in keywords.items():
        if name in given:
            raise TypeError(f"{f.name}: {name} is passed two times")
        if name == "out" and name not in names:
            # The functions of operators have it for arrays that can be written.
            if value is None:
                continue
            raise TypeError(f"{f.name}: out cannot be filled, because JAX arrays never change; use the result")
        if name not in names:
            raise TypeError(f"{f.name}: there is no parameter {name}; known: {', '.join(names)}")
        given[name] = value
    for name, _, default in f.parameters:
        if name not in given:
            if default is ...:
                raise TypeError(f"{f.name}: the argument {name} is missing")
            given[name] = default
    return [given[name] for name in names]


# Attributes are a part of the compiled program, so JAX compares them by `==`. Floats are encoded as bytes, because
# 0.0 == -0.0, and because NaN differs from itself.


def _wrong(f, name, expected, value):
    if isinstance(value, jax.core.Tracer):
        return TypeError(
            f"{f.name}: {name} must be {expected} that is known while JAX traces, but is traced; "
            f"pass a Python value, or name it in static_argnames of jax.jit"
        )
    return TypeError(f"{f.name}: {name} must be {expected}, but is {type(value).__name__}")


def _float(f, name, value):
    if type(value) is not float:
        if isinstance(value, (str, bytes, jax.core.Tracer)):
            raise _wrong(f, name, "a float", value)
        try:
            value = float(value)
        except TypeError:
            raise _wrong(f, name, "a float", value) from None
    return struct.pack("d", value)


def _int(f, name, value):
    if isinstance(value, jax.core.Tracer):
        raise _wrong(f, name, "an integer", value)
    try:
        value = operator.index(value)
    except TypeError:
        raise _wrong(f, name, "an integer", value) from None
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{f.name}: {name} must fit in 64 bits, but is {value}")
    return value


def _bool(f, name, value):
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong(f, name, "a boolean", value)
    return bool(value)


def _str(f, name, value):
    if not isinstance(value, str):
        raise _wrong(f, name, "a string", value)
    return value


def _list(encode, expected):
    def encode_list(f, name, values):
        if isinstance(values, (str, bytes, jax.core.Tracer)):
            raise _wrong(f, name, expected, values)
        try:
            values = tuple(values)
        except TypeError:
            raise _wrong(f, name, expected, values) from None
        return tuple([encode(f, f"{name}[{i}]", value) for i, value in enumerate(values)])

    return encode_list


ENCODE = {
    "float": _float,
    "int": _int,
    "bool": _bool,
    "str": _str,
    "ints": _list(_int, "a list of integers"),
    "floats": _list(_float, "a list of floats"),
}


def _unpack(value):
    return struct.unpack("d", value)[0]


# The encoded value as a value of Python, and as an attribute of XLA.
PYTHON = {
    "float": _unpack,
    "int": int,
    "bool": bool,
    "str": str,
    "ints": list,
    "floats": lambda values: [_unpack(value) for value in values],
}
XLA = {
    "float": lambda value: np.float64(_unpack(value)),
    "int": np.int64,
    "bool": np.bool_,
    "str": str,
    "ints": lambda values: np.array(values, np.int64),
    "floats": lambda values: np.array([_unpack(value) for value in values], np.float64),
}


def _traced(f):
    """The function of encoded attributes and tensors (None for absent ones) that JAX traces."""
    differentiable = jax.custom_vjp(functools.partial(_call, f), nondiff_argnums=(0,))
    forward, backward = _rules(f, differentiable)
    differentiable.defvjp(forward, backward)

    def traced(static, *tensors):
        # Outside of the differentiated function: then JAX sums the gradient of an array that all devices share.
        return differentiable(static, *_same_axes(tensors))

    return traced


def _call(f, static, *tensors):
    """Describes one call to JAX."""
    tensors, attributes = iter(tensors), iter(static)
    arrays, dtypes, shapes, values = [], [], [], []
    passed, changed, aliases, present, optional = {}, [], {}, 0, 0
    for name, kind, _ in f.parameters:
        if kind not in TENSORS:
            encoded = next(attributes)
            passed[name] = XLA[kind](encoded)
            dtypes.append(None)
            shapes.append(None)
            values.append(PYTHON[kind](encoded))
            continue
        array = next(tensors)
        values.append(None)
        if kind == "optional":
            present |= (array is not None) << optional
            optional += 1
            if array is None:
                dtypes.append(None)
                shapes.append(None)
                continue
        if not (hasattr(array, "shape") and hasattr(array, "dtype")):
            expected = "an array or None" if kind == "optional" else "an array"
            raise TypeError(f"{f.name}: {name} must be {expected}, but is {type(array).__name__}")
        if kind == "in_place":
            aliases[len(arrays)] = len(changed)
            changed.append(array)
        arrays.append(array)
        dtypes.append(str(array.dtype))
        shapes.append(list(array.shape))
    if optional:
        passed[PRESENT] = np.int64(present)
    names = _resolve(f, dtypes, shapes)
    found = _shapes(f, shapes, values)
    result = functools.partial(_result, arrays)
    results = [result(array.shape, array.dtype) for array in changed]
    results += [result(shape, _dtype(f, output, name)) for output, shape, name in zip(f.outputs, found, names)]
    call = jax.ffi.ffi_call(
        _target(f),
        results,
        vmap_method="broadcast_all" if f.elementwise else "sequential",
        input_output_aliases=aliases,
    )
    results = call(*arrays, **passed)
    return results[0] if len(results) == 1 else tuple(results)


def _resolve(f, dtypes, shapes):
    try:
        return f.resolve(dtypes, [None if shape is None else len(shape) for shape in shapes])
    except TypeError as error:
        if jax.config.jax_enable_x64 or "64" not in str(error):
            raise
        raise TypeError(f"{error} ({_NO_X64})") from None


_NO_X64 = (
    "JAX makes 64-bit arrays 32-bit ones, until jax.config.update('jax_enable_x64', True) runs at the start of the program"
)


def _dtype(f, output, name):
    dtype = jax.numpy.dtype(name)
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(f"{f.name}: the output {output} is {name}, which JAX has not enabled: {_NO_X64}")
    return dtype


def _shapes(f, shapes, values):
    sizes = [extent for shape in shapes if shape is not None for extent in shape]
    if all(isinstance(extent, int) for extent in sizes):
        return f.shapes(shapes, values)
    return extents.shapes(f, shapes, values)


def _varying(array):
    """The axes of the mesh over which the values of an array differ, inside of `jax.shard_map`."""
    kind = jax.typeof(array)
    return getattr(kind, "vma", None) or getattr(getattr(kind, "mat", None), "varying", frozenset())


def _same_axes(tensors):
    """The tensors, so that all of them differ over the same axes of the mesh; XLA's call requires it."""
    arrays = [array for array in tensors if isinstance(array, (jax.Array, jax.core.Tracer))]
    axes = frozenset().union(*[_varying(array) for array in arrays])
    if not axes:
        return tensors
    cast = lambda array: _cast(array, tuple(axes - _varying(array)))
    return [cast(array) if hasattr(array, "shape") else array for array in tensors]


def _cast(array, axes):
    if not axes:
        return array
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, axes, to="varying")
    return jax.lax.pvary(array, axes)


def _result(arrays, shape, dtype):
    axes = frozenset().union(*[_varying(array) for array in arrays])
    if not axes:
        return jax.ShapeDtypeStruct(tuple(shape), dtype)
    if "vma" in inspect.signature(jax.ShapeDtypeStruct.__init__).parameters:
        return jax.ShapeDtypeStruct(tuple(shape), dtype, vma=axes)
    kind = next(jax.typeof(array) for array in arrays if _varying(array))
    whole = jax.sharding.NamedSharding(kind.sharding.mesh, jax.sharding.PartitionSpec(*[None] * len(shape)))
    return jax.ShapeDtypeStruct(tuple(shape), dtype, sharding=whole, manual_axis_type=kind.mat)


def _rules(f, differentiable):
    """The functions that JAX calls for a gradient: the first keeps what the second needs."""
    tensors = [name for name, kind, _ in f.parameters if kind in TENSORS]
    attributes = [name for name, kind, _ in f.parameters if kind not in TENSORS]
    results = list(f.outputs)
    if f.vjp is None:

        def refuse(static, *arrays):
            raise TypeError(
                f"{f.name} has no gradient: add `vjp = ...` to its attribute `op`, "
                f"or pass its arguments through jax.lax.stop_gradient"
            )

        return refuse, refuse

    gradients = {f"grad_{name}": name for name in results}
    wanted = [name for name, _, _ in f.vjp.parameters]

    def forward(static, *arrays):
        # The differentiated function again, for gradients of gradients.
        found = differentiable(static, *arrays)
        kept = dict(zip(results, found if isinstance(found, tuple) else [found]))
        kept.update(zip(tensors, arrays))
        return found, {name: array for name, array in kept.items() if name in wanted}

    # Made at the first gradient, so that an operator may be its own vjp.
    computes = functools.cache(lambda: _gradient(f.vjp))

    def backward(static, kept, given):
        given = dict(zip(results, given if isinstance(given, tuple) else [given]))
        values = dict(zip(attributes, [PYTHON[_kind(f, name)](value) for name, value in zip(attributes, static)]))

        def value(name):
            if name in values:
                return values[name]
            return kept[name] if name in kept else given[gradients[name]]

        found = computes()(*[value(name) for name in wanted])
        found = dict(zip(f.vjp.outputs, found if isinstance(found, tuple) else [found]))
        # None: zero, of the type that JAX gives to gradients of integers for those.
        return tuple([found.get(f"grad_{name}") for name in tensors])

    return forward, backward


def _gradient(f):
    if any(f.dynamic):
        return _refuse_dynamic(f)
    return make(f)


def _kind(f, name):
    return next(kind for found, kind, _ in f.parameters if found == name)


def _target(f):
    return f"{f.namespace}.{f.name}"


def _register(f):
    """Registers the operator with XLA, once per process."""
    # Each extension of a process has its own copy of this module; they have this record in common.
    record = sys.modules.setdefault("_dlbridge_ops_jax_targets", types.ModuleType("_dlbridge_ops_jax_targets"))
    paths = record.__dict__.setdefault("paths", {})
    target = _target(f)
    path = paths.setdefault(target, f.path)
    if os.path.realpath(path) != os.path.realpath(f.path):
        raise RuntimeError(
            f"two extensions have an operator {target}: {path} and {f.path}; rename the namespace of one in `library!`"
        )
    if target in record.__dict__.setdefault("registered", set()):
        return
    try:
        jax.ffi.register_ffi_target(target, f.xla_handler(), platform="CUDA" if f.on_cuda else "cpu")
    except Exception as error:
        del paths[target]
        raise RuntimeError(f"XLA refuses the operator {target} of {f.path}: {error}") from error
    record.registered.add(target)


def _refuse_dynamic(f):
    output = next(name for name, dynamic in zip(f.outputs, f.dynamic) if dynamic)

    def call(*arguments, **attributes):
        raise NotImplementedError(
            f"{f.name}: the operator decides the shape of its output {output}, but XLA allocates results before the call; "
            f"call it with NumPy arrays outside of jax.jit, or through jax.pure_callback with results of a fixed shape"
        )

    call.__name__ = call.__qualname__ = f.name
    call.__signature__ = _signature(f)
    return call
