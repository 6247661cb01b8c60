"""pygd2fs against a real agent (hearth_gd2fs_serve)."""

import asyncio
import ctypes
import errno
import os
import pathlib
import subprocess
import unittest

if "HEARTH_GD2FS_SERVE" not in os.environ:
    raise unittest.SkipTest("HEARTH_GD2FS_SERVE names no agent")

import pygd2fs

PATH = "/dataset/test/file"


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.agent = subprocess.Popen(
            [os.environ["HEARTH_GD2FS_SERVE"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        cls.address, os.environ["HEARTH_TOKEN"], file = (cls.agent.stdout.readline().strip() for _ in range(3))
        cls.expected = pathlib.Path(file).read_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.agent.stdin.close()
        cls.agent.wait()
        cls.agent.stdout.close()

    def setUp(self):
        self.client = pygd2fs.Client(self.address, ["tcp://127.0.0.1"], "test", iothreads=1)
        self.addCleanup(self.client.close)
        self.memory = ctypes.create_string_buffer(len(self.expected))
        self.iomem = self.client.RegIOMEM(ctypes.addressof(self.memory), len(self.memory))

    def sge(self, begin, length):
        return pygd2fs.SGE(ctypes.addressof(self.memory) + begin, length, self.iomem)

    def test_reads_a_file(self):
        size = len(self.expected)
        request = self.client.Read(PATH, 0, [self.sge(0, size)], 0, "whole")
        (ended,) = self.client.Wait(-1)
        self.assertIs(ended, request)
        self.assertEqual((request.Status(), request.Value()), (0, size))
        self.assertEqual(self.memory.raw, self.expected)

    def test_says_why_not(self):
        self.client.Read("/dataset/test/none", 0, [self.sge(0, 1)], 0, "")
        (ended,) = self.client.Wait(-1)
        _, kind, _, code = pygd2fs.InspectStatus(ended.Status())
        self.assertEqual((kind, code), (1, errno.ENOENT))
        self.assertIsNone(self.client.Read(PATH, 0, [self.sge(0, len(self.memory) + 1)], 0, ""))
        self.assertIsNone(self.client.Write(PATH, 0, [self.sge(0, 1)], 0, ""))
        self.assertEqual(self.client.Wait(0), [])

    def test_awaits_many_on_one_loop_beside_a_synchronous_read(self):
        each, count = 1000, 2000

        async def read_all():
            return await asyncio.gather(
                *(self.client.ReadAsync(PATH, i * each, [self.sge(i * each, each)], 0) for i in range(count))
            )

        request = self.client.Read(PATH, 3, [self.sge(count * each, 10)], 0, "")
        ended = asyncio.run(read_all())
        self.assertTrue(all((one.Status(), one.Value()) == (0, each) for one in ended))
        self.assertEqual(self.memory.raw[: each * count], self.expected[: each * count])
        self.assertEqual(self.client.Wait(-1), [request])

    def test_a_closed_client_waits_for_nothing(self):
        self.client.close()
        self.client.close()
        self.assertEqual(self.client.Wait(-1), [])
        self.assertIsNone(self.client.Read(PATH, 0, [self.sge(0, 1)], 0, ""))


if __name__ == "__main__":
    unittest.main()
