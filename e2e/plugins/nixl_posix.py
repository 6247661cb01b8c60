"""NIXL's back end POSIX: one file of 64 blocks past the page cache, in blocks of 4 KiB and of 2 MiB, 16 at a time."""

import mmap
import os
import time

import numpy
from nixl_cu12._api import nixl_agent, nixl_agent_config
from step import content, run

BLOCKS = 64
SIZES = (4096, 2 << 20)
AT_A_TIME = 16
LIMIT_S = 120


class Memory:
    """Whole pages, registered."""

    def __init__(self, agent: nixl_agent, size: int) -> None:
        self.map = mmap.mmap(-1, size)
        self.bytes = numpy.frombuffer(self.map, dtype=numpy.uint8)
        self.address = self.bytes.ctypes.data
        agent.register_memory([(self.address, size, 0, "")], "DRAM")


def transfer(agent: nixl_agent, operation: str, memory: Memory, file: int, size: int) -> None:
    agent.register_memory([(0, BLOCKS * size, file, "")], "FILE")
    for first in range(0, BLOCKS, AT_A_TIME):
        blocks = range(first, first + AT_A_TIME)
        local = agent.get_xfer_descs([(memory.address + block * size, size, 0) for block in blocks], "DRAM")
        remote = agent.get_xfer_descs([(block * size, size, file) for block in blocks], "FILE")
        handle = agent.initialize_xfer(operation, local, remote, agent.name)
        state = agent.transfer(handle)
        ends = time.monotonic() + LIMIT_S
        while state == "PROC" and time.monotonic() < ends:
            state = agent.check_xfer_state(handle)
        assert state == "DONE", (operation, first, state)
        agent.release_xfer_handle(handle)


def new_agent() -> nixl_agent:
    agent = nixl_agent("agent", nixl_agent_config(backends=[]))
    agent.create_backend("POSIX", {})
    return agent


def path(mount: str, size: int) -> str:
    return os.path.join(mount, f"nixl-{size}")


def store(mount: str) -> None:
    for size in SIZES:
        agent = new_agent()
        memory = Memory(agent, BLOCKS * size)
        memory.map[:] = content(size, BLOCKS * size)
        file = os.open(path(mount, size), os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
        transfer(agent, "WRITE", memory, file, size)
        os.close(file)


def load(mount: str) -> None:
    for size in SIZES:
        agent = new_agent()
        memory = Memory(agent, BLOCKS * size)
        file = os.open(path(mount, size), os.O_RDONLY | os.O_DIRECT)
        transfer(agent, "READ", memory, file, size)
        os.close(file)
        assert memory.map[:] == content(size, BLOCKS * size), size


if __name__ == "__main__":
    run(store, load)
