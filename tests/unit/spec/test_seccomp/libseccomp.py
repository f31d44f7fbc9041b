"""Owns the way to libseccomp: resolving names, and building a profile's filter as runc builds it."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

import pytest

from crabpot.spec.seccomp.numbers import AUDIT_ARCHES

_ACT_ALLOW, _ACT_ERRNO = 0x7FFF_0000, 0x0005_0000
_CMP_MASKED_EQ = 7
_ATTR_OPTIMIZE = 8
_UNKNOWN = -1  # __NR_SCMP_ERROR


class _ArgCmp(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def load() -> ctypes.CDLL:
    """Open the library, or skip the test that wants it."""
    try:
        lib = ctypes.CDLL("libseccomp.so.2")
    except OSError as missing:
        pytest.skip(f"libseccomp is not installed: {missing}")
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_init.argtypes = [ctypes.c_uint32]
    lib.seccomp_arch_native.restype = ctypes.c_uint32
    lib.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    lib.seccomp_release.argtypes = [ctypes.c_void_p]
    lib.seccomp_arch_add.argtypes = lib.seccomp_arch_remove.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    lib.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.POINTER(_ArgCmp),
    ]
    lib.seccomp_syscall_resolve_name_arch.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    return lib


def resolve(lib: ctypes.CDLL, machine: str, name: str) -> int | None:
    """Look a number up. None: the library has never heard of the call; negative: this machine does not have it."""
    number: int = lib.seccomp_syscall_resolve_name_arch(AUDIT_ARCHES[machine], name.encode())
    return None if number == _UNKNOWN else number


def build(
    lib: ctypes.CDLL,
    profile: dict[str, Any],
    machine: str,
    *,
    optimize: int,
    knows_default_errno: bool = True,
) -> bytes:
    """Build a profile's filter as runc does. Without `knows_default_errno`: as Docker 20.10 makes runc do it."""
    default = _ACT_ERRNO | (profile["defaultErrnoRet"] if knows_default_errno else errno.EPERM)
    context = lib.seccomp_init(default)
    try:
        native = lib.seccomp_arch_native()
        if native != AUDIT_ARCHES[machine]:
            assert lib.seccomp_arch_add(context, AUDIT_ARCHES[machine]) == 0
            assert lib.seccomp_arch_remove(context, native) == 0
        assert lib.seccomp_attr_set(context, _ATTR_OPTIMIZE, optimize) == 0
        for entry in profile["syscalls"]:
            allow = entry["action"] == "SCMP_ACT_ALLOW"
            action = _ACT_ALLOW if allow else _ACT_ERRNO | entry["errnoRet"]
            args = (_ArgCmp * len(entry["args"]))(
                *(_ArgCmp(arg["index"], _CMP_MASKED_EQ, arg["value"], arg["valueTwo"]) for arg in entry["args"])
            )
            for name in entry["names"]:
                # Rules are added by the native machine's numbers, whatever machine the filter is for.
                number = lib.seccomp_syscall_resolve_name(name.encode())
                if action == default or number == _UNKNOWN:
                    continue
                assert lib.seccomp_rule_add_array(context, action, number, len(args), args) == 0, name
        return _exported(lib, context)
    finally:
        lib.seccomp_release(context)


def _exported(lib: ctypes.CDLL, context: int) -> bytes:
    fd = os.memfd_create("filter")
    try:
        assert lib.seccomp_export_bpf(context, fd) == 0
        os.lseek(fd, 0, os.SEEK_SET)
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)
