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

# The same with slices, of which each rank has another: rows of the tensors named a, columns of those named b.
SLICING_RANK = """
import hashlib, sys
import hearth

def bytes_read():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])

rank, ranks, group, *paths = sys.argv[1:]
rank, ranks = int(rank), int(ranks)
slices = {}
for name, info in hearth.inspect_safetensors(paths).items():
    dimension = 0 if name.startswith("a") else 1
    size = info.shape[dimension]
    slices[name] = (dimension, size * rank // ranks, size * (rank + 1) // ranks)
bytes_read()
before = bytes_read()
weights = hearth.load_safetensors(paths, slices=slices, rank=rank, world_size=ranks, group=group)
after = bytes_read()
digest = hashlib.sha256()
for name in sorted(weights):
    digest.update(name.encode() + weights[name].tobytes())
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

    def test_ranks_that_want_slices_read_each_byte_once(self) -> None:
        random = np.random.default_rng(12)
        tensors = {f"{cut}{i}": random.integers(0, 2**16, (1000 + i, 777), np.uint16) for cut in "ab" for i in range(3)}
        path = self.paths[0].with_name("matrices.safetensors")
        save_file(tensors, path)
        for ranks in (1, 2, 4):
            with self.subTest(ranks):
                group = f"{self.group}-{ranks}"
                started = [
                    self.run_python(SLICING_RANK, str(rank), str(ranks), group, str(path)) for rank in range(ranks)
                ]
                read = 0
                for rank, process in enumerate(started):
                    out, errors = process.communicate()
                    self.assertEqual(process.returncode, 0, errors)
                    count, digest = out.split()
                    read += int(count)
                    self.assertEqual(digest, self.digest_of_slices(tensors, rank, ranks))
                # Each rank reads the header and /proc/self/io itself.
                self.assertLess(read, path.stat().st_size + ranks * 16 * 1024)

    @staticmethod
    def digest_of_slices(tensors: dict[str, np.ndarray], rank: int, ranks: int) -> str:
        digest = hashlib.sha256()
        for name in sorted(tensors):
            dimension = 0 if name.startswith("a") else 1
            size = tensors[name].shape[dimension]
            part = np.take(tensors[name], range(size * rank // ranks, size * (rank + 1) // ranks), dimension)
            digest.update(name.encode() + part.tobytes())
        return digest.hexdigest()

    def test_a_rank_that_dies_ends_the_load_of_all(self) -> None:
        first, second = self.start(0), self.start(1)
        self.run_python(DYING_RANK, self.group, *map(str, self.paths)).communicate()
        for process in (first, second):
            _, errors = process.communicate()
            self.assertIn("HearthError: rank 2: its process has ended", errors)

    def test_ranks_that_cannot_be_are_named_as_they_were_given(self) -> None:
        for rank, ranks in ((-1, 2), (2, 2), (0, 0), (0, -1), (0, 1 << 32)):
            with self.subTest((rank, ranks)), self.assertRaises(hearth.HearthError) as raised:
                hearth.load_safetensors(self.paths, rank=rank, world_size=ranks, group=self.group)
            self.assertEqual(raised.exception.code, "InvalidArgument")
            self.assertIn(f"rank {rank} of {ranks} cannot be", str(raised.exception))

    def test_a_rank_alone_waits_no_longer_than_it_is_told(self) -> None:
        started = time.monotonic()
        with self.assertRaises(hearth.HearthError) as raised:
            hearth.load_safetensors(self.paths, rank=1, world_size=RANKS, group=self.group, rank_timeout=0.05)
        self.assertEqual(raised.exception.code, "DeadlineExceeded")
        self.assertGreaterEqual(time.monotonic() - started, 0.05)


if __name__ == "__main__":
    unittest.main()
