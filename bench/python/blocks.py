"""UcmHearthStore against fio: blocks of 2 MiB, a file each, 32 in flight, past the page cache."""

import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

BLOCK = 2 << 20
IN_FLIGHT = 32
ROOT = Path(__file__).resolve().parents[2]


def open_store(folder: Path) -> object:
    """The store as UCM configures it; without UCM its contract comes from the store's tests."""
    sys.path.insert(0, str(ROOT / "integrations/ucm"))
    try:
        import ucm.store.ucmstore_v1  # noqa: F401
    except ImportError:
        sys.path.insert(0, str(ROOT / "integrations/ucm/tests/contract"))
    from hearth_ucm_store import UcmHearthStore

    config = {"storage_backends": str(folder), "useDirect": True, "stream_number": IN_FLIGHT}
    return UcmHearthStore(config | {"shard_size": BLOCK, "block_size": BLOCK, "tensor_size_list": [BLOCK]})


class Blocks:
    """One dump and one load of the same blocks, by the store and by fio; each returns seconds."""

    def __init__(self, folder: Path, count: int) -> None:
        self.size = count * BLOCK
        self._count = count
        self._folder = folder / "store"
        self._fio_folder = folder / "fio"
        self._folder.mkdir()
        self._store = open_store(self._folder)
        memory = np.empty(self.size + 4096, dtype=np.uint8)
        self._memory = memory[-memory.ctypes.data % 4096 :][: self.size]
        self._memory[:] = np.frombuffer(secrets.token_bytes(BLOCK), dtype=np.uint8).repeat(count)[: self.size]
        self._ids: list[bytes] = []

    def dump(self) -> float:
        """Creates the files, too, which the store does before the bytes move."""
        for block in self._folder.iterdir():
            block.unlink()
        os.sync()
        self._ids = [secrets.token_bytes(16) for _ in range(self._count)]
        return self._seconds(self._store.dump_data)

    def load(self) -> float:
        self._memory[::4096] ^= 0xFF
        return self._seconds(self._store.load_data)

    def fio_dump(self) -> float:
        shutil.rmtree(self._fio_folder, ignore_errors=True)
        self._fio_folder.mkdir()
        os.sync()
        return self._fio_seconds("write", "--fallocate=native")

    def fio_load(self) -> float:
        return self._fio_seconds("read", "--readonly")

    def _seconds(self, move: object) -> float:
        base = self._memory.ctypes.data
        addresses = [[base + i * BLOCK] for i in range(self._count)]
        started = time.perf_counter()
        self._store.wait(move(self._ids, [0] * self._count, addresses))
        return time.perf_counter() - started

    def _fio_seconds(self, direction: str, *options: str) -> float:
        command = ["fio", "--name=blocks", f"--directory={self._fio_folder}", f"--rw={direction}", "--direct=1"]
        command += [f"--bs={BLOCK}", f"--filesize={BLOCK}", f"--nrfiles={self._count // IN_FLIGHT}", "--thread"]
        command += [f"--numjobs={IN_FLIGHT}", "--ioengine=psync", "--file_service_type=sequential", "--group_reporting"]
        command += ["--output-format=terse", "--terse-version=3", *options]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        fields = out.strip().splitlines()[-1].split(";")
        return self.size / (int(fields[6 if direction == "read" else 47]) * 1024)
