"""PyTorch's DataLoader over files of a dataset, with workers of fork and spawn; skipped without torch or fsspec."""

import unittest

from gd2fs_agent import AgentTest

try:
    import fsspec
    from torch.utils.data import DataLoader, Dataset
except ImportError as error:
    raise unittest.SkipTest(f"{error.name} is not installed") from error

from pygd2fs.filesystem import HearthFileSystem

URL = "hearth://test/file"
PIECE = 100_000


class Pieces(Dataset):
    """Pieces of a file; each process reads them through a client of its own."""

    def __init__(self, size, options):
        self.size = size
        self.options = options

    def __len__(self):
        return (self.size + PIECE - 1) // PIECE

    def __getitem__(self, number):
        fs = fsspec.filesystem("hearth", **self.options)
        return fs.cat_file(URL, number * PIECE, min(self.size, (number + 1) * PIECE))


class OpenFile(Pieces):
    """The same through a file system that the parent has opened and used before its workers began."""

    def __init__(self, size, options):
        super().__init__(size, options)
        self.fs = fsspec.filesystem("hearth", **options)
        self.first = self.fs.cat_file(URL, 0, 1)

    def __getitem__(self, number):
        return self.fs.cat_file(URL, number * PIECE, min(self.size, (number + 1) * PIECE))


class DataLoaderTest(AgentTest):
    def setUp(self):
        super().setUp()
        fsspec.register_implementation("hearth", HearthFileSystem, clobber=True)
        self.options = {"cpaddr": self.address, "cluster": "test", "iothreads": 1}
        self.addCleanup(HearthFileSystem.clear_instance_cache)

    def test_workers_read_what_is_there(self):
        for method in ("fork", "spawn"):
            for dataset in (Pieces, OpenFile):
                with self.subTest((method, dataset.__name__)):
                    pieces = dataset(len(self.expected), self.options)
                    loader = DataLoader(
                        pieces,
                        batch_size=4,
                        num_workers=2,
                        collate_fn=b"".join,
                        multiprocessing_context=method,
                        persistent_workers=True,
                    )
                    for _ in range(2):
                        self.assertEqual(b"".join(loader), self.expected)


if __name__ == "__main__":
    unittest.main()
