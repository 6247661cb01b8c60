"""hearth.load_safetensors against files that the reference implementation writes."""

import json
import struct
import tempfile
import unittest
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

import hearth


def with_header(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


class LoadSafetensors(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        random = np.random.default_rng(7)
        self.tensors = {f"w{i}": random.standard_normal((100 + i, 37), dtype=np.float32) for i in range(9)}
        self.tensors |= {
            "flags": np.array([True, False, True]),
            "empty": np.zeros((0, 3), dtype=np.int16),
            "scalar": np.array(3, dtype=np.int64),
            "half": random.standard_normal(11).astype(np.float16),
        }
        self.path = self.folder / "model.safetensors"
        save_file(self.tensors, self.path, metadata={"format": "np"})

    def write(self, data: bytes) -> Path:
        path = self.folder / "other.safetensors"
        path.write_bytes(data)
        return path

    def assert_fails(self, code: str, path: Path, **options) -> str:
        with self.assertRaises(hearth.HearthError) as raised:
            hearth.load_safetensors(path, **options)
        self.assertEqual(raised.exception.code, code)
        return str(raised.exception)

    def test_all_tensors_equal_those_that_were_saved(self) -> None:
        loaded = hearth.load_safetensors([self.path])
        self.assertEqual(loaded.keys(), self.tensors.keys())
        for name, expected in self.tensors.items():
            self.assertEqual(loaded[name].dtype, expected.dtype)
            self.assertEqual(loaded[name].shape, expected.shape)
            np.testing.assert_array_equal(loaded[name], expected)

    def test_slices_are_those_of_the_arrays(self) -> None:
        slices = {"w2": (0, 10, 31), "w5": (1, 3, 30), "half": (0, 4, 4), "empty": (1, 0, 2)}
        loaded = hearth.load_safetensors(self.path, slices=slices)
        self.assertEqual(loaded.keys(), self.tensors.keys())
        expected = self.tensors | {
            "w2": self.tensors["w2"][10:31],
            "w5": self.tensors["w5"][:, 3:30],
            "half": self.tensors["half"][4:4],
            "empty": self.tensors["empty"][:, :2],
        }
        for name, array in loaded.items():
            self.assertTrue(array.flags.c_contiguous and array.flags.writeable)
            np.testing.assert_array_equal(array, expected[name], strict=True)
        some = hearth.load_safetensors(self.path, names=["scalar"], slices={"w1": (1, 0, 1)})
        self.assertEqual(some.keys(), {"scalar", "w1"})

    def test_slices_that_leave_their_tensors_are_refused(self) -> None:
        leaving = ((2, 0, 1), (0, 0, 1000), (1, 5, 4), (0, -1, 1), (-1, 0, 1), (0, 0, 1 << 70), (0, 1 << 64, 1 << 64))
        for part in leaving:
            self.assertIn("'w0'", self.assert_fails("InvalidArgument", self.path, slices={"w0": part}))
        self.assert_fails("NotFound", self.path, slices={"none": (0, 0, 1)})
        self.assert_fails("InvalidArgument", self.path, slices={}, mapped=True)

    def write_index(self, weights: dict[str, str]) -> Path:
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": weights}))
        return index

    def test_an_index_stands_for_its_files(self) -> None:
        save_file({"more": np.arange(5)}, self.folder / "more.safetensors")
        index = self.write_index(dict.fromkeys(self.tensors, "model.safetensors") | {"more": "more.safetensors"})
        loaded = hearth.load_safetensors(index)
        self.assertEqual(loaded.keys(), {*self.tensors, "more"})
        np.testing.assert_array_equal(loaded["w3"], self.tensors["w3"])
        self.assertEqual(hearth.inspect_safetensors([index])["more"].path, str(self.folder / "more.safetensors"))

    def test_an_index_that_does_not_fit_its_files_is_refused(self) -> None:
        self.assertIn("'w99'", self.assert_fails("NotFound", self.write_index({"w99": "model.safetensors"})))
        for shard in ("../model.safetensors", "/model.safetensors"):
            self.assert_fails("Corrupt", self.write_index({"w0": shard}))
        index = self.folder / "model.safetensors.index.json"
        names = [f'{{"weight_map": {{"a": "{name}"}}}}' for name in ("a\\u0000b", "\\ud800")]
        for text in ("[]", "{", "{}", '{"weight_map": {"a": 1}}', '{"weight_map": []}', "[" * 100_000, *names):
            index.write_text(text)
            self.assert_fails("Corrupt", index)
        index.unlink()
        self.assert_fails("NotFound", index)

    def test_arrays_can_be_written_and_outlive_the_others(self) -> None:
        array = hearth.load_safetensors(self.path)["w3"]
        array += 1
        np.testing.assert_array_equal(array, self.tensors["w3"] + 1)

    def test_mapped_tensors_are_those_of_the_file_and_can_be_written(self) -> None:
        loaded = hearth.load_safetensors(self.path, mapped=True)
        for name, expected in self.tensors.items():
            np.testing.assert_array_equal(loaded[name], expected)
        loaded["w3"] += 1
        np.testing.assert_array_equal(hearth.load_safetensors(self.path)["w3"], self.tensors["w3"])

    def test_only_named_tensors_are_loaded(self) -> None:
        totals = []
        loaded = hearth.load_safetensors(self.path, names=["w1", "w7"], progress=lambda *call: totals.append(call))
        self.assertEqual(loaded.keys(), {"w1", "w7"})
        np.testing.assert_array_equal(loaded["w7"], self.tensors["w7"])
        self.assertEqual(totals[-1][0], totals[-1][1])
        self.assertLess(totals[-1][1], self.path.stat().st_size / 2)

    def test_dlpack_hands_the_same_memory_on(self) -> None:
        tensor = hearth.load_safetensors(self.path, framework="hearth")["w2"]
        array = np.from_dlpack(tensor)
        np.testing.assert_array_equal(array, self.tensors["w2"])
        self.assertEqual(array.ctypes.data, tensor.data_ptr)
        del tensor
        np.testing.assert_array_equal(array, self.tensors["w2"])

    def test_headers_describe_the_tensors(self) -> None:
        info = hearth.inspect_safetensors(self.path)["w4"]
        self.assertEqual((info.dtype, info.shape, info.nbytes), ("F32", (104, 37), 104 * 37 * 4))

    def test_an_exception_of_progress_ends_the_load(self) -> None:
        def stop(done: int, total: int) -> None:
            raise KeyError("stop")

        with self.assertRaises(KeyError):
            hearth.load_safetensors(self.path, progress=stop)

    def test_errors_have_codes_and_say_why(self) -> None:
        self.assertIn("absent", self.assert_fails("NotFound", self.folder / "absent"))
        self.assertIn("'w99'", self.assert_fails("NotFound", self.path, names=["w99"]))
        self.assert_fails("Unsupported", self.path, device="cuda:0")
        self.assert_fails("InvalidArgument", self.path, device="tpu:0", framework="hearth")
        with self.assertRaises(ValueError):
            hearth.load_safetensors(self.path, framework="jax")

    def test_truncated_files_give_no_tensors(self) -> None:
        whole = self.path.read_bytes()
        for size in (0, 7, 8, 100, len(whole) - 1):
            self.assert_fails("Corrupt", self.write(whole[:size]))

    def test_hostile_headers_are_refused(self) -> None:
        tensor = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
        overlap = json.dumps({"a": tensor, "b": {**tensor, "data_offsets": [2, 6]}}).encode()
        self.assertIn("overlaps", self.assert_fails("Corrupt", self.write(with_header(overlap, bytes(6)))))
        self.assert_fails("Corrupt", self.write(with_header(b'{"\xff":1}')))
        self.assert_fails("Corrupt", self.write(b"\xff" * 7 + b"\x7f{}"))
        unknown = json.dumps({"a": {**tensor, "dtype": "F128"}}).encode()
        self.assertIn("F128", self.assert_fails("Unsupported", self.write(with_header(unknown, bytes(4)))))

    def test_packed_types_are_bytes(self) -> None:
        data = bytes(range(1, 17))
        for dtype, shape, packed in (("F4", [2, 16], (2, 8)), ("F4", [2, 8, 2], (2, 8, 1)), ("F6_E2M3", [4], (3,))):
            nbytes = int(np.prod(packed))
            header = json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, nbytes]}}).encode()
            path = self.write(with_header(header, data[:nbytes]))
            array = hearth.load_safetensors(path)["a"]
            self.assertEqual((array.dtype, array.shape), (np.dtype("uint8"), packed))
            self.assertEqual(array.tobytes(), data[:nbytes])
            self.assertEqual(bytes(hearth.load_safetensors(path, framework="hearth")["a"]), data[:nbytes])

    def test_headers_are_read_as_the_reference_reads_them(self) -> None:
        tensor = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
        empty = {"dtype": "U8", "shape": [0], "data_offsets": [16, 16]}
        text, zeros = json.dumps(tensor), bytes(16)
        cases = {
            "plain": ({"a": tensor}, zeros),
            "empty metadata": ({"__metadata__": {}, "a": tensor}, zeros),
            "null for metadata": ({"__metadata__": None, "a": tensor}, zeros),
            "a number in metadata": ({"__metadata__": {"epoch": 3}, "a": tensor}, zeros),
            "metadata at the end": ({"a": tensor, "__metadata__": {"format": "pt"}}, zeros),
            "metadata twice": (f'{{"__metadata__":{{}},"__metadata__":{{}},"a":{text}}}', zeros),
            "only metadata": ({"__metadata__": {"key": "value"}}, b""),
            "nothing": ({}, b""),
            "padded": (json.dumps({"a": tensor}) + " " * 37, zeros),
            "zeros behind": (json.dumps({"a": tensor}) + "\0\0", zeros),
            "a space before": (" " + json.dumps({"a": tensor}), zeros),
            "a key twice": (f'{{"a":{text.replace("[2, 2]", "[4]")},"a":{text}}}', zeros),
            "a member twice": (f'{{"a":{{"dtype":"F32",{text[1:]}}}', zeros),
            "an unknown member": ({"a": {**tensor, "quant": {"kind": ["mx", 1.5, None]}}}, zeros),
            "a scalar": ({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}, bytes(4)),
            "no elements": ({"a": {**empty, "shape": [0, 7], "data_offsets": [0, 0]}, "b": tensor}, zeros),
            "no elements at the end": ({"b": tensor, "a": empty}, zeros),
            "bytes behind": ({"a": tensor}, zeros + b"x" * 8),
            "truncated": ({"a": tensor}, zeros[:-1]),
            "a hole": ({"a": tensor, "b": {"dtype": "F32", "shape": [1], "data_offsets": [20, 24]}}, bytes(24)),
            "names": ({"ключ": tensor, 'a/b\\c"\u0001': empty, "": empty}, zeros),
            "not aligned": (
                {
                    "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
                    "b": {"dtype": "F32", "shape": [1], "data_offsets": [3, 7]},
                },
                bytes(7),
            ),
            "300,000 tensors": (
                {f"t{i}": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i in range(300_000)},
                bytes(300_000),
            ),
            "a header above the limit": ("{" + " " * 100_000_001, b""),
        }
        for name, (header, data) in cases.items():
            with self.subTest(name):
                text_of_header = header if isinstance(header, str) else json.dumps(header)
                path = self.write(with_header(text_of_header.encode(), data))
                try:
                    expected = load_file(path)
                except SafetensorError:
                    self.assert_fails("Corrupt", path)
                    continue
                loaded = hearth.load_safetensors(path)
                self.assertEqual(loaded.keys(), expected.keys())
                for key in list(expected)[:100]:
                    np.testing.assert_array_equal(loaded[key], expected[key], strict=True)


if __name__ == "__main__":
    unittest.main()
