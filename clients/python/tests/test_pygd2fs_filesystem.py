"""fsspec's hearth:// against a real agent; skipped without fsspec."""

import errno
import multiprocessing
import os
import pathlib
import tempfile
import threading
import unittest
from unittest import mock

from gd2fs_agent import AgentTest

try:
    import fsspec
except ImportError as error:
    raise unittest.SkipTest("fsspec is not installed") from error

from pygd2fs import filesystem
from pygd2fs.filesystem import HearthFileSystem

URL = "hearth://test/file"


class FileSystemTest(AgentTest):
    def setUp(self):
        super().setUp()
        fsspec.register_implementation("hearth", HearthFileSystem, clobber=True)
        self.options = {"cpaddr": self.address, "cluster": "test", "iothreads": 1}
        self.fs = fsspec.filesystem("hearth", **self.options)
        self.addCleanup(self.fs._client.close)
        self.addCleanup(HearthFileSystem.clear_instance_cache)

    def test_opens_by_url(self):
        with fsspec.open(URL, **self.options) as file:
            self.assertEqual(file.read(10), self.expected[:10])
            file.seek(-7, os.SEEK_END)
            self.assertEqual(file.read(), self.expected[-7:])
            file.seek(0)
            self.assertEqual(file.read(), self.expected)

    def test_connects_in_a_pod_by_the_files_of_its_volume(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(filesystem, "_ACCESS", pathlib.Path(folder)):
            with self.assertRaisesRegex(ValueError, "cpaddr is missing"):
                HearthFileSystem(iothreads=1, skip_instance_cache=True)
            pathlib.Path(folder, "addresses").write_text(f"gd2fs://127.0.0.1:1,{self.address}")
            pathlib.Path(folder, "cluster").write_text("test")
            fs = HearthFileSystem(iothreads=1, skip_instance_cache=True)
            self.addCleanup(fs._client.close)
            self.assertEqual(fs.cat_file(URL, 0, 10), self.expected[:10])

    def test_reads_ranges(self):
        size = len(self.expected)
        for begin, end in ((None, None), (5, 9), (-5, None), (0, -1), (size - 3, size + 100), (9, 5), (size + 1, None)):
            with self.subTest((begin, end)):
                self.assertEqual(self.fs.cat_file(URL, begin, end), self.expected[begin:end])

    def test_tells_what_is_there(self):
        self.assertEqual(self.fs.info(URL)["size"], len(self.expected))
        self.assertEqual((self.fs.isfile(URL), self.fs.isdir("hearth://test")), (True, True))
        self.assertFalse(self.fs.exists("hearth://test/none"))
        self.assertEqual(self.fs.ls(URL, detail=False), ["test/file"])

    def test_lists_folders(self):
        folder = "test/folder"
        for page in (1, 2, 3, 1024):
            with self.subTest(page), mock.patch.object(filesystem, "_PAGE", page):
                listed = {entry["name"]: entry["type"] for entry in self.fs.ls(f"hearth://{folder}")}
                self.assertEqual(
                    listed, {f"{folder}/a": "file", f"{folder}/b": "file", f"{folder}/inner": "directory"}
                )
        self.assertEqual(self.fs.ls("hearth://test", detail=False), ["test/file", folder])
        self.assertEqual(self.fs.glob(f"hearth://{folder}/*"), [f"{folder}/a", f"{folder}/b", f"{folder}/inner"])
        self.assertEqual(self.fs.find(f"hearth://{folder}"), [f"{folder}/a", f"{folder}/b", f"{folder}/inner/c"])
        with self.assertRaises(FileNotFoundError):
            self.fs.ls("hearth://test/none")

    def test_errors_are_those_of_the_system(self):
        with self.assertRaises(FileNotFoundError):
            self.fs.cat_file("hearth://test/none")
        with self.assertRaises(IsADirectoryError):
            self.fs.cat_file("hearth://test", 0, 10)
        with self.assertRaises(OSError) as raised:
            self.fs.open(URL, "wb")
        self.assertEqual(raised.exception.errno, errno.EROFS)

    def test_threads_read_at_the_same_time(self):
        wrong = []

        def read(begin):
            if self.fs.cat_file(URL, begin, begin + 100_000) != self.expected[begin : begin + 100_000]:
                wrong.append(begin)

        threads = [threading.Thread(target=read, args=(i * 100_000,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_workers_of_fork_and_spawn_read(self):
        for method in ("fork", "spawn"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(2) as pool:
                self.assertEqual(pool.map(Reader(self.fs), [0, 5, 9]), [self.expected[at : at + 9] for at in (0, 5, 9)])
        self.assertEqual(self.fs.cat_file(URL, 0, 9), self.expected[:9])


class Reader:
    """As a Dataset of PyTorch: its workers get it by fork, or pickled."""

    def __init__(self, fs):
        self.fs = fs

    def __call__(self, begin):
        return self.fs.cat_file(URL, begin, begin + 9)


if __name__ == "__main__":
    unittest.main()
