"""Object code into memory: one LLVM engine for the process, plain C functions out of it."""

import ctypes
import functools
import threading

import llvmlite.binding as ll

from .errors import KernelError

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
SHARE = "_share"
_lock = threading.Lock()


@functools.cache
def _engine():
    ll.initialize_native_target()
    ll.initialize_native_asmprinter()
    ll.initialize_native_asmparser()
    target = ll.Target.from_triple(ll.get_process_triple())
    machine = target.create_target_machine(opt=3, reloc="default", codemodel="jitdefault", jit=True)
    module = ll.parse_assembly("")
    module.triple = ll.get_process_triple()
    return ll.create_mcjit_compiler(module, machine)


def load(code, symbol):
    """The C functions `symbol` and `symbol_share` of some object code, callable without the interpreter's lock."""
    with _lock:
        engine = _engine()
        engine.add_object_file(ll.ObjectFileRef.from_data(code))
        engine.finalize_object()
        addresses = [engine.get_function_address(name) for name in (symbol, symbol + SHARE)]
    if not all(addresses):
        raise OSError(f"no function {symbol} in the object code")
    entries = [ENTRY(address) for address in addresses]
    for entry, address in zip(entries, addresses, strict=True):
        entry.errcheck, entry.address = check, address
    return entries


def link(text, symbols):
    """Addresses of the functions of a module of LLVM's language, which is compiled as it stands."""
    with _lock:
        engine = _engine()
        module = ll.parse_assembly(text)
        module.triple = triple()
        engine.add_module(module)
        engine.finalize_object()
        return [engine.get_function_address(symbol) for symbol in symbols]


def triple():
    return ll.get_process_triple()


def check(status, function=None, arguments=()):
    """A kernel's only way to fail is a range() whose step is zero."""
    if status:
        raise KernelError("a kernel's range() has a step of zero")
