"""Ranks of a torch.distributed group; skipped without torch."""

import hashlib
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

RANKS = 3

# One rank of a gloo group that meets by a file; prints a digest of the tensors.
RANK = """
import datetime, hashlib, sys
import torch
import torch.distributed as dist
from hearth.distributed import load_and_broadcast

rank, meeting, *paths = sys.argv[1:]
store = dist.FileStore(meeting, 3)
dist.init_process_group("gloo", store=store, rank=int(rank), world_size=3, timeout=datetime.timedelta(seconds=60))
weights = load_and_broadcast(paths)
digest = hashlib.sha256()
for name in sorted(weights):
    digest.update(weights[name].reshape(-1).view(torch.uint8).numpy())
print(digest.hexdigest())
dist.destroy_process_group()
"""


@unittest.skipUnless(find_spec("torch"), "torch is not installed")
class Broadcasts(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        random = np.random.default_rng(12)
        self.paths, tensors = [], {}
        for number in range(2):
            mine = {f"w{number}.{i}": random.standard_normal((90 + i, 50), dtype=np.float32) for i in range(6)}
            mine |= {f"e{number}": np.zeros((0, 3), np.int16), f"s{number}": np.array(number + 7, np.int64)}
            tensors |= mine
            self.paths.append(str(self.folder / f"{number}.safetensors"))
            save_file(mine, self.paths[-1])
        digest = hashlib.sha256()
        for name in sorted(tensors):
            digest.update(tensors[name].tobytes())
        self.digest = digest.hexdigest()

    def run_ranks(self, paths_of) -> list[tuple[int, str, str]]:
        processes = []
        for rank in range(RANKS):
            command = [sys.executable, "-c", RANK, str(rank), str(self.folder / "meeting"), *paths_of(rank)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            processes.append(process)
        return [(process.returncode, out, err) for process in processes for out, err in [process.communicate()]]

    def test_all_ranks_get_all_tensors(self) -> None:
        for code, out, errors in self.run_ranks(lambda _: self.paths):
            self.assertEqual(code, 0, errors)
            self.assertEqual(out.strip(), self.digest)

    def test_a_rank_that_fails_fails_all(self) -> None:
        absent = [self.paths[0], str(self.folder / "absent")]
        for code, _, errors in self.run_ranks(lambda rank: absent if rank == 1 else self.paths):
            self.assertNotEqual(code, 0)
            self.assertIn("rank 1: ", errors)
            self.assertIn("No such file", errors)


if __name__ == "__main__":
    unittest.main()
