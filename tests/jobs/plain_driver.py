#!/usr/bin/env python3
"""A program that calls the CUDA driver by itself: allocates, copies there and back, compares.

    plain_driver.py --json FILE

JAX's plugin refuses to start on a driver without virtual memory management; this program does not mind.
"""

import ctypes
import json
import sys

SIZE = 4 << 20

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status:
        sys.exit(f"{name} returned {status}")


device, context = ctypes.c_int(), ctypes.c_void_p()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)

source = bytes(range(256)) * (SIZE // 256)
back = ctypes.create_string_buffer(SIZE)
pointers = [ctypes.c_uint64() for _ in range(8)]
for pointer in pointers:
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(SIZE))
    call("cuMemcpyHtoD_v2", pointer, source, ctypes.c_size_t(SIZE))
for pointer in pointers:
    call("cuMemcpyDtoH_v2", back, pointer, ctypes.c_size_t(SIZE))
    if back.raw != source:
        sys.exit("other bytes came back")
    call("cuMemFree_v2", pointer)
with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
    json.dump({"copied": len(pointers) * SIZE}, file)
