"""What the binaries of the wheel need of the system."""

import re
import unittest
from pathlib import Path

import hearth
import pygd2fs

# Of Ubuntu 22.04.
GLIBC = (2, 35)


class Symbols(unittest.TestCase):
    def test_the_binaries_need_no_newer_library_than_the_wheel_promises(self) -> None:
        folders = [Path(package.__file__).parent for package in (hearth, pygd2fs)]
        files = [path for folder in folders for path in folder.iterdir() if path.is_file()]
        binaries = [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]
        self.assertGreaterEqual(
            {path.name.split(".")[0] for path in binaries}, {"_native", "hearth-load", "libgd2fs"}, binaries
        )
        for path in binaries:
            with self.subTest(path):
                names = path.read_bytes().split(b"\0")
                versions = [re.fullmatch(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", name) for name in names]
                needed = {(int(version[1]), int(version[2])) for version in versions if version}
                self.assertTrue(needed)
                self.assertLessEqual(max(needed), GLIBC)
                self.assertFalse([name for name in names if name.startswith((b"GLIBCXX_", b"CXXABI_"))])


if __name__ == "__main__":
    unittest.main()
