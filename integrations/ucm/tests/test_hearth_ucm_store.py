"""UcmHearthStore on a directory, by way of the page cache and past it."""

import importlib
import os
import secrets
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

try:
    import ucm.store.ucmstore_v1  # noqa: F401
except ImportError:
    sys.path.insert(0, str(Path(__file__).parent / "contract"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from hearth import HearthError  # noqa: E402

store_module = importlib.import_module("hearth_ucm_store")

SHARD = 64 << 10
BLOCK = 4 * SHARD


class PagedTensor:
    """What the store uses of a torch tensor, on page-aligned host memory."""

    def __init__(self, size: int) -> None:
        memory = np.empty(size + 4096, dtype=np.uint8)
        self.array = memory[-memory.ctypes.data % 4096 :][:size]
        self.device = type("Device", (), {"type": "cpu"})()

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def numel(self) -> int:
        return self.array.size

    def element_size(self) -> int:
        return 1

    def is_contiguous(self) -> bool:
        return True


class StoreContract:
    direct: bool

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folders = [Path(folder.name) / name for name in ("one", "two")]
        for path in self.folders:
            path.mkdir()
        self.config = {
            "storage_backends": [str(path) for path in self.folders],
            "useDirect": self.direct,
            "tensor_size_list": [SHARD // 2, SHARD // 2],
            "shard_size": SHARD,
            "block_size": BLOCK,
            "stream_number": 4,
        }
        self.store = store_module.UcmHearthStore(self.config)

    def blocks(self, count: int) -> list[bytes]:
        return [secrets.token_bytes(16) for _ in range(count)]

    def tensors(self, rows: int) -> list[list[PagedTensor]]:
        tensors = [[PagedTensor(SHARD // 2) for _ in range(2)] for _ in range(rows)]
        for row in tensors:
            for tensor in row:
                tensor.array[:] = np.frombuffer(secrets.token_bytes(SHARD // 2), dtype=np.uint8)
        return tensors

    def dump_whole(self, blocks: list[bytes]) -> list[list[PagedTensor]]:
        ids = [block for block in blocks for _ in range(4)]
        saved = self.tensors(len(ids))
        self.store.wait(self.store.dump(ids, [0, 1, 2, 3] * len(blocks), saved))
        return saved

    def test_what_was_dumped_is_loaded_byte_for_byte(self) -> None:
        blocks = self.blocks(5)
        self.assertEqual(self.store.lookup(blocks), [False] * 5)
        saved = self.dump_whole(blocks)
        self.assertEqual(self.store.lookup(blocks), [True] * 5)
        self.store.prefetch(blocks)
        loaded = self.tensors(len(saved))
        ids = [block for block in blocks for _ in range(4)]
        addresses = [[tensor.data_ptr() for tensor in row] for row in loaded]
        self.store.wait(self.store.load_data(ids, [0, 1, 2, 3] * 5, addresses))
        for before, after in zip(saved, loaded, strict=True):
            for a, b in zip(before, after, strict=True):
                np.testing.assert_array_equal(a.array, b.array)

    def test_a_block_appears_when_all_its_shards_are_dumped(self) -> None:
        block = self.blocks(1)
        rows = self.tensors(4)
        for shard in range(4):
            self.assertEqual(self.store.lookup(block), [False])
            addresses = [[tensor.data_ptr() for tensor in rows[shard]]]
            self.store.wait(self.store.dump_data(block, [shard], addresses))
        self.assertEqual(self.store.lookup(block), [True])

    def test_the_prefix_ends_at_the_first_block_that_is_missing(self) -> None:
        blocks = self.blocks(4)
        self.assertEqual(self.store.lookup_on_prefix(blocks), -1)
        self.dump_whole([blocks[0], blocks[1], blocks[3]])
        self.assertEqual(self.store.lookup_on_prefix(blocks), 1)
        self.assertEqual(self.store.lookup_on_prefix(blocks[:2]), 1)

    def test_a_failed_block_is_its_failure_alone(self) -> None:
        good, absent, short = self.blocks(3)
        saved = self.dump_whole([good, short])
        [path] = [path for folder in self.folders for path in folder.glob(short.hex())]
        os.truncate(path, 100)
        loaded = self.tensors(3)
        with self.assertRaises(store_module.BlocksFailedError) as raised:
            self.store.wait(self.store.load([absent, good, short], [0, 0, 0], loaded))
        self.assertEqual(raised.exception.failures.keys(), {absent, short})
        self.assertIn("NotFound", raised.exception.failures[absent])
        self.assertIn("Corrupt", raised.exception.failures[short])
        np.testing.assert_array_equal(loaded[1][0].array, saved[0][0].array)

    def test_a_store_whose_directory_goes_fails_each_dump_with_the_cause(self) -> None:
        for folder in self.folders:
            folder.rmdir()
        block = self.blocks(1)
        with self.assertRaises(store_module.BlocksFailedError) as raised:
            self.store.wait(self.store.dump(block, [0], self.tensors(1)))
        self.assertIn("No such file", raised.exception.failures[block[0]])

    def parts(self) -> list[Path]:
        return [path for folder in self.folders for path in folder.glob("*.part")]

    def test_two_stores_never_write_into_one_file(self) -> None:
        # As in two containers, whose processes have the same number.
        block = self.blocks(1)
        other = store_module.UcmHearthStore(self.config)
        rows = self.tensors(8)
        first = self.store.dump(block * 2, [0, 1], rows[:2])
        second = other.dump(block * 4, [0, 1, 2, 3], rows[4:])
        self.assertEqual(len(self.parts()), 2)
        other.wait(second)
        self.assertEqual(self.store.lookup(block), [True])
        self.store.wait(first)
        self.store.wait(self.store.dump(block * 2, [2, 3], rows[2:4]))
        self.assertEqual(self.parts(), [])
        loaded = self.tensors(4)
        self.store.wait(self.store.load(block * 4, [0, 1, 2, 3], loaded))
        np.testing.assert_array_equal(loaded[3][1].array, rows[3][1].array)

    def test_a_failed_attempt_publishes_nothing_and_the_next_one_begins_anew(self) -> None:
        block = self.blocks(1)
        rows = self.tensors(4)
        self.store.wait(self.store.dump(block, [0], rows[:1]))
        [part] = self.parts()
        os.truncate(part, SHARD)  # The next shards do not fit.
        with self.assertRaises(store_module.BlocksFailedError):
            self.store.wait(self.store.dump(block, [1], rows[1:2]))
        self.assertEqual(self.parts(), [])
        self.store.wait(self.store.dump(block * 3, [1, 2, 3], rows[1:]))
        self.assertEqual(self.store.lookup(block), [False], "the first shard went with the first attempt")
        self.store.wait(self.store.dump(block, [0], rows[:1]))
        self.assertEqual(self.store.lookup(block), [True])

    def test_a_task_that_is_late_is_cancelled_and_drained(self) -> None:
        # Sizes that are not of pages keep O_DIRECT away, whose open does not wait for a pipe's writer alone.
        sizes = {"tensor_size_list": [100], "shard_size": 100, "block_size": 400}
        store = store_module.UcmHearthStore({**self.config, **sizes, "stream_number": 1, "timeout_ms": 50})
        hanging, waiting = self.blocks(2)
        pipe = self.folders[hanging[-1] % 2] / hanging.hex()
        os.mkfifo(pipe)
        self.addCleanup(pipe.unlink)
        memory = self.tensors(1)[0]
        address = memory[0].data_ptr()
        task = store.load_data([hanging], [0], [[address]])
        with self.assertRaises(HearthError) as raised:
            store.wait(task)
        self.assertEqual(raised.exception.code, "DeadlineExceeded")
        behind = store.dump_data([waiting], [0], [[address]])
        with self.assertRaises(store_module.BlocksFailedError) as cancelled:
            store.wait(behind)
        self.assertIn("Cancelled", cancelled.exception.failures[waiting])
        self.assertEqual(self.parts(), [])
        os.close(os.open(pipe, os.O_WRONLY))
        with self.assertRaises(store_module.BlocksFailedError) as late:
            store.wait(task)
        self.assertEqual(late.exception.failures.keys(), {hanging})

    def test_a_wait_takes_the_answer(self) -> None:
        task = self.store.load([], [], [])
        self.assertTrue(self.store.check(task))
        self.store.wait(task)
        with self.assertRaises(HearthError):
            self.store.check(task)

    def test_sizes_and_directories_are_checked(self) -> None:
        with self.assertRaises(HearthError):
            store_module.UcmHearthStore({**self.config, "storage_backends": "/absent/folder"})
        with self.assertRaises(HearthError):
            store_module.UcmHearthStore({**self.config, "block_size": SHARD + 1})
        with self.assertRaises(HearthError):
            self.store.dump(self.blocks(1), [4], self.tensors(1))

    def test_a_scheduler_looks_up_without_sizes(self) -> None:
        blocks = self.blocks(2)
        self.dump_whole(blocks[:1])
        scheduler = store_module.UcmHearthStore({"storage_backends": self.config["storage_backends"]})
        self.assertEqual(scheduler.lookup(blocks), [True, False])
        with self.assertRaises(HearthError):
            scheduler.load(blocks[:1], [0], self.tensors(1))


    def test_a_tensor_of_a_gpu_needs_a_store_of_that_gpu(self) -> None:
        tensor = PagedTensor(SHARD // 2)
        tensor.device = type("Device", (), {"type": "cuda", "index": 3, "__str__": lambda _: "cuda:3"})()
        with self.assertRaises(HearthError) as raised:
            self.store.dump(self.blocks(1), [0], [[tensor, tensor]])
        self.assertIn("device_id", str(raised.exception))
        self.assertFalse(self.store.need_register_kv_caches())


class DirectStore(StoreContract, unittest.TestCase):
    direct = True


class BouncedStore(StoreContract, unittest.TestCase):
    direct = False


if __name__ == "__main__":
    unittest.main()
