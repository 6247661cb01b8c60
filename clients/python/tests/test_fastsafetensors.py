"""The copier "hearth" with fastsafetensors itself, and NumPy for the framework; skipped without fastsafetensors."""

import tempfile
import unittest
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

try:
    from fastsafetensors.common import SafeTensorsMetadata
    from fastsafetensors.copier.registry import copier_class_of, create_copier_constructor, get_copier_class
    from fastsafetensors.cpp import cpu_free, cpu_malloc, gds_device_buffer
    from fastsafetensors.frameworks import FrameworkOpBase
    from fastsafetensors.st_types import DTYPE_SIZES, Device, DeviceType
except ImportError as error:
    raise unittest.SkipTest("fastsafetensors is not installed") from error

import hearth
from hearth.fastsafetensors import HearthFileCopier


class Borrowed:
    """A DLPack capsule as NumPy takes it."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


class NumpyOps(FrameworkOpBase):
    """What a copier and the metadata need of a framework."""

    def alloc_tensor_memory(self, length, dev):
        return gds_device_buffer(cpu_malloc(length), length, False)

    def free_tensor_memory(self, gbuf, dev):
        cpu_free(gbuf.get_base_address())

    def get_empty_tensor(self, shape, dtype, device):
        return np.empty(shape, np.uint8)

    def from_dlpack(self, dl_tensor, device, dtype):
        return np.from_dlpack(Borrowed(dl_tensor))

    def get_dtype_size(self, dtype):
        return DTYPE_SIZES[dtype]

    def get_device_ptr_align(self):
        return 16

    def as_workaround_dtype(self, dtype):
        return dtype


NumpyOps.__abstractmethods__ = frozenset()


class CopierTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "model.safetensors"
        random = np.random.default_rng(5)
        self.tensors = {f"w{i}": random.standard_normal((300 + i, 70), dtype=np.float32) for i in range(5)}
        save_file(self.tensors, self.path)
        self.ops = NumpyOps()
        self.device = Device(DeviceType.CPU, None)

    def copier(self):
        construct = create_copier_constructor("hearth", self.device, framework=self.ops, set_numa=False)
        self.assertIs(copier_class_of(construct), HearthFileCopier)
        metadata = SafeTensorsMetadata.from_file(str(self.path), self.ops)
        return construct(metadata, self.device, self.ops)

    def load(self, copier):
        buffer = copier.submit_io(False, 1 << 20)
        self.addCleanup(self.ops.free_tensor_memory, buffer, self.device)
        return {name: np.array(tensor) for name, tensor in copier.wait_io(buffer).items()}

    def test_is_registered(self):
        self.assertIs(get_copier_class("hearth"), HearthFileCopier)

    def test_whole_files_byte_for_byte(self):
        loaded = self.load(self.copier())
        self.assertEqual(loaded.keys(), self.tensors.keys())
        for name, expected in self.tensors.items():
            np.testing.assert_array_equal(loaded[name], expected)

    def test_chunks_are_no_longer_than_their_tensors(self):
        copier = self.copier()
        chosen = {"w1", "w3"}
        copier.set_chunk(copier.metadata.select_byte_ranges(lambda name: name in chosen), chosen)
        loaded = self.load(copier)
        self.assertEqual(loaded.keys(), chosen)
        for name in chosen:
            np.testing.assert_array_equal(loaded[name], self.tensors[name])

    def test_files_without_a_padded_header(self):
        data = self.path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        self.path.write_bytes((length + 1).to_bytes(8, "little") + data[8 : 8 + length] + b" " + data[8 + length :])
        for name, loaded in self.load(self.copier()).items():
            np.testing.assert_array_equal(loaded, self.tensors[name])

    def test_a_file_that_became_shorter_is_an_error(self):
        copier = self.copier()
        with open(self.path, "r+b") as file:
            file.truncate(self.path.stat().st_size - 5000)
        with self.assertRaises(hearth.HearthError) as raised:
            self.load(copier)
        self.assertEqual(raised.exception.code, "Corrupt")

    def test_a_file_that_was_replaced_since_its_header_was_read_is_an_error(self):
        copier = self.copier()
        other = self.path.with_name("other")
        # As long as before, and with tensors of the same names: only their places differ.
        save_file(dict(zip(self.tensors, reversed(self.tensors.values()), strict=True)), other)
        self.assertEqual(other.stat().st_size, self.path.stat().st_size)
        other.rename(self.path)
        with self.assertRaises(hearth.HearthError) as raised:
            self.load(copier)
        self.assertEqual(raised.exception.code, "OriginChanged")


if __name__ == "__main__":
    unittest.main()
