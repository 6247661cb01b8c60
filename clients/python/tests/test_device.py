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
    def test_tensors_are_there_byte_for_byte(self) -> None:
        os.environ["HEARTH_CUDA_LIBRARY"] = FAKE_GPU
        os.environ["HEARTH_CUFILE_LIBRARY"] = FAKE_GPU
        random = np.random.default_rng(3)
        tensors = {f"w{i}": random.standard_normal((300 + i, 70), dtype=np.float32) for i in range(5)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            save_file(tensors, path)
            loaded = hearth.load_safetensors(path, device="cuda:0", framework="hearth")
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
        with self.assertRaises(BufferError):
            memoryview(loaded["w0"])
