"""The limits of the machine that loads are compared with, and the state of its page cache."""

import os
import subprocess
import time
from pathlib import Path

import numpy as np


def drop(paths: list[str]) -> None:
    """Drops the files' pages from the page cache, and leaves those of others alone."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def warm(paths: list[str]) -> None:
    buffer = bytearray(4 << 20)
    for path in paths:
        with Path(path).open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def touch(arrays: list[np.ndarray]) -> int:
    """Reads every byte."""
    total = 0
    for array in arrays:
        data = array.reshape(-1).view(np.uint8)
        words = data[: data.size // 8 * 8].view(np.uint64)
        total ^= int(np.bitwise_xor.reduce(words)) if words.size else 0
        total ^= int(np.bitwise_xor.reduce(data[words.size * 8 :])) if data.size % 8 else 0
    return total


def touch_pages(arrays: list[np.ndarray]) -> int:
    """Reads one byte of every page."""
    return sum(int(array.reshape(-1).view(np.uint8)[::4096].sum()) for array in arrays)


def back_free_memory(size: int) -> None:
    """Touches memory and frees it again.

    A host can take free memory of a virtual machine back (free page reporting), and the next touch of such a page
    takes 20 times as long. Without this call the first loader after a pause would pay that price for all of them.
    """
    np.ones(size, dtype=np.uint8)


class Source:
    """Bytes in memory, as many as the files have, of which memcpy makes copies."""

    def __init__(self, size: int) -> None:
        self._bytes = np.ones(size, dtype=np.uint8)

    def copy_seconds(self) -> float:
        """Of a copy into new memory, whose pages the kernel has to clear and map first, as a loader's."""
        started = time.perf_counter()
        copy = self._bytes.copy()
        seconds = time.perf_counter() - started
        del copy
        return seconds


# Ways to read sequentially; the best of them in a first trial is the one that loads are compared with.
FIO_READS = {
    f"{engine} {size} x{depth} {jobs} jobs": [
        f"--ioengine={engine}", f"--bs={size}", f"--iodepth={depth}", f"--numjobs={jobs}"
    ]
    for engine, size, depth, jobs in [
        ("io_uring", "1m", 16, 1),
        ("io_uring", "4m", 8, 1),
        ("io_uring", "4m", 16, 1),
        ("io_uring", "4m", 4, 2),
        ("psync", "4m", 1, 1),
        ("psync", "4m", 1, 4),
        ("psync", "4m", 1, 8),
    ]
}  # fmt: skip


def fio_read_seconds(paths: list[str], way: list[str]) -> float:
    """Of reading all files once with O_DIRECT: its jobs divide the files, one after the other in each."""
    jobs = int(next(option for option in way if option.startswith("--numjobs")).split("=")[1])
    total = sum(os.path.getsize(path) for path in paths)
    each = ["--rw=read", "--direct=1", "--readonly", *(option for option in way if not option.startswith("--numjobs"))]
    command = ["fio", "--output-format=terse", "--terse-version=3", "--group_reporting"]
    for job in range(jobs):
        mine = paths[job::jobs]
        if mine:
            command += [f"--name=job{job}", f"--filename={':'.join(mine)}", "--file_service_type=sequential", *each]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return total / (int(out.strip().splitlines()[-1].split(";")[6]) * 1024)
