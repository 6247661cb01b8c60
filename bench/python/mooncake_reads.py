"""Reads of another process's memory by Mooncake's transfer engine over TCP, one in flight, on the loopback.

python bench/python/mooncake_reads.py BYTES COUNT     prints MEDIAN_US P99_US GIB_PER_SECOND

Needs `pip install mooncake-transfer-engine-non-cuda` and the package libibverbs1.
"""

import ctypes
import mmap
import os
import subprocess
import sys
import time

from mooncake.engine import TransferEngine

HOST = "127.0.0.1"


class Memory:
    """Registered memory, all of it written."""

    def __init__(self, size: int) -> None:
        self.engine = TransferEngine()
        if self.engine.initialize(f"{HOST}:0", "P2PHANDSHAKE", "tcp", ""):
            sys.exit("Mooncake does not start")
        self.map = mmap.mmap(-1, size)
        piece = os.urandom(min(size, 1 << 20))
        for _ in range(size // len(piece)):
            self.map.write(piece)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.engine.register_memory(self.address, size)


def serve(size: int) -> None:
    memory = Memory(size)
    # The engine writes to the standard output as well.
    print(f"serves {HOST}:{memory.engine.get_rpc_port()} {memory.address}", flush=True)
    sys.stdin.read()


def read(size: int, count: int) -> None:
    arguments = [sys.executable, __file__, "serve", str(size)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        said = next(line for line in server.stdout if line.startswith("serves "))
        _, peer, remote = said.split()
        memory = Memory(size)
        times = []
        for index in range(count + 1):
            began = time.perf_counter()
            if memory.engine.transfer_sync_read(peer, memory.address, int(remote), size):
                sys.exit("a read failed")
            # The first one connects.
            if index:
                times.append((time.perf_counter() - began) * 1e6)
        server.stdin.close()
    times.sort()
    median, late = times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))]
    print(f"{median:.1f} {late:.1f} {size / 2**30 / (median / 1e6):.3f}")
    sys.stdout.flush()
    os._exit(0)  # without the engine's threads, which may hang at the end


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    read(int(sys.argv[1]), int(sys.argv[2]))
