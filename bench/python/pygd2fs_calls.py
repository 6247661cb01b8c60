"""What reads through pygd2fs cost, and how many are in flight on one event loop.

python bench/python/pygd2fs_calls.py AGENT     (build/release/client_tests/hearth_gd2fs_serve)

Prints MICROSECONDS_PER_CALL READS_IN_FLIGHT: the processor time of the calling thread for one Read and its part of
Wait; and how many ReadAsync were accepted by a loop before it saw the first one's end, all of which end well.
"""

import asyncio
import ctypes
import os
import subprocess
import sys
import time

import pygd2fs

PATH = "/dataset/test/file"
CALLS, IN_FLIGHT, SIZE = 20_000, 10_000, 4096


def per_call(client: pygd2fs.Client, sge: pygd2fs.SGE) -> float:
    began = time.thread_time()
    for first in range(0, CALLS, 1000):
        for index in range(first, first + 1000):
            if client.Read(PATH, index % 2000 * SIZE, [sge], 0, "") is None:
                sys.exit("a read was refused")
        ended = 0
        while ended < 1000:
            for request in client.Wait(-1):
                ended += 1
                if request.Status() != 0:
                    sys.exit("a read failed")
    return (time.thread_time() - began) / CALLS * 1e6


async def in_flight(client: pygd2fs.Client, sge: pygd2fs.SGE) -> int:
    async def read(index: int) -> pygd2fs.Request:
        nonlocal started
        started += 1
        ended = await client.ReadAsync(PATH, index % 2000 * SIZE, [sge], 0)
        if ended is None or ended.Status() != 0:
            sys.exit("a read failed")
        return ended

    started = 0
    tasks = [asyncio.ensure_future(read(index)) for index in range(IN_FLIGHT)]
    await asyncio.sleep(0)
    most = started - sum(task.done() for task in tasks)
    await asyncio.gather(*tasks)
    return most


def main() -> None:
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        address, os.environ["HEARTH_TOKEN"] = (agent.stdout.readline().strip() for _ in range(2))
        os.environ["HEARTH_CLIENTS_SOCKET"] = ""
        client = pygd2fs.Client(address, ["tcp://127.0.0.1"], "test", iothreads=1)
        memory = ctypes.create_string_buffer(SIZE)
        iomem = client.RegIOMEM(ctypes.addressof(memory), SIZE)
        sge = pygd2fs.SGE(ctypes.addressof(memory), SIZE, iomem)
        print(f"{per_call(client, sge):.2f} {asyncio.run(in_flight(client, sge))}")
        client.close()
        agent.stdin.close()


main()
