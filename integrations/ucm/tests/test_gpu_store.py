"""UcmHearthStore on the memory of a GPU, of which $HEARTH_FAKE_GPU is a stand-in; skipped without."""

import ctypes
import os
import secrets
import tempfile
import unittest
from pathlib import Path

from test_hearth_ucm_store import BLOCK, SHARD, HearthError, store_module

FAKE_GPU = os.environ.get("HEARTH_FAKE_GPU", "")
SHARDS = BLOCK // SHARD


class Device:
    type = "cuda"
    index = 0


class GpuTensor:
    """What the store uses of a torch tensor on a GPU."""

    device = Device()

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size

    def data_ptr(self) -> int:
        return self.address

    def numel(self) -> int:
        return self.size

    def element_size(self) -> int:
        return 1

    def is_contiguous(self) -> bool:
        return True


class Gpu:
    """Allocates memory of the stand-in and copies to and from there, by CUDA's driver interface."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL(FAKE_GPU)
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name: str, *arguments: object) -> None:
        assert getattr(self.cuda, name)(*arguments) == 0, name

    def close(self) -> None:
        self.call("cuStreamDestroy_v2", self.stream)
        self.call("cuCtxPopCurrent_v2", ctypes.byref(self.context))

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def pinned(self, size: int) -> ctypes.c_void_p:
        memory = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(size), 0)
        return memory

    def write(self, address: int, data: bytes) -> None:
        memory, size = self.pinned(len(data)), ctypes.c_size_t(len(data))
        ctypes.memmove(memory, data, len(data))
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), memory, size, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        self.call("cuMemFreeHost", memory)

    def read(self, address: int, count: int) -> bytes:
        memory, size = self.pinned(count), ctypes.c_size_t(count)
        self.call("cuMemcpyDtoHAsync_v2", memory, ctypes.c_uint64(address), size, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        data = ctypes.string_at(memory, count)
        self.call("cuMemFreeHost", memory)
        return data


@unittest.skipUnless(FAKE_GPU, "HEARTH_FAKE_GPU names no library")
class GpuStore(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        os.environ["HEARTH_CUDA_LIBRARY"] = FAKE_GPU
        os.environ["HEARTH_CUFILE_LIBRARY"] = FAKE_GPU
        # A machine whose driver for files opens, so that useDirect: true is direct.
        root = tempfile.TemporaryDirectory()
        cls.addClassCleanup(root.cleanup)
        driver = Path(root.name) / "proc/driver/nvidia-fs"
        driver.mkdir(parents=True)
        (driver / "version").write_text("version: 2.19\n")
        os.environ["HEARTH_GPU_ROOT"] = root.name

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.gpu = None

    def store(self, direct: bool):
        config = {
            "storage_backends": str(self.folder),
            "device_id": 0,
            "useDirect": direct,
            "tensor_size_list": [SHARD // 2, SHARD // 2],
            "shard_size": SHARD,
            "block_size": BLOCK,
            "stream_number": 4,
        }
        store = store_module.UcmHearthStore(config)
        if self.gpu is None:
            self.gpu = Gpu()  # after the store, which starts the driver
            self.addCleanup(self.gpu.close)
        return store

    def memory(self, size: int) -> int:
        address = self.gpu.allocate(size)
        self.addCleanup(self.gpu.free, address)
        return address

    def rows(self, address: int, count: int) -> list[list[int]]:
        return [[address + i * SHARD, address + i * SHARD + SHARD // 2] for i in range(count)]

    def test_what_was_dumped_is_loaded_byte_for_byte(self) -> None:
        for direct in (True, False):
            with self.subTest(useDirect=direct):
                store = self.store(direct)
                self.assertTrue(store.need_register_kv_caches())
                blocks = [secrets.token_bytes(16) for _ in range(5)]
                ids = [block for block in blocks for _ in range(SHARDS)]
                indexes = list(range(SHARDS)) * len(blocks)
                size = len(ids) * SHARD
                source, target = self.memory(size), self.memory(size)
                store.register_kv_caches([(source, size), (target, size)])
                saved = secrets.token_bytes(size)
                self.gpu.write(source, saved)
                store.wait(store.dump_data(ids, indexes, self.rows(source, len(ids))))
                for i, block in enumerate(blocks):
                    part = saved[i * BLOCK : (i + 1) * BLOCK]
                    self.assertEqual((self.folder / block.hex()).read_bytes(), part)
                tensors = [[GpuTensor(at, SHARD // 2) for at in row] for row in self.rows(target, len(ids))]
                store.wait(store.load(ids, indexes, tensors))
                self.assertEqual(self.gpu.read(target, size), saved)

    def test_memory_that_is_not_of_the_gpu_fails_its_block_alone(self) -> None:
        store = self.store(True)
        good, bad = secrets.token_bytes(16), secrets.token_bytes(16)
        address = self.memory(SHARD)
        foreign = bytearray(SHARD)
        host = ctypes.addressof((ctypes.c_char * SHARD).from_buffer(foreign))
        task = store.dump_data([good, bad], [0, 0], [[address, address + SHARD // 2], [host, host + SHARD // 2]])
        with self.assertRaises(store_module.BlocksFailedError) as raised:
            store.wait(task)
        self.assertEqual(raised.exception.failures.keys(), {bad})
        self.assertIn("InvalidArgument", raised.exception.failures[bad])

    def test_an_absent_gpu_is_an_error_with_the_next_step(self) -> None:
        self.store(True)
        with self.assertRaises(HearthError) as raised:
            store_module.UcmHearthStore({"storage_backends": str(self.folder), "device_id": 7})
        self.assertIn("nvidia-smi", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
