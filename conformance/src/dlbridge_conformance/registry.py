"""Finds adapters and rules by their names."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce

from dlbridge_conformance import adapters
from dlbridge_conformance import rules as rule_modules
from dlbridge_conformance.adapter import Adapter
from dlbridge_conformance.isolation import described
from dlbridge_conformance.module_adapter import GUIDE, ModuleAdapter
from dlbridge_conformance.rule import RULES, Rule


def known_adapters() -> dict[str, Adapter]:
    """Returns all adapters of the kit, by name."""
    found: dict[str, Adapter] = {}
    for info in pkgutil.iter_modules(adapters.__path__):
        module = importlib.import_module(f"{adapters.__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Adapter) and value.__module__ == module.__name__:
                if hasattr(value, "name"):
                    found[value.name] = value()
    return dict(sorted(found.items()))


def installed_adapters() -> list[Adapter]:
    """Returns the known adapters whose libraries can be imported."""
    return [adapter for adapter in known_adapters().values() if adapter.is_installed()]


def is_installed(adapter: Adapter) -> bool:
    """Returns whether the library can be imported. Raises LookupError if the adapter's ``is_installed`` raises."""
    with _refusing(f"is_installed() of the adapter {adapter.name} raised "):
        return adapter.is_installed()


def version_of(adapter: Adapter) -> str:
    """Returns the version of a library as text. Raises LookupError if the adapter's ``version`` raises."""
    with _refusing(f"version() of the adapter {adapter.name} raised "):
        return str(adapter.version())


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Turns an error into LookupError. SystemExit too: its status would be taken for the kit's own."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LookupError(f"{what}{described(error)}") from error


def adapter_named(library: str) -> Adapter:
    """Returns the adapter that a name means.

    A name is that of an adapter of the kit, or of a module that has ``from_dlpack``. ``module:attribute`` is a subclass of
    :class:`Adapter`, a class that has ``from_dlpack``, or a function that imports arrays. An adapter of the last three
    kinds gets the whole text as its name, so that commands with this name find it again.

    Raises LookupError if the name means nothing of these.
    """
    module, colon, attribute = library.partition(":")
    if not colon:
        known = known_adapters()
        if library in known:
            return known[library]
        if not _is_module(library):
            raise LookupError(
                f"unknown library {library!r}: neither an adapter of the kit nor a module of {sys.executable}; "
                f"install the kit and the library in one environment; adapters: {', '.join(known)}"
            )
        return ModuleAdapter(library)
    with _refusing(f"cannot load the adapter {library}: "):
        found = reduce(getattr, attribute.split("."), importlib.import_module(module))
    if isinstance(found, type) and issubclass(found, Adapter):
        return _made(found, library)
    if isinstance(found, type) and not hasattr(found, "from_dlpack"):
        raise LookupError(
            f"{library} is not a subclass of dlbridge_conformance.Adapter, and lacks from_dlpack; to write an adapter: {GUIDE}"
        )
    if not callable(found):
        raise LookupError(f"{library} is not an adapter, a class or a function, but of {type(found).__name__}; to write an adapter: {GUIDE}")
    return ModuleAdapter(library)


def _made(found: type[Adapter], library: str) -> Adapter:
    """Makes an adapter of a class. Raises LookupError if that fails, or if the class lacks what every adapter needs."""
    if not getattr(found, "module", ""):
        raise LookupError(f"the adapter {library} lacks the attribute module, the name of the module to import")
    with _refusing(f"cannot make the adapter {library}: "):
        adapter = found()
    adapter.name = library
    return adapter


def _is_module(name: str) -> bool:
    try:
        # The search for a.b imports a.
        with _refusing(f"cannot import the package of {name}: "):
            return importlib.util.find_spec(name) is not None
    except LookupError as error:
        if isinstance(error.__cause__, ImportError | ValueError):
            return False
        raise


def all_rules() -> dict[str, Rule]:
    """All rules by id, ordered as the files in ``rules/``."""
    for module in sorted(info.name for info in pkgutil.iter_modules(rule_modules.__path__)):
        importlib.import_module(f"{rule_modules.__name__}.{module}")
    return dict(RULES)


def selected(patterns: Iterable[str]) -> dict[str, Rule]:
    """The rules that some patterns select: a rule's id, or the beginning of several ids. All rules without patterns.

    Raises ValueError for a pattern that selects no rule.
    """
    rules, wanted = all_rules(), list(patterns)
    for pattern in wanted:
        if not any(_matches(id, pattern) for id in rules):
            raise ValueError(f"unknown rule {pattern!r}; --list shows all")
    return {id: r for id, r in rules.items() if not wanted or any(_matches(id, pattern) for pattern in wanted)}


def _matches(id: str, pattern: str) -> bool:
    return id == pattern or (pattern not in RULES and id.startswith(f"{pattern}-"))
