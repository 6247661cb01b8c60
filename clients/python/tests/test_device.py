"""Loading into the memory of a GPU, of which $HEARTH_FAKE_GPU is a stand-in; skipped without."""

import ctypes
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import hearth

FAKE_GPU = os.environ.get("HEARTH_FAKE_GPU", "")


@unittest.skipUnless(FAKE_GPU, "HEARTH_FAKE_GPU names no library")
class LoadIntoDevice(unittest.TestCase):
    def setUp(self) -> None:
        os.environ["HEARTH_CUDA_LIBRARY"] = FAKE_GPU
        os.environ["HEARTH_CUFILE_LIBRARY"] = FAKE_GPU
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "model.safetensors"
        random = np.random.default_rng(3)
        self.tensors = {f"w{i}": random.standard_normal((300 + i, 70), dtype=np.float32) for i in range(5)}
        save_file(self.tensors, self.path)

    def assert_there(self, loaded: dict[str, hearth.Tensor], tensors: dict[str, np.ndarray]) -> None:
        cuda = ctypes.CDLL(FAKE_GPU)
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), 0)
        self.assertEqual(cuda.cuCtxPushCurrent_v2(context), 0)
        self.assertEqual(cuda.cuStreamCreate(ctypes.byref(stream), 1), 0)
        for name, expected in tensors.items():
            tensor = loaded[name]
            self.assertEqual((tensor.device, tensor.__dlpack_device__()), ("cuda:0", (2, 0)))
            pinned = ctypes.c_void_p()
            size = ctypes.c_size_t(tensor.nbytes)
            self.assertEqual(cuda.cuMemHostAlloc(ctypes.byref(pinned), size, 0), 0)
            self.assertEqual(cuda.cuMemcpyDtoHAsync_v2(pinned, ctypes.c_uint64(tensor.data_ptr), size, stream), 0)
            self.assertEqual(cuda.cuStreamSynchronize(stream), 0)
            self.assertEqual(ctypes.string_at(pinned, tensor.nbytes), expected.tobytes())

    def test_tensors_are_there_byte_for_byte(self) -> None:
        loaded = hearth.load_safetensors(self.path, device="cuda:0", framework="hearth")
        self.assert_there(loaded, self.tensors)
        with self.assertRaises(BufferError):
            memoryview(loaded["w0"])

    def test_slices_are_there_without_gaps(self) -> None:
        slices = {"w0": (0, 100, 200), "w1": (1, 13, 57), "w2": (1, 0, 70)}
        loaded = hearth.load_safetensors(self.path, slices=slices, device="cuda:0", framework="hearth")
        rows, columns = self.tensors["w0"][100:200], self.tensors["w1"][:, 13:57]
        self.assertEqual((loaded["w0"].shape, loaded["w1"].shape), (rows.shape, columns.shape))
        self.assert_there(loaded, self.tensors | {"w0": rows, "w1": columns})
