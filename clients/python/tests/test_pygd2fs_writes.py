"""pygd2fs: files of volumes, written on one node and read on another."""

import asyncio
import ctypes
import errno
import os
import random
import subprocess
import unittest

from gd2fs_agent import TIMEOUT_MS

import pygd2fs


class WriteTest(unittest.TestCase):
    """`writer` and `reader` are clients of two agents that share the volume /volume/kv."""

    @classmethod
    def setUpClass(cls):
        serve = [os.environ["HEARTH_GD2FS_SERVE"], "--volume"]
        cls.agents = subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        *cls.addresses, os.environ["HEARTH_TOKEN"] = (cls.agents.stdout.readline().strip() for _ in range(3))

    @classmethod
    def tearDownClass(cls):
        cls.agents.stdin.close()
        cls.agents.wait()
        cls.agents.stdout.close()

    def setUp(self):
        self.writer, self.reader = (self.connect(address) for address in self.addresses)

    def connect(self, address):
        client = pygd2fs.Client(address, ["tcp://127.0.0.1"], "test", iothreads=1, timeout=TIMEOUT_MS)
        self.addCleanup(client.close)
        return client

    @staticmethod
    def register(client, memory):
        iomem = client.RegIOMEM(ctypes.addressof(memory), len(memory))
        return iomem, lambda begin, length: pygd2fs.SGE(iomem.addr + begin, length, iomem)

    def expect(self, path, content):
        memory = ctypes.create_string_buffer(len(content) + 1)
        iomem, sge = self.register(self.reader, memory)
        self.reader.Read(path, 0, [sge(0, len(memory))], 0, "all of it")
        (ended,) = self.reader.Wait(-1)
        self.assertEqual((ended.Status(), ended.Value()), (0, len(content)))
        self.assertEqual(memory.raw[: len(content)], content)
        self.reader.DeregIOMEM(iomem)

    def test_parts_in_any_order_are_the_file_on_another_node(self):
        bytes_of = random.Random(1).randbytes
        content = b"".join(bytes_of(size) for size in [64 << 20] * 4 + [77])
        memory = ctypes.create_string_buffer(content, len(content))
        iomem, sge = self.register(self.writer, memory)
        part = 24 << 20
        offsets = list(range(0, len(content), part))
        random.Random(2).shuffle(offsets)
        path = "/volume/kv/python/sync"
        requests = [self.writer.Write(path, at, [sge(at, min(part, len(content) - at))]) for at in offsets]
        left = set(requests)
        while left:
            for ended in self.writer.Wait(-1):
                self.assertEqual(ended.Status(), 0)
                left.remove(ended)
        self.assertEqual(sum(request.Value() for request in requests), len(content))
        self.writer.DeregIOMEM(iomem)
        self.expect(path, content)

    def test_asyncio_writes(self):
        content = random.Random(3).randbytes(9 << 20)
        memory = ctypes.create_string_buffer(content, len(content))
        _, sge = self.register(self.writer, memory)
        path = "/volume/kv/python/async"

        async def write():
            offsets = range(0, len(content), 1 << 20)
            return await asyncio.gather(*(self.writer.WriteAsync(path, at, [sge(at, 1 << 20)]) for at in offsets))

        self.assertEqual([request.Status() for request in asyncio.run(write())], [0] * 9)
        self.expect(path, content)

    def test_memory_that_is_not_mapped_is_a_status(self):
        iomem = self.writer.RegIOMEM(1 << 46, 4096)
        self.writer.Write("/volume/kv/python/nothing", 0, [pygd2fs.SGE(iomem.addr, 4096, iomem)])
        (ended,) = self.writer.Wait(-1)
        self.assertEqual(pygd2fs.InspectStatus(ended.Status())[3], errno.EFAULT)


if __name__ == "__main__":
    unittest.main()
