"""fsspec's hearth:// against a real agent; skipped without fsspec."""

import asyncio
import base64
import errno
import multiprocessing
import os
import pathlib
import struct
import tempfile
import threading
import unittest
from unittest import mock

from gd2fs_agent import AgentTest

try:
    import fsspec
except ImportError as error:
    raise unittest.SkipTest("fsspec is not installed") from error

from pygd2fs import Client, filesystem
from pygd2fs.filesystem import HearthFileSystem
from pygd2fs.token import granted_datasets

URL = "hearth://test/file"


def _claims(dataset):
    return struct.pack("<BHHQIHH", 1, 0, 0, 0, 1, 1, len(dataset)) + dataset


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
        with tempfile.TemporaryDirectory() as folder:
            volume = {"HEARTH_CLIENT_ACCESS": folder, "HEARTH_TOKEN": ""}
            with mock.patch.dict(os.environ, volume):
                with self.assertRaises(OSError) as raised:
                    HearthFileSystem(iothreads=1, skip_instance_cache=True)
                self.assertEqual(raised.exception.errno, errno.EINVAL)
                pathlib.Path(folder, "token").write_text(self.token)
                pathlib.Path(folder, "addresses").write_text(f"gd2fs://127.0.0.1:1,{self.address}")
                pathlib.Path(folder, "cluster").write_text("test")
                fs = HearthFileSystem(iothreads=1, skip_instance_cache=True)
                self.addCleanup(fs._client.close)
                self.assertEqual(fs.cat_file(URL, 0, 10), self.expected[:10])
                self.assertEqual(fs.ls("", detail=False), ["test"])

    def test_lists_the_datasets_of_its_token(self):
        self.assertEqual(self.fs.ls("hearth://", detail=False), ["test"])
        self.assertTrue(self.fs.isdir("hearth://"))
        self.assertIn("test/folder/inner/c", self.fs.find("hearth://"))
        with mock.patch.object(filesystem, "granted_datasets", lambda: ["gone", "test"]):
            with self.assertRaises(PermissionError):
                self.fs.ls("hearth://")
        for claims, error in ((b"*", PermissionError), (b"", ValueError)):
            text = f"hearth-token-1.{base64.urlsafe_b64encode(_claims(claims)).decode().rstrip('=')}.key"
            with self.subTest(claims), mock.patch.dict(os.environ, {"HEARTH_TOKEN": text if claims else text[:20]}):
                with self.assertRaises(error):
                    granted_datasets()

    def test_a_small_file_takes_one_request(self):
        with mock.patch.object(Client, "StatAsync", side_effect=AssertionError):
            content = self.fs.cat_file("hearth://test/folder/a")
            self.assertEqual(self.fs.cat_file(URL, 3, 10), self.expected[3:10])
        self.assertEqual(content, self.fs.cat_file("hearth://test/folder/a", 0, 100))

    def test_a_larger_file_comes_whole(self):
        for first in (1, 1000, len(self.expected) - 1, len(self.expected), len(self.expected) + 1):
            with self.subTest(first), mock.patch.object(filesystem, "_FIRST_BYTES", first):
                self.assertEqual(self.fs.cat_file(URL), self.expected)
                self.assertEqual(self.fs.cat_file(URL, 5, 1 << 62), self.expected[5:])
                self.assertEqual(self.fs.cat_file(URL, 5, 1006), self.expected[5:1006])

    def test_ranges_are_read_side_by_side(self):
        begun, all_begun = [], asyncio.Event()
        read = Client.ReadAsync

        async def together(client, *arguments):
            begun.append(arguments)
            if len(begun) == 50:
                all_begun.set()
            await all_begun.wait()
            return await read(client, *arguments)

        starts = [i * 1000 for i in range(50)]
        with mock.patch.object(Client, "ReadAsync", together):
            ranges = self.fs.cat_ranges([URL] * 50, starts, [start + 900 for start in starts])
        self.assertEqual(ranges, [self.expected[start : start + 900] for start in starts])
        missing = self.fs.cat_ranges(["hearth://test/none", URL], [0, 0], [5, 5])
        self.assertIsInstance(missing[0], FileNotFoundError)
        self.assertEqual(missing[1], self.expected[:5])

    def test_runs_on_an_event_loop_of_the_caller(self):
        async def run():
            fs = HearthFileSystem(**self.options, asynchronous=True, skip_instance_cache=True)
            self.addCleanup(fs._client.close)
            self.assertEqual(await fs._cat_file(URL, 1, 4), self.expected[1:4])
            async with await fs.open_async(URL) as file:
                self.assertEqual(await file.read(7), self.expected[:7])
                self.assertEqual(await file.read(), self.expected[7:])
            return await fs._cat([URL, "hearth://test/folder/a"])

        self.assertEqual(asyncio.run(run())["test/file"], self.expected)

    def test_copies_files_and_folders(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(filesystem, "_PART_BYTES", 1 << 20):
            self.fs.get("hearth://test", folder + "/copy", recursive=True)
            self.assertEqual(pathlib.Path(folder, "copy/file").read_bytes(), self.expected)
            self.assertTrue(pathlib.Path(folder, "copy/folder/inner/c").is_file())

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
