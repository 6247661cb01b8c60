"""NIXL's back end HEARTH: objects of 4 KiB, 96 KiB and 2 MiB, 16 in a transfer, by the agent at the address that is given."""

import sys
import time

import numpy
from nixl_cu12._api import nixl_agent, nixl_agent_config
from step import content, run

OBJECTS = 32
SIZES = (4096, 96 << 10, 2 << 20)
AT_A_TIME = 16
LIMIT_S = 120


class Objects:
    """Objects of one size and the memory that they go to or come from."""

    def __init__(self, agent: nixl_agent, size: int) -> None:
        self.agent = agent
        self.size = size
        self.memory = numpy.zeros(OBJECTS * size, dtype=numpy.uint8)
        self.address = self.memory.ctypes.data
        self.registered = [
            agent.register_memory([(self.address, OBJECTS * size, 0, "")], "DRAM", backends=["HEARTH"]),
            agent.register_memory([(0, size, n, key(size, n)) for n in range(OBJECTS)], "OBJ", backends=["HEARTH"]),
        ]

    def transfer(self, operation: str, pieces: int = 1) -> None:
        """Each object in so many pieces, the last one first."""
        piece = self.size // pieces
        for first in range(0, OBJECTS, AT_A_TIME):
            parts = [(n, at * piece) for n in range(first, first + AT_A_TIME) for at in reversed(range(pieces))]
            memory = [(self.address + n * self.size + offset, piece, 0) for n, offset in parts]
            local = self.agent.get_xfer_descs(memory, "DRAM")
            remote = self.agent.get_xfer_descs([(offset, piece, n) for n, offset in parts], "OBJ")
            handle = self.agent.initialize_xfer(operation, local, remote, self.agent.name, backends=["HEARTH"])
            # A transfer may be posted again when it has ended.
            for _ in range(2):
                finish(self.agent, handle)
            self.agent.release_xfer_handle(handle)

    def close(self) -> None:
        for registered in self.registered:
            self.agent.deregister_memory(registered)


def key(size: int, number: int) -> str:
    return f"model/{size}/{number}@0"


def finish(agent: nixl_agent, handle: object) -> None:
    state = agent.transfer(handle)
    ends = time.monotonic() + LIMIT_S
    while state == "PROC" and time.monotonic() < ends:
        state = agent.check_xfer_state(handle)
    assert state == "DONE", state


def new_agent(address: str, fingerprint: str = "weights-1/page_first/bf16") -> nixl_agent:
    agent = nixl_agent(f"agent-{fingerprint}", nixl_agent_config(backends=[]))
    agent.create_backend("HEARTH", {"volume": "kv", "fingerprint": fingerprint, "addresses": address, "cluster": "e2e"})
    return agent


def found(agent: nixl_agent, size: int) -> int:
    answers = agent.query_memory([(0, 0, 0, key(size, n)) for n in range(2 * OBJECTS)], "HEARTH", "OBJ")
    assert all(answer is None for answer in answers[OBJECTS:])
    return sum(answer is not None for answer in answers)


def store(address: str) -> None:
    agent = new_agent(address)
    for size in SIZES:
        objects = Objects(agent, size)
        objects.memory[:] = numpy.frombuffer(content(size, OBJECTS * size), dtype=numpy.uint8)
        objects.transfer("WRITE")
        objects.close()
        assert found(agent, size) == OBJECTS


def load(address: str) -> None:
    agent = new_agent(address)
    for size in SIZES:
        assert found(agent, size) == OBJECTS, size
        for pieces in (1, 4):
            objects = Objects(agent, size)
            objects.transfer("READ", pieces)
            assert objects.memory.tobytes() == content(size, OBJECTS * size), (size, pieces)
            objects.close()
    # Blocks of other weights are misses.
    assert found(new_agent(address, "weights-2/page_first/bf16"), SIZES[0]) == 0


if __name__ == "__main__":
    run(store, load)
    sys.stdout.write("done\n")
