"""64 processes write files of 4 KiB to 64 MiB into a folder at once, each file under a name of its own that is then renamed.

python bench/python/concurrent_writers.py FOLDER     prints GIB_PER_SECOND

The files are taken in a random order that is the same in every run.
"""

import mmap
import multiprocessing
import os
import random
import sys
import time

WRITERS = 64
PIECE = 1 << 20
KIB = 1 << 10
# So many files of each size: 853 MiB in 404 files.
FILES = {4 * KIB << shift: count for shift, count in {0: 64, 2: 64, 4: 64, 6: 64, 8: 64, 10: 64, 12: 16, 14: 4}.items()}


def sizes() -> list[int]:
    all_sizes = [size for size, count in FILES.items() for _ in range(count)]
    random.Random(52).shuffle(all_sizes)
    return all_sizes


def write(folder: str, number: int, size: int, data: mmap.mmap) -> None:
    part = os.path.join(folder, f"{number}.part")
    file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    view = memoryview(data)
    for at in range(0, size, PIECE):
        os.write(file, view[: min(PIECE, size - at)])
    os.close(file)
    os.rename(part, os.path.join(folder, str(number)))


def writer(folder: str, mine: list[tuple[int, int]], start: object, times: object) -> None:
    data = mmap.mmap(-1, PIECE)
    data.write(random.Random(0).randbytes(PIECE))
    start.wait()  # type: ignore[attr-defined]
    began = time.perf_counter()
    for number, size in mine:
        write(folder, number, size, data)
    times.put((began, time.perf_counter()))  # type: ignore[attr-defined]


def main() -> None:
    (folder,) = sys.argv[1:]
    numbered = list(enumerate(sizes()))
    start, times = multiprocessing.Barrier(WRITERS), multiprocessing.SimpleQueue()
    processes = [
        multiprocessing.Process(target=writer, args=(folder, numbered[first::WRITERS], start, times))
        for first in range(WRITERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit("a writer failed")
    # All processes have one clock.
    begins, ends = zip(*(times.get() for _ in processes), strict=True)
    print(f"{sum(sizes()) / 2**30 / (max(ends) - min(begins)):.3f}")


if __name__ == "__main__":
    main()
