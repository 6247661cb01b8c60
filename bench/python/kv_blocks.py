"""Blocks of 2 MiB in a store of three nodes: 70 % gets of random blocks, 30 % puts of new ones, 64 in flight.

python bench/python/kv_blocks.py files MOUNT MOUNT MOUNT        one file for each block
python bench/python/kv_blocks.py keys VOLUME AGENT AGENT AGENT  values under keys (HEARTH_CLUSTER, HEARTH_TOKEN)
python bench/python/kv_blocks.py redis PORT PORT PORT           servers on 127.0.0.1; a block is on one of them
python bench/python/kv_blocks.py mooncake PORT                  its master on 127.0.0.1; a segment in each node's process

prints GIB_PER_SECOND P99_MS GET_P99_MS PUT_P99_MS of the gets and puts that follow the first 384 blocks. Each node is a
process, and each operation in flight a thread of it. A get that finds other bytes than were put ends the program.
"""

import ctypes
import mmap
import multiprocessing
import os
import queue
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Protocol

NODES = 3
IN_FLIGHT = (22, 21, 21)
BLOCK = 2 << 20
FIRST = 384
OPERATIONS = 1536
GETS = 0.7
MARK = 8


class Store(Protocol):
    """What one thread of a node uses; `memory` is a buffer of a block."""

    def put(self, number: int, memory: memoryview) -> None: ...

    def get(self, number: int, memory: memoryview) -> None: ...


class Files:
    def __init__(self, mount: str) -> None:
        self.folder = os.path.join(mount, "blocks")
        os.makedirs(self.folder, exist_ok=True)

    def put(self, number: int, memory: memoryview) -> None:
        part = os.path.join(self.folder, f"{number}.part")
        file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        written = os.write(file, memory)
        os.close(file)
        assert written == BLOCK
        os.rename(part, os.path.join(self.folder, str(number)))

    def get(self, number: int, memory: memoryview) -> None:
        file = os.open(os.path.join(self.folder, str(number)), os.O_RDONLY)
        read = os.readv(file, [memory])
        os.close(file)
        assert read == BLOCK


class Keys:
    """One client of a process, which its threads share; their buffers are registered."""

    def __init__(self, volume: str, agent: str, arena: mmap.mmap) -> None:
        import pygd2fs.kv

        self.client = pygd2fs.Client(agent, [], "")
        self.iomem = self.client.RegIOMEM(arena)
        self.sge = pygd2fs.SGE
        self.space = pygd2fs.kv.KV(self.client, volume, b"bench")

    def part(self, memory: memoryview) -> list[object]:
        return [self.sge(ctypes.addressof(ctypes.c_char.from_buffer(memory)), BLOCK, self.iomem)]

    def put(self, number: int, memory: memoryview) -> None:
        assert self.space.put([str(number).encode()], [self.part(memory)]).statuses == [0]

    def get(self, number: int, memory: memoryview) -> None:
        got = self.space.get([str(number).encode()], [self.part(memory)])
        assert (got.statuses, got.sizes) == ([0], [BLOCK])


class Redis:
    """The protocol of redis, https://redis.io/docs/latest/develop/reference/protocol-spec, without a copy of a block."""

    def __init__(self, ports: list[int]) -> None:
        self.servers = [socket.create_connection(("127.0.0.1", port)) for port in ports]
        for server in self.servers:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def put(self, number: int, memory: memoryview) -> None:
        server, key = self.servers[number % len(self.servers)], str(number)
        server.sendall(f"*3\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n${BLOCK}\r\n".encode())
        server.sendall(memory)
        server.sendall(b"\r\n")
        assert server.recv(5, socket.MSG_WAITALL) == b"+OK\r\n"

    def get(self, number: int, memory: memoryview) -> None:
        server, key = self.servers[number % len(self.servers)], str(number)
        server.sendall(f"*2\r\n$3\r\nGET\r\n${len(key)}\r\n{key}\r\n".encode())
        head = f"${BLOCK}\r\n".encode()
        assert server.recv(len(head), socket.MSG_WAITALL) == head
        done = 0
        while done < BLOCK:
            done += server.recv_into(memory[done:], BLOCK - done)
        assert server.recv(2, socket.MSG_WAITALL) == b"\r\n"


class Mooncake:
    """One client of a process, which its threads share; their buffers are registered."""

    def __init__(self, master: int, arena: mmap.mmap) -> None:
        from mooncake.store import MooncakeDistributedStore

        self.client = MooncakeDistributedStore()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        endpoints = (f"127.0.0.1:{port}", "P2PHANDSHAKE")
        master_address = f"127.0.0.1:{master}"
        if self.client.setup(*endpoints, 1 << 30, 64 << 20, "tcp", "", master_address):
            sys.exit("Mooncake does not start")
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(arena))
        if self.client.register_buffer(self.start, len(arena)):
            sys.exit("Mooncake does not register the buffers")

    @staticmethod
    def address(memory: memoryview) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def put(self, number: int, memory: memoryview) -> None:
        assert self.client.batch_put_from([str(number)], [self.address(memory)], [BLOCK]) == [0]

    def get(self, number: int, memory: memoryview) -> None:
        assert self.client.batch_get_into([str(number)], [self.address(memory)], [BLOCK]) == [BLOCK]


class Node:
    """A process with its threads. `ready` has a byte for each block that has been put."""

    def __init__(self, index: int, ready: memoryview, words: list[str]) -> None:
        self.index, self.ready = index, ready
        self.kind, *self.places = words
        count = IN_FLIGHT[index]
        self.arena = mmap.mmap(-1, count * BLOCK)
        self.arena[:] = os.urandom(BLOCK) * count
        view = memoryview(self.arena)
        self.buffers = [view[at * BLOCK : (at + 1) * BLOCK] for at in range(count)]
        shared = self.shared()
        self.stores: list[Store] = [shared or self.store() for _ in range(count)]
        self.lock = threading.Lock()
        self.gets: list[float] = []
        self.puts: list[float] = []
        self.failures: list[str] = []

    def shared(self) -> Store | None:
        if self.kind == "mooncake":
            return Mooncake(int(self.places[0]), self.arena)
        if self.kind == "keys":
            volume, *agents = self.places
            return Keys(volume, agents[self.index], self.arena)
        return None

    def store(self) -> Store:
        return Files(self.places[self.index]) if self.kind == "files" else Redis([int(port) for port in self.places])

    def put(self, thread: int, number: int) -> float:
        memory = self.buffers[thread]
        mark = number.to_bytes(MARK, "little")
        memory[:MARK] = memory[-MARK:] = mark
        began = time.perf_counter()
        self.stores[thread].put(number, memory)
        took = time.perf_counter() - began
        self.ready[number] = 1
        return took

    def get(self, thread: int, number: int) -> float:
        memory = self.buffers[thread]
        began = time.perf_counter()
        self.stores[thread].get(number, memory)
        took = time.perf_counter() - began
        mark = number.to_bytes(MARK, "little")
        assert memory[:MARK] == mark == memory[-MARK:], f"block {number} has other bytes"
        return took

    def each(self, work: Iterator[tuple[str, int]]) -> None:
        """All of the work by all threads; each operation is a put of a number, or a get of whichever block is ready."""

        def run(thread: int) -> None:
            chosen = random.Random(self.index * 100 + thread)
            try:
                while True:
                    with self.lock:
                        operation = next(work, None)
                    if operation is None:
                        return
                    name, number = operation
                    if name == "put":
                        took = self.put(thread, number)
                        with self.lock:
                            self.puts.append(took)
                        continue
                    number = chosen.randrange(len(self.ready))
                    while not self.ready[number]:
                        number = chosen.randrange(len(self.ready))
                    took = self.get(thread, number)
                    with self.lock:
                        self.gets.append(took)
            except Exception as error:  # All of a thread's failures end the run.
                self.failures.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=run, args=(thread,)) for thread in range(IN_FLIGHT[self.index])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failures:
            sys.exit(self.failures[0])


def operations(index: int) -> list[tuple[str, int]]:
    """Of a node: gets and puts of new numbers, in an order that is the same in every run."""
    chosen = random.Random(index)
    puts = iter(range(FIRST + index, FIRST + OPERATIONS, NODES))
    return [("get", 0) if chosen.random() < GETS else ("put", next(puts)) for _ in range(OPERATIONS // NODES)]


def node(index: int, ready: memoryview, words: list[str], barrier: object, results: object) -> None:
    ours = Node(index, ready, words)
    barrier.wait()  # type: ignore[attr-defined]
    ours.each(("put", number) for number in range(index, FIRST, NODES))
    ours.puts.clear()
    work = operations(index)
    barrier.wait()  # type: ignore[attr-defined]
    began = time.perf_counter()
    ours.each(iter(work))
    results.put((ours.gets, ours.puts, began, time.perf_counter()))  # type: ignore[attr-defined]
    results.close()  # type: ignore[attr-defined]
    results.join_thread()  # type: ignore[attr-defined]
    os._exit(0)  # without Mooncake's threads, which may hang at the end


def late(times: list[float]) -> float:
    """Milliseconds, 99th percentile."""
    return sorted(times)[int(0.99 * len(times))] * 1e3


def main() -> None:
    barrier, results = multiprocessing.Barrier(NODES), multiprocessing.Queue()
    ready = memoryview(mmap.mmap(-1, FIRST + OPERATIONS))
    processes = [
        multiprocessing.Process(target=node, args=(index, ready, sys.argv[1:], barrier, results), daemon=True)
        for index in range(NODES)
    ]
    for process in processes:
        process.start()
    all_results = []
    while len(all_results) < NODES:
        try:
            all_results.append(results.get(timeout=1))
        except queue.Empty:
            if any(process.exitcode for process in processes):
                sys.exit("a node failed")
    gets, puts, begins, ends = zip(*all_results, strict=True)
    all_gets, all_puts = sum(gets, []), sum(puts, [])
    # All processes have one clock.
    speed = (len(all_gets) + len(all_puts)) * BLOCK / 2**30 / (max(ends) - min(begins))
    print(f"{speed:.3f} {late(all_gets + all_puts):.1f} {late(all_gets):.1f} {late(all_puts):.1f}")


if __name__ == "__main__":
    main()
