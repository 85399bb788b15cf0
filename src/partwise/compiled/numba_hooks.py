"""All uses of Numba that its documentation does not promise, each with what happens if Numba lacks it.

| hook | private part of Numba | without it |
|---|---|---|
| `private_options` | target options that leave out wrappers and reference counts | code takes longer to compile |
| `OptimiseOnce` | `CPUCodeLibrary._optimize_final_module` | inner functions are optimised twice |
| `adapt_cache` | `FunctionCache`, `IndexDataCacheFile`, `rtsys` | every process compiles for itself |
| `load_from_disk` | the cache of a dispatcher | the caller compiles |
| `callback` | `CFunc` | every process compiles for itself |

The hooks are on for the versions in `KNOWN`, which are those that `pyproject.toml` allows, and only if each part has
its expected shape. Documented and used directly elsewhere: `njit`, `overload`, `intrinsic`, `cgutils`, `event`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pickle import UnpicklingError
from typing import Any

import numba
from llvmlite.binding import Linkage
from numba.core import event

KNOWN = ((0, 60), (0, 69))  # the first Numba version whose private parts are known, and the first that is not
IS_KNOWN: bool = KNOWN[0] <= tuple(map(int, re.findall(r"\d+", numba.__version__)[:2])) < KNOWN[1]


def _private(module: str, name: str, *members: str) -> Any:
    """A private class of Numba that has these members; None if this Numba has no such class."""
    if not IS_KNOWN:
        return None
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return None
    return found if all(hasattr(found, member) for member in members) else None


# -- options ---------------------------------------------------------------------------------------


def private_options(**options: Any) -> dict[str, Any]:
    """Those of the options that this Numba has. They change the time to compile, never a result."""
    known = _private("numba.core.options", "DefaultOptions")
    return {name: value for name, value in options.items() if hasattr(known, name)}


# -- optimising once -------------------------------------------------------------------------------


class OptimiseOnce(event.Listener):
    """Leaves out the optimisation of inner functions by themselves, while partwise compiles.

    Numba optimises every function by itself, and again everything that it is linked into. Nothing calls an inner
    function by itself, so its own optimisation is of no use; without it compiling takes half the time.

    Numba's method is replaced from the start of the outermost compilation of a partwise function to its end. Numba's
    compiler lock is held for that time, so no other thread compiles. A user's function that is compiled meanwhile,
    because partwise calls it, is optimised by itself as usual.
    """

    def __init__(self) -> None:
        self.library = _private("numba.core.codegen", "CPUCodeLibrary", "_optimize_final_module")
        self.ours: dict[Any, bool] = {}  # functions of partwise, and whether they are inner
        self.compiling: list[Any] = []  # the innermost last
        self.original: Any = None
        self.outermost = 0  # number of functions being compiled around the outermost one of partwise
        if self.library is not None:
            event.register("numba:compile", self)

    def on_start(self, happened: Any) -> None:
        self._begin((happened.data or {}).get("dispatcher"))

    def on_end(self, happened: Any) -> None:
        self._end()

    @contextmanager
    def compiling_callback(self) -> Iterator[None]:
        """While a callback is compiled, of which Numba tells nobody."""
        self._begin(self)
        try:
            yield
        finally:
            self._end()

    def _begin(self, function: Any) -> None:
        is_ours = function is self or function in self.ours
        if self.library is not None and self.original is None and is_ours:
            self.original, self.outermost = self.library._optimize_final_module, len(self.compiling)
            self.library._optimize_final_module = lambda library: self._optimise(library)
        self.compiling.append(function)

    def _end(self) -> None:
        self.compiling.pop()
        if self.original is not None and len(self.compiling) == self.outermost:
            self.library._optimize_final_module = self.original
            self.original = None

    def _optimise(self, library: Any) -> None:
        if self.ours.get(self.compiling[-1], False):
            return
        # If inner functions stayed visible, this process would call their own code, which is not optimised.
        for function in getattr(getattr(library, "_final_module", None), "functions", ()):
            is_linked = not function.is_declaration and function.linkage == Linkage.linkonce_odr
            if is_linked and "partwise" in function.name:
                function.linkage = Linkage.internal
        self.original(library)


# -- the cache on disk -----------------------------------------------------------------------------

_FunctionCache: Any = _private(
    "numba.core.caching", "FunctionCache", "_load_overload", "_guard_against_spurious_io_errors"
)
_IndexFile: Any = _private(
    "numba.core.caching", "IndexDataCacheFile", "_load_index", "_save_index", "_save_data", "_data_name", "flush"
)  # fmt: skip
_runtime: Any = getattr(_private("numba.core.runtime", "rtsys", "initialize"), "initialize", None)
# Errors that reading a damaged index raises.
_DAMAGED = (EOFError, UnpicklingError, ValueError, LookupError, AttributeError, ImportError)


class SafeCache(_FunctionCache or object):  # type: ignore[misc]
    """A cache that loads machine code without the compiler, and whose failures never end a program.

    Before Numba looks into a cache, it imports all that it can compile: 0.3 CPU seconds in every process. Loading
    needs only the runtime that counts references.
    """

    tell: Callable[[object], None]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            _runtime(target_context)
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except Exception:  # a damaged pickle can raise nearly anything; the function is compiled instead
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self.tell(error.strerror or error)
        except _DAMAGED:
            with suppress(OSError):
                self._cache_file.flush()  # start a new index
                super().save_overload(sig, data)


class SafeIndexFile(_IndexFile or object):  # type: ignore[misc]
    """Files of one function, of which the index is written last: a killed process leaves no key without its code."""

    def save(self, key: Any, data: Any) -> None:
        overloads = self._load_index()
        taken = set(overloads.values())
        free = next(n for n in range(1, len(taken) + 2) if self._data_name(n) not in taken)
        name = overloads.get(key, self._data_name(free))
        self._save_data(name, data)
        self._save_index({**overloads, key: name})


def adapt_cache(compiled: Any, stamp: Callable[[], str], tell: Callable[[object], None]) -> bool:
    """Make the cache of a compiled function depend on `stamp`; False if that is not possible.

    Numba's own stamp knows the file of a function, not the files that the function calls: such a cache must not be
    used. `tell` hears why code cannot be saved.
    """
    cache: Any = getattr(compiled, "_cache", None)
    file: Any = getattr(cache, "_cache_file", None)
    if _runtime is None or type(cache) is not _FunctionCache or type(file) is not _IndexFile:
        return False
    if not hasattr(file, "_source_stamp"):
        return False
    cache.__class__, file.__class__ = SafeCache, SafeIndexFile
    cache.tell, file._source_stamp = tell, stamp()
    return True


def load_from_disk(dispatcher: Any, argument_types: tuple[Any, ...]) -> bool:
    """Whether code of these types was on disk; it is loaded then."""
    cache, context = getattr(dispatcher, "_cache", None), getattr(dispatcher, "targetctx", None)
    return isinstance(cache, SafeCache) and cache.load_overload(argument_types, context) is not None


# -- callbacks -------------------------------------------------------------------------------------

_CFunc: Any = _private("numba.core.ccallback", "CFunc", "enable_caching", "compile", "_compile_uncached")


class _NotCached(Exception):
    """A function that was only to be loaded is not on disk."""


class CachedCallback(_CFunc or object):  # type: ignore[misc]
    """A callback that can be loaded from disk without being compiled if it is not there."""

    is_only_loaded = False

    def load(self) -> bool:
        """Whether the callback was on disk; it is loaded then."""
        self.is_only_loaded = True
        try:
            self.compile()
        except _NotCached:
            return False
        finally:
            self.is_only_loaded = False
        return True

    def _compile_uncached(self) -> Any:
        if self.is_only_loaded:
            raise _NotCached
        with OPTIMISE_ONCE.compiling_callback():
            compiled = super()._compile_uncached()
            # Numba links and optimises a callback only when its address is first asked for. Asked for later, without
            # our method, its inner functions stay visible, and meet those of other callbacks that have the same names.
            compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)
        return compiled


class PlainCallback:
    """A callback by Numba's public decorator, compiled by every process."""

    cache_hits = 0

    def __init__(self, function: Callable, signature: Any, options: dict[str, Any]):
        self._compiled: Any = None
        self._compile: Any = lambda: numba.cfunc(signature, **options)(function)

    def compile(self) -> None:
        self._compiled = self._compiled or self._compile()

    def load(self) -> bool:
        return False

    @property
    def address(self) -> int:
        return self._compiled.address


def callback(function: Callable, signature: Any, options: dict[str, Any], cached: bool) -> Any:
    """A callback that is not compiled yet, with `compile`, `load`, `address` and `cache_hits`.

    `signature` is a Numba signature; unless `cached`, every process compiles.
    """
    if _CFunc is None:
        return PlainCallback(function, signature, options)
    made = CachedCallback(
        function, (signature.args, signature.return_type), locals={}, options={"nopython": True, **options}
    )
    if cached:
        made.enable_caching()
    return made


OPTIMISE_ONCE = OptimiseOnce()
