"""A real agent (hearth_gd2fs_serve) for tests of pygd2fs."""

import ctypes
import os
import pathlib
import subprocess
import unittest

if "HEARTH_GD2FS_SERVE" not in os.environ:
    raise unittest.SkipTest("HEARTH_GD2FS_SERVE names no agent")

import pygd2fs

PATH = "/dataset/test/file"
# No request of these tests is to end by its time, also on a machine that stands still for minutes.
TIMEOUT_MS = 3_600_000


class AgentTest(unittest.TestCase):
    """`expected` is the file at PATH, `client` is connected, `iomem` is registered memory of the file's size."""

    @classmethod
    def setUpClass(cls):
        cls.agent = subprocess.Popen(
            [os.environ["HEARTH_GD2FS_SERVE"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        cls.address, cls.token, file = (cls.agent.stdout.readline().strip() for _ in range(3))
        os.environ["HEARTH_TOKEN"] = cls.token
        cls.expected = pathlib.Path(file).read_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.agent.stdin.close()
        cls.agent.wait()
        cls.agent.stdout.close()

    def setUp(self):
        self.client = self.connect()
        self.memory = ctypes.create_string_buffer(len(self.expected))
        self.iomem = self.client.RegIOMEM(ctypes.addressof(self.memory), len(self.memory))

    def connect(self):
        client = pygd2fs.Client(self.address, ["tcp://127.0.0.1"], "test", iothreads=1, timeout=TIMEOUT_MS)
        self.addCleanup(client.close)
        return client

    def sge(self, begin, length):
        return pygd2fs.SGE(ctypes.addressof(self.memory) + begin, length, self.iomem)
