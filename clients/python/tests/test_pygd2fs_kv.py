"""pygd2fs.kv: values that one agent has put and another gives back."""

import asyncio
import errno
import os
import random
import subprocess
import threading
import unittest

from gd2fs_agent import TIMEOUT_MS

import pygd2fs
from pygd2fs.kv import KV


class KvTest(unittest.TestCase):
    """`writer` and `reader` are key spaces of two agents that share the volume `kv`."""

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
        self.clients = [
            pygd2fs.Client(address, ["tcp://127.0.0.1"], "test", iothreads=1, timeout=TIMEOUT_MS)
            for address in self.addresses
        ]
        self.writer, self.reader = (self.open(client) for client in self.clients)

    def open(self, client):
        self.addCleanup(client.close)
        space = KV(client, "kv", self.id().encode())
        self.addCleanup(space.close)
        return space

    @staticmethod
    def values(sizes):
        return {f"key {size}".encode(): random.Random(size).randbytes(size) for size in sizes}

    def test_another_node_gets_what_was_put(self):
        values = self.values([1, 4096, 16384, 16385, 9 << 20])
        put = self.writer.put(list(values), list(values.values()))
        self.assertEqual((put.value, put.status, put.at_rest), (5, 0, True))
        memory = [bytearray(len(value) + 3) for value in values.values()]
        got = self.reader.get(list(values), memory)
        self.assertEqual(got.statuses, [0] * 5)
        self.assertEqual(got.sizes, [len(value) for value in values.values()])
        self.assertEqual([bytes(each[:size]) for each, size in zip(memory, got.sizes, strict=True)], list(values.values()))

    def test_registered_memory_in_parts(self):
        content = bytearray(random.Random(1).randbytes(3 << 20))
        iomem = self.clients[0].RegIOMEM(content)
        parts = [pygd2fs.SGE(iomem.addr + at, 1 << 20, iomem) for at in (2 << 20, 0, 1 << 20)]
        self.assertEqual(self.writer.put([b"parts"], [parts]).statuses, [0])
        memory = bytearray(3 << 20)
        self.assertEqual(self.reader.get([b"parts"], [memory]).statuses, [0])
        self.assertEqual(memory, content[2 << 20 :] + content[: 2 << 20])

    def test_asks_and_deletes(self):
        self.assertEqual(self.reader.exists([b"a", b"b"]), [False, False])
        self.writer.put([b"a", b"b", b"d"], [b"1", b"2", b"4"])
        self.assertEqual(self.reader.exists([b"a", b"c", b"d"]), [True, False, True])
        self.assertEqual(self.reader.prefix([b"a", b"b", b"c", b"d"]), 2)
        with self.assertRaises(PermissionError):
            self.writer.delete([b"a"])

    def test_statuses_of_items(self):
        self.writer.put([b"k"], [b"12345678"])
        got = self.reader.get([b"absent", b"k"], [bytearray(10), bytearray(7)])
        self.assertEqual((got.statuses, got.sizes), ([errno.ENOENT, errno.EMSGSIZE], [0, 8]))
        self.assertEqual((got.value, got.status), (0, errno.EMSGSIZE))
        with self.assertRaises(BufferError):
            self.reader.get([b"k"], [b"read-only"])
        with self.assertRaises(OSError):
            self.writer.put([b""], [b"a key is at least one byte"])

    def test_many_at_once_on_an_event_loop(self):
        values = {f"key {i}".encode(): random.Random(i).randbytes(1000 + 300 * i) for i in range(100)}

        async def work():
            threads = threading.active_count()
            puts = [self.writer.put_async([key], [value]) for key, value in values.items()]
            self.assertEqual([result.statuses for result in await asyncio.gather(*puts)], [[0]] * 100)
            memory = {key: bytearray(len(value)) for key, value in values.items()}
            gets = [self.reader.get_async([key], [memory[key]]) for key in values]
            self.assertEqual([result.statuses for result in await asyncio.gather(*gets)], [[0]] * 100)
            self.assertEqual(threading.active_count(), threads)
            self.assertEqual(memory, values)
            self.assertEqual(await self.reader.prefix_async([*values, b"absent"]), 100)
            self.assertEqual(await self.reader.exists_async([b"absent"]), [False])

        asyncio.run(work())

    def test_threads_share_a_key_space(self):
        failures = []

        def work(thread):
            for i in range(30):
                key = f"{thread} {i}".encode()
                if self.writer.put([key], [key]).statuses != [0]:
                    failures.append(key)
                memory = bytearray(20)
                got = self.writer.get([key], [memory])
                if bytes(memory[: got.sizes[0]]) != key:
                    failures.append(key)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_cancelled_coroutine_cancels_its_batch(self):
        async def work():
            put = asyncio.ensure_future(self.writer.put_async([b"k"], [bytes(64 << 20)]))
            await asyncio.sleep(0)
            put.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await put

        asyncio.run(work())
        while not self.writer.drain(1):
            pass
        self.assertTrue(self.writer.drain())
        memory = bytearray(64 << 20)
        self.assertIn(self.reader.get([b"k"], [memory]).statuses, ([0], [errno.ENOENT]))

    def test_close_ends_what_is_in_flight(self):
        async def work():
            put = asyncio.ensure_future(self.writer.put_async([b"k"], [bytes(64 << 20)]))
            await asyncio.sleep(0)
            self.writer.close()
            return await put

        self.assertIn(asyncio.run(work()).status, (0, errno.ECANCELED))
        with self.assertRaises(OSError):
            self.writer.put([b"k"], [b"v"])


if __name__ == "__main__":
    unittest.main()
