"""Kernels become machine code: Numba lowers the Python function, LLVM optimises it and emits an object file.

This module is imported when the first kernel must be compiled, never by a process that finds all its code in the
library. Numba's private parts are used here only, and each compilation fails loudly if one is missing: `compile_extra`,
`CPUCodeLibrary`, `CPUContext`, and the layout of Numba's counted memory (`_RUNTIME`).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import _dynfunc, from_dtype, types  # type: ignore[attr-defined]
from numba.core import compiler
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload, typeof_impl

from partwise.compiled.boundary import argument_loader, result_writer
from partwise.compiled.dispatch import Deferred, Generic, deferred
from partwise.compiled.kernels import Entry, Kernel, callable_by_kernels

# "nnan" and "ninf" are left out: −inf is a legal score.
_FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "afn"}
_OPTIONS: dict[str, Any] = {"fastmath": _FAST_MATH, "error_model": "numpy", "boundscheck": False}
_njit: Any = numba.njit
_LETTERS = {"i": types.int64, "d": types.float64}

# What arrays that compiled code makes need from Numba's runtime: memory with a count of references before it.
_RUNTIME = """
declare i8* @malloc(i64)
declare void @free(i8*)

define i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %wanted = add i64 %size, 128
  %all = call i8* @malloc(i64 %wanted)
  %failed = icmp eq i8* %all, null
  br i1 %failed, label %end, label %fill
fill:
  %head = bitcast i8* %all to i64*
  %place = ptrtoint i8* %all to i64
  %after = add i64 %place, 127
  %data = and i64 %after, -64
  store i64 1, i64* %head
  %dtor = getelementptr i64, i64* %head, i64 1
  store i64 0, i64* %dtor
  %info = getelementptr i64, i64* %head, i64 2
  store i64 0, i64* %info
  %at = getelementptr i64, i64* %head, i64 3
  store i64 %data, i64* %at
  %count = getelementptr i64, i64* %head, i64 4
  store i64 %size, i64* %count
  %other = getelementptr i64, i64* %head, i64 5
  store i64 0, i64* %other
  br label %end
end:
  ret i8* %all
}

define void @NRT_MemInfo_call_dtor(i8* %all) {
  call void @free(i8* %all)
  ret void
}
"""


# Functions of the system's libraries that machine code may call. Code that also calls Numba's own functions runs
# only in processes that have imported Numba.
_SYSTEM = frozenset(
    [
        "malloc",
        "free",
        "memcpy",
        "memmove",
        "memset",
        "sched_yield",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "log2",
        "log10",
        "pow",
        "sqrt",
        "cbrt",
        "hypot",
        "floor",
        "ceil",
        "trunc",
        "round",
        "fabs",
        "fmod",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "tanh",
        "erf",
        "erfc",
        "lgamma",
        "tgamma",
        "ldexp",
        "frexp",
    ]
)


class MachineCode(NamedTuple):
    """An object file, and whether it runs where Numba is not."""

    code: bytes
    is_complete: bool


def object_code(kernel: Kernel, levels: tuple[str, ...] | None = None) -> Any:
    """The :class:`MachineCode` of a kernel for this very processor; or a list of them for levels of processors."""
    with global_compiler_lock:
        # First the types, since reading them imports what they belong to.
        given = [_LETTERS[each] for each in kernel.types] if kernel.is_addressed else types_of(kernel.types)
        with _only_lowering():
            _meet()
            if kernel.is_addressed:
                lowered = _lowered(kernel.symbol, kernel.__wrapped__, given, types.float64)
            else:
                lowered = _lowered(kernel.symbol, _packed(kernel, given), [types.int64], types.int64)
    if levels is None:
        return _emitted(
            lowered, kernel.symbol, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
        )
    return [_emitted(lowered, kernel.symbol, level, "") for level in levels]


# -- Python to LLVM ------------------------------------------------------------------------------------


def _lowered(symbol: str, function: Callable, arguments: list[Any], result: Any) -> bytes:
    """LLVM's bitcode of a function and all that it calls, not optimised. It returns 0 or NaN if it fails."""
    flags: Any = compiler.Flags()
    cpu_target.options.parse_as_flags(flags, {"nopython": True, **_OPTIONS})
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.enable_pyobject = False
    context: Any = cpu_target.target_context
    compiled = compiler.compile_extra(
        cpu_target.typing_context, context, function, tuple(arguments), result, flags, {}
    )
    module, described = context.create_module(symbol), compiled.fndesc
    words = [context.get_value_type(each) for each in arguments]
    outer = ir.Function(module, ir.FunctionType(context.get_value_type(result), words), symbol)
    called_type = context.call_conv.get_function_type(described.restype, described.argtypes)
    called = ir.Function(module, called_type, described.llvm_func_name)
    builder = ir.IRBuilder(outer.append_basic_block())
    status, found = context.call_conv.call_function(
        builder, called, described.restype, described.argtypes, outer.args
    )
    failed = ir.Constant(found.type, float("nan") if result == types.float64 else 0)
    builder.ret(builder.select(status.is_ok, found, failed))
    compiled.library.add_ir_module(module)
    compiled.library.finalize()
    code: bytes = compiled.library._final_module.as_bitcode()
    return code


def _packed(kernel: Kernel, arguments: Any) -> Callable:
    """The kernel's function over the address of a row of words."""
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": kernel.allocates}
    namespace = {
        "function": _njit(kernel.__wrapped__, **options, **_OPTIONS),
        "load": argument_loader(arguments.types),
        "write": _known(result_writer),
    }
    exec("def packed(words):\n    return write(words, function(*load(words)))", namespace)
    return namespace["packed"]


def types_of(text: str) -> Any:
    """Numba's types of arguments described by :func:`partwise.compiled.kernels.described`."""
    found, rest = _read_type(text)
    assert not rest, text
    return found


def _read_type(text: str) -> tuple[Any, str]:
    plain = {"int": types.int64, "float": types.float64, "bool": types.boolean, "none": types.none}
    name = re.match(r"[\w.:]*", text).group()  # type: ignore[union-attr]
    rest = text[len(name) :]
    if rest.startswith("["):
        dimensions, rest = re.match(r"\[(\d+)\](.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
        return types.Array(from_dtype(np.dtype(name)), int(dimensions), "C"), rest
    if not rest.startswith("("):
        return plain[name], rest
    fields, rest = [], rest[1:]
    while not rest.startswith(")"):
        field, rest = _read_type(rest.removeprefix(","))
        fields.append(field)
    if not name:
        return types.BaseTuple.from_types(fields), rest[1:]
    module, record = name.split(":")
    return types.BaseTuple.from_types(fields, getattr(importlib.import_module(module), record)), rest[1:]


@contextmanager
def _only_lowering() -> Iterator[None]:
    """Lower without optimising, and make nothing executable.

    Numba optimises every function by itself, and again everything that it is linked into, and makes each callable from
    Python. Here only whole kernels are optimised, and Python calls none but those. Functions of others that are
    compiled meanwhile, because a kernel calls them, are treated as usual.
    """
    ours = {each.__qualname__ for each in callable_by_kernels} | {"packed", "forward", "typed"}

    def finalize(library: Any) -> None:
        library._finalize_dynamic_globals()
        library._finalized = True

    def executable(context: Any, library: Any, described: Any, environment: Any) -> Any:
        # Numba knows a compiled function by a builtin function of its own. Nobody calls those of ours.
        return _dynfunc.make_function(described.lookup_module(), described.qualname, "", 0, environment, ())

    instead: dict[tuple[type, str], Callable] = {
        (CPUCodeLibrary, "_optimize_final_module"): lambda library: None,
        (CPUCodeLibrary, "_finalize_final_module"): finalize,
        (CPUContext, "get_executable"): executable,
    }
    before = {place: getattr(*place) for place in instead}

    def choosing(place: tuple[type, str]) -> Callable:
        def method(*arguments: Any) -> Any:
            library = next(each for each in arguments if isinstance(each, CPUCodeLibrary))
            return (instead if library.name in ours else before)[place](*arguments)

        return method

    for place in instead:
        setattr(*place, choosing(place))
    try:
        yield
    finally:
        for place, method in before.items():
            setattr(*place, method)


# -- LLVM to machine code ------------------------------------------------------------------------------


def _emitted(lowered: bytes, symbol: str, processor: str, features: str) -> MachineCode:
    """The object file for a processor. It shows one name."""
    module = llvm.parse_bitcode(lowered)
    module.link_in(llvm.parse_assembly(_RUNTIME))
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name != symbol:
            each.linkage = llvm.Linkage.internal
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=processor, features=features, opt=3, reloc="pic", codemodel="default"
    )
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    passes = llvm.create_pass_builder(machine, tuning)
    passes.getModulePassManager().run(module, passes)
    outside = {each.name for each in (*module.functions, *module.global_variables) if each.is_declaration}
    is_complete = all(name in _SYSTEM or name.startswith("llvm.") for name in outside)
    return MachineCode(machine.emit_object(module), is_complete)


# -- functions that were waiting -----------------------------------------------------------------------


_n_met = 0


def _meet() -> None:
    """Make all deferred functions known to Numba, and put them in their places in all modules of kernels."""
    global _n_met
    if _n_met == len(callable_by_kernels):
        return
    for each in deferred:
        if isinstance(each, Generic):
            _overload(each)
        else:
            each.made = _made(each)
    deferred.clear()
    for namespace in {id(each.__globals__): each.__globals__ for each in callable_by_kernels}.values():
        for name, value in list(namespace.items()):
            if type(value) is Deferred:
                namespace[name] = value.made
    for function in callable_by_kernels:
        for cell in function.__closure__ or ():
            if type(cell.cell_contents) is Deferred:
                cell.cell_contents = cell.cell_contents.made
    _n_met = len(callable_by_kernels)


@typeof_impl.register(Entry)
def _type_of_entry(each: Entry, purpose: Any) -> Any:
    """Compiled code may call what Python calls too."""
    if each.made is None:
        each.made = _made(each)
    return types.Dispatcher(each.made)


def _made(each: Any) -> Any:
    if each.role == "intrinsic":
        return intrinsic(each.py_func)
    if each.role == "fragment":
        return _njit(each.py_func, inline="always", **_OPTIONS)
    return _njit(
        each.py_func, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=each.allocates, **_OPTIONS
    )


def _overload(generic: Generic) -> None:
    """Register a function that is chosen by the class of its first argument."""
    code = generic.stub.__code__
    names = ", ".join(code.co_varnames[: code.co_argcount])

    def choose(*argument_types: Any) -> Any:
        first: Any = argument_types[0]
        if not isinstance(first, types.BaseNamedTuple):
            return None
        found = generic.implementations[first.instance_class]  # type: ignore[attr-defined]
        namespace = {"found": _known(found)}
        exec(f"def forward({names}):\n    return found({names})", namespace)
        return namespace["forward"]

    # Numba requires the same argument names in the chooser and in the function that it returns.
    namespace: dict[str, Any] = {"choose": choose}
    exec(f"def typed({names}):\n    return choose({names})", namespace)
    overload(generic.stub, strict=False, inline="always")(namespace["typed"])


def _known(function: Any) -> Any:
    """What the compiler made of a function that was deferred; other functions as they are."""
    return getattr(function, "made", function)
