"""Processes of one node that load the same files together."""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import hearth

RANKS = 3

# Loads as one rank; prints the bytes that this process has read meanwhile, and a digest of the tensors.
RANK = """
import hashlib, os, sys
import hearth

def bytes_read():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])

rank, group, *paths = sys.argv[1:]
bytes_read()
before = bytes_read()
weights = hearth.load_safetensors(paths, rank=int(rank), world_size=3, group=group)
after = bytes_read()
digest = hashlib.sha256()
for name in sorted(weights):
    digest.update(weights[name])
print(after - before, digest.hexdigest())
"""

DYING_RANK = """
import os, sys
import hearth

group, *paths = sys.argv[1:]
hearth.load_safetensors(paths, rank=2, world_size=3, group=group, progress=lambda *_: os._exit(1))
"""


class Ranks(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        random = np.random.default_rng(11)
        self.paths, tensors = [], {}
        for number in range(2):
            mine = {f"w{number}.{i}": random.integers(0, 256, (1 << 20) + i, dtype=np.uint8) for i in range(6)}
            tensors |= mine
            self.paths.append(Path(folder.name) / f"{number}.safetensors")
            save_file(mine, self.paths[-1])
        digest = hashlib.sha256()
        for name in sorted(tensors):
            digest.update(tensors[name])
        self.digest = digest.hexdigest()
        self.group = f"{os.getpid()}-{self.id().rsplit('.', 1)[1]}"

    def start(self, rank: int) -> subprocess.Popen:
        return self.run_python(RANK, str(rank), self.group, *map(str, self.paths))

    def run_python(self, script: str, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-c", script, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_each_byte_is_read_once(self) -> None:
        read = []
        for process in [self.start(rank) for rank in range(RANKS)]:
            out, errors = process.communicate()
            self.assertEqual(process.returncode, 0, errors)
            count, digest = out.split()
            self.assertEqual(digest, self.digest)
            read.append(int(count))
        data = sum(path.stat().st_size for path in self.paths)
        # Each rank reads the headers and /proc/self/io itself; the rest of its last page counts, too.
        slack = RANKS * 64 * 1024
        self.assertGreaterEqual(sum(read), data)
        self.assertLess(sum(read), data + slack)
        for count in read:
            self.assertLess(count, data / RANKS + slack)

    def test_a_rank_that_dies_ends_the_load_of_all(self) -> None:
        first, second = self.start(0), self.start(1)
        self.run_python(DYING_RANK, self.group, *map(str, self.paths)).communicate()
        for process in (first, second):
            _, errors = process.communicate()
            self.assertIn("HearthError: rank 2: its process has ended", errors)

    def test_a_rank_alone_waits_no_longer_than_it_is_told(self) -> None:
        started = time.monotonic()
        with self.assertRaises(hearth.HearthError) as raised:
            hearth.load_safetensors(self.paths, rank=1, world_size=RANKS, group=self.group, rank_timeout=0.05)
        self.assertEqual(raised.exception.code, "DeadlineExceeded")
        self.assertGreaterEqual(time.monotonic() - started, 0.05)


if __name__ == "__main__":
    unittest.main()
