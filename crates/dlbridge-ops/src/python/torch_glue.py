"""Registers shape functions, gradients and batching of operators with PyTorch.

The kernels and schemas are in PyTorch's dispatcher already. `torch.compile`, `torch.export`, autograd and
`torch.vmap` run this code only while they trace, record or transform; it calls the kernels through the dispatcher.
"""

import functools
import importlib

import torch
from torch.autograd import forward_ad


def _private(module, name):
    """Returns a private part of PyTorch, which a release may remove."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise ImportError(
            f"PyTorch {torch.__version__} does not have {module}.{name}, which operators need for gradients; install "
            f"PyTorch 2.10 or 2.15, with which operators are tested, or a newer release of the extension"
        ) from None


_AutoDispatchBelowAutograd = _private("torch._C", "_AutoDispatchBelowAutograd")
_AutoDispatchBelowADInplaceOrView = _private("torch._C", "_AutoDispatchBelowADInplaceOrView")
_after_ADInplaceOrView_keyset = _private("torch._C", "_after_ADInplaceOrView_keyset")
_after_autograd_keyset = _private("torch._C", "_after_autograd_keyset")
_any_requires_grad = _private("torch._C", "_any_requires_grad")
_are_functorch_transforms_active = _private("torch._C", "_are_functorch_transforms_active")
_is_fwd_grad_enabled = _private("torch._C", "_is_fwd_grad_enabled")
_set_fwd_grad_enabled = _private("torch.autograd.forward_ad", "_set_fwd_grad_enabled")
_SingleLevelFunction = _private("torch.autograd.function", "_SingleLevelFunction")
_enable_single_level = _private("torch._functorch.utils", "enable_single_level_autograd_function")
# Negative unless forward-mode derivatives are computed. It changes, so it is read from the module at each call.
_private("torch.autograd.forward_ad", "_current_level")


def register(functions, shapes):
    """Registers all that PyTorch takes only from Python.

    `shapes(f, shapes, attributes)` returns the extents of the outputs, for integers and symbolic integers.
    """
    for f in functions:
        _register_fake(f, shapes)
        if any(kind == "in_place" for _, kind, _ in f.parameters):
            _refuse_gradients(f)
        elif f.vjp is not None:
            _register_autograd(f)
        if "out" in getattr(getattr(torch.ops, f.namespace), f.name).overloads():
            _refuse_gradients_of_out(f)
        _register_vmap(f)


def _name(f):
    return f"{f.namespace}::{f.name}"


def _operator(f):
    return getattr(getattr(torch.ops, f.namespace), f.name).default


def _single(values):
    """Returns a result as operators return it: nothing, a tensor, or a tuple of tensors."""
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def _several(result):
    """Returns the tensors of a result."""
    return () if result is None else result if isinstance(result, (tuple, list)) else (result,)


# Shapes


def _register_fake(f, shapes):
    defaults = [None if default is ... else default for _, _, default in f.parameters]

    def fake(*arguments):
        # PyTorch omits trailing arguments that have their default value.
        arguments = [*arguments, *defaults[len(arguments) :]]
        tensors = [value if isinstance(value, torch.Tensor) else None for value in arguments]
        dtypes = f.resolve(
            [None if tensor is None else str(tensor.dtype).removeprefix("torch.") for tensor in tensors],
            [None if tensor is None else tensor.ndim for tensor in tensors],
        )
        extents = shapes(
            f,
            [None if tensor is None else list(tensor.shape) for tensor in tensors],
            [value if tensor is None else None for value, tensor in zip(arguments, tensors)],
        )
        _check_overlap(f, arguments)
        devices = {tensor.device for tensor in tensors if tensor is not None}
        if len(devices) > 1:
            found = " and ".join(sorted(map(str, devices)))
            raise RuntimeError(f"{f.name}: all tensors must be on one device, but are on {found}; move them to one")
        device = next(iter(devices), None)
        outputs = []
        for dtype, shape, ndim in zip(dtypes, extents, f.ndims):
            if shape is None:
                context = torch.library.get_ctx()
                shape = [context.new_dynamic_size() for _ in range(ndim)]
            outputs.append(torch.empty(shape, dtype=getattr(torch, dtype), device=device))
        return _single(outputs)

    torch.library.register_fake(_name(f), fake)
    if "out" in getattr(getattr(torch.ops, f.namespace), f.name).overloads():

        def fake_out(*arguments, **outputs):
            # As the kernel does, which does not run if no code uses the outputs.
            outputs = [(name, outputs[name]) for name in f.outputs]
            for (name, out), expected in zip(outputs, _several(fake(*arguments))):
                dtype, found = (str(one.dtype).removeprefix("torch.") for one in (expected, out))
                if dtype != found:
                    raise TypeError(f"{f.name}: {name} must be {dtype}, but is {found}; pass a tensor of {dtype}")
                if expected.ndim != out.ndim or any(_is_known(x != y) for x, y in zip(expected.shape, out.shape)):
                    shapes = f"the shape {list(expected.shape)}, but has {list(out.shape)}"
                    raise ValueError(f"{f.name}: {name} must have {shapes}")
            _check_overlap(f, arguments, outputs)

        torch.library.register_fake(f"{_name(f)}.out", fake_out)


def _check_overlap(f, arguments, outputs=()):
    """Refuses tensors that are written and share memory with another, as the kernel does: a compiler may pass it copies."""
    given = zip(f.parameters, arguments)
    inputs = [(name, kind, value) for (name, kind, _), value in given if isinstance(value, torch.Tensor)]
    written = [(name, value) for name, kind, value in inputs if kind == "in_place"] + [*outputs]
    for index, (name, tensor) in enumerate(written):
        for other, *_, value in (*inputs, *written[:index]):
            if name != other and _overlap(tensor, value):
                raise RuntimeError(f"{f.name}: {name} is written and shares memory with {other}; pass a copy")


def _is_known(condition):
    """Returns true if a condition on extents holds, and does not depend on what only the call knows."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false  # Takes a second, so only here.
    return guard_or_false(condition)


def _overlap(one, other):
    is_empty = any(_is_known(extent == 0) for extent in (*one.shape, *other.shape))
    if is_empty or one.untyped_storage()._cdata != other.untyped_storage()._cdata:
        return False

    def bounds(tensor):
        first, size = tensor.storage_offset(), tensor.element_size()
        last = first + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
        return first * size, (last + 1) * size

    (first, last), (start, stop) = bounds(one), bounds(other)
    return _is_known(first < stop) and _is_known(start < last)


# Gradients


def _refuse_tangents(f, values, advice):
    """Refuses arguments with tangents: the results would not have tangents, and so count as constants."""
    if not _is_fwd_grad_enabled():
        return
    for value in values:
        if isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None:
            raise NotImplementedError(
                f"{f.name}: forward-mode derivatives (torch.func.jvp, torch.func.jacfwd) are not supported, but an "
                f"argument has a tangent; {advice}"
            )


_REVERSE_MODE = "use reverse mode, such as torch.func.vjp or torch.func.jacrev"


class _Final(torch.autograd.Function):
    """Returns gradients that cannot be differentiated again: doing so raises an error with the message."""

    @staticmethod
    def forward(message, count, *tensors):
        return tensors[:count]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.message = inputs[0]

    @staticmethod
    def vmap(info, in_dims, message, count, *tensors):
        return _Final.apply(message, count, *tensors), tuple(in_dims[2 : 2 + count])

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError(ctx.message)


def _register_autograd(f):
    inputs = {name: index for index, (name, _, _) in enumerate(f.parameters)}
    outputs = {name: index for index, name in enumerate(f.outputs)}
    tensors, attributes, sources = [], [], []
    # The import checked that the names of the vjp fit.
    for name, kind, _ in f.vjp.parameters:
        if name in inputs:
            places = tensors if kind in ("tensor", "optional") else attributes
            sources.append((places is attributes, len(places)))
            places.append(("input", inputs[name]))
        elif name in outputs:
            sources.append((False, len(tensors)))
            tensors.append(("output", outputs[name]))
        else:
            sources.append((None, outputs[name.removeprefix("grad_")]))
    positions = {inputs[name.removeprefix("grad_")]: index for index, name in enumerate(f.vjp.outputs)}
    order = [positions.get(index) for index in range(len(f.parameters))]
    vjp = _operator(f.vjp)
    final = None
    if f.vjp.vjp is None:
        final = f"{f.name} has no second gradient, because {f.vjp.name} has no vjp; add one to differentiate twice"

    defaults = [default for _, _, default in f.parameters]

    def setup_context(ctx, inputs, output):
        # PyTorch omits trailing arguments that have their default value.
        inputs = (*inputs, *defaults[len(inputs) :])
        results = output if isinstance(output, tuple) else (output,)
        ctx.save_for_backward(*[inputs[i] if kind == "input" else results[i] for kind, i in tensors])
        if attributes:
            ctx.attributes = [inputs[i] for _, i in attributes]

    def backward(ctx, *gradients):
        saved = ctx.saved_tensors
        arguments = []
        for kind, place in sources:
            if kind is None:
                arguments.append(gradients[place])
            else:
                arguments.append(ctx.attributes[place] if kind else saved[place])
        if forward_ad._current_level >= 0:
            _refuse_tangents(f.vjp, arguments, _REVERSE_MODE)
        if final and torch.is_grad_enabled():
            with torch.no_grad():
                made = _several(vjp(*arguments))
            made = _several(_Final.apply(final, len(made), *made, *saved, *gradients))
        else:
            made = _several(vjp(*arguments))
        return [made[place] if place is not None else None for place in order]

    _implement_autograd(f, setup_context, backward)


# Registrations end when their library is deleted.
_libraries = {}


def _implement_autograd(f, setup_context, backward):
    """Does the same as `torch.library.register_autograd`, which takes twice as long for a call."""
    operator = _operator(f)

    def forward(ctx, keyset, *arguments):
        with _AutoDispatchBelowAutograd():
            output = operator.redispatch(keyset & _after_autograd_keyset, *arguments)
        setup_context(ctx, arguments, output)
        return output

    def backward_of_arguments(ctx, *gradients):
        needed = ctx.needs_input_grad
        made = zip(backward(ctx, *gradients), needed[1:])
        return (None, *[gradient if is_needed else None for gradient, is_needed in made])

    def forward_of_level(ctx, state, *arguments):
        keyset, forward_mode = state
        # The levels below record their own gradients, and have their own tangents: a `Function` disables both.
        with torch.enable_grad(), _set_fwd_grad_enabled(forward_mode):
            return forward(ctx, keyset, *arguments)

    def made(base, forward):
        methods = {"forward": staticmethod(forward), "backward": staticmethod(backward_of_arguments)}
        return type(f.name, (base,), methods).apply

    # For `torch.func.grad` and its kin, PyTorch refuses a `Function` that does not describe its context apart. This one
    # needs no description, because it calls only operators, for which PyTorch applies the transforms. So it is of the
    # class that PyTorch itself derives from a `Function` for one level of transforms.
    apply, apply_to_level = made(torch.autograd.Function, forward), made(_SingleLevelFunction, forward_of_level)

    def kernel(keyset, *arguments):
        if forward_ad._current_level >= 0:
            _refuse_tangents(f, arguments, _REVERSE_MODE)
        if torch.is_grad_enabled() and _any_requires_grad(*arguments):
            if not _are_functorch_transforms_active():
                return apply(keyset, *arguments)
            with _enable_single_level():
                return apply_to_level((keyset, _is_fwd_grad_enabled()), *arguments)
        with _AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & _after_autograd_keyset, *arguments)

    _implement(f, kernel)


def _refuse_gradients_of_out(f):
    """Registers that filling tensors of the caller has no gradient, and that it changes them."""
    operator = getattr(getattr(torch.ops, f.namespace), f.name).out

    advice = f"call it without `out`, and {_REVERSE_MODE}" if f.vjp is not None else "call it on detached tensors"

    def kernel(keyset, *arguments, **outputs):
        if forward_ad._current_level >= 0:
            _refuse_tangents(f, (*arguments, *outputs.values()), advice)
        if torch.is_grad_enabled() and _any_requires_grad(*arguments, *outputs.values()):
            raise RuntimeError(
                f"{f.name}: `out` does not support gradients, but a tensor needs one; call it without `out`, under "
                f"torch.no_grad(), or on detached tensors"
            )
        with _AutoDispatchBelowAutograd():
            operator.redispatch(keyset & _after_autograd_keyset, *arguments, **outputs)

    _implement(f, kernel, ".out")
    _count_changes(f, operator, lambda arguments, outputs: outputs.values(), ".out")


def _implement(f, kernel, overload="", key="Autograd"):
    library = _libraries.get(f.namespace)
    if library is None:
        library = _libraries[f.namespace] = torch.library.Library(f.namespace, "IMPL")
    library.impl(f.name + overload, kernel, key, with_keyset=True)


def _count_changes(f, operator, changed, overload=""):
    """Registers that the operator changes tensors, so that gradients that need their old elements are refused.

    At this key, because `torch.inference_mode()` leaves out the key of gradients.
    """

    def kernel(keyset, *arguments, **outputs):
        with _AutoDispatchBelowADInplaceOrView():
            result = operator.redispatch(keyset & _after_ADInplaceOrView_keyset, *arguments, **outputs)
        for tensor in changed(arguments, outputs):
            torch.autograd.graph.increment_version(tensor)
        return result

    _implement(f, kernel, overload, "ADInplaceOrView")


def _refuse_gradients(f):
    """Registers that an operator in place has no gradient, and that it changes its arguments."""
    operator = _operator(f)
    changed = [index for index, (_, kind, _) in enumerate(f.parameters) if kind == "in_place"]
    name = f.parameters[changed[0]][0]

    def kernel(keyset, *arguments):
        if forward_ad._current_level >= 0:
            _refuse_tangents(f, arguments, "call it on detached tensors")
        if torch.is_grad_enabled() and _any_requires_grad(*arguments):
            raise RuntimeError(
                f"{f.name}: {name} changes in place, which has no gradient; call it under torch.no_grad() or on detached tensors"
            )
        with _AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & _after_autograd_keyset, *arguments)

    _implement(f, kernel)
    _count_changes(f, operator, lambda arguments, outputs: [arguments[index] for index in changed])


# Batches


def _register_vmap(f):
    operator = _operator(f)
    changed = [index for index, (_, kind, _) in enumerate(f.parameters) if kind == "in_place"]
    batch = _batch_elementwise if f.elementwise else _batch_each

    def vmap(info, in_dims, *arguments):
        for index in changed:
            if in_dims[index] is None:
                name = f.parameters[index][0]
                raise ValueError(
                    f"{f.name}: {name} is changed in place, but is the same tensor for the whole batch; pass a tensor "
                    f"with a batch dimension"
                )
        outputs = batch(operator, info.batch_size, in_dims, arguments)
        return _single(outputs), _single([0] * len(outputs))

    torch.library.register_vmap(_name(f), vmap)


def _batch_elementwise(operator, size, in_dims, arguments):
    """Calls the operator once, with the batch dimension in front."""

    def lead(value, dim):
        if not isinstance(value, torch.Tensor):
            return value
        return value.unsqueeze(0).expand(size, *value.shape) if dim is None else value.movedim(dim, 0)

    return _several(operator(*map(lead, arguments, in_dims)))


def _batch_each(operator, size, in_dims, arguments):
    """Calls the operator for each element of the batch."""

    def element(index, value, dim):
        return value if dim is None else value.select(dim, index)

    if size == 0:
        raise ValueError(f"{operator}: vmap needs at least one element in the batch")
    results = [
        _several(operator(*map(functools.partial(element, index), arguments, in_dims))) for index in range(size)
    ]
    return tuple(map(torch.stack, zip(*results)))
