"""Ranks of a tensor-parallel engine, processes of this machine, that load their slices of a model at the same time.

python bench/python/load_slices.py make FOLDER BYTES     writes the model, in four files; prints their paths
python bench/python/load_slices.py RANKS FILE...         prints seconds from when all are told to load, with everything
                                                         imported, until the last has read every byte of its tensors;
                                                         and how many bytes of the files all of them have read

Half of the tensors are cut between rows and half within rows, as those of Llama's layers are. One rank loads all.
"""

import subprocess
import sys
import time
from pathlib import Path

ROWS, COLUMNS = 2048, 7168  # of 2 bytes each: rows have the length of an 8B model's


def make(folder: Path, size: int) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    for number in range(4):
        tensors = {
            f"{number}.{i}.{cut}": random.integers(0, 2**15, (ROWS, COLUMNS), dtype=np.int16)
            for i in range(max(1, size // 4 // (4 * ROWS * COLUMNS)))
            for cut in (0, 1)
        }
        path = folder / f"model-{number}.safetensors"
        save_file(tensors, path)
        print(path)


def bytes_read() -> int:
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


def load(rank: int, ranks: int, group: str, paths: list[str]) -> None:
    import hearth
    from machine import touch

    print("ready", flush=True)
    sys.stdin.readline()
    before = bytes_read()
    slices = None
    if ranks > 1:
        slices = {}
        for name, info in hearth.inspect_safetensors(paths).items():
            dimension = int(name[-1])
            size = info.shape[dimension]
            slices[name] = (dimension, size * rank // ranks, size * (rank + 1) // ranks)
    tensors = hearth.load_safetensors(paths, slices=slices, rank=rank, world_size=ranks, group=group)
    touch(list(tensors.values()))
    print(bytes_read() - before, flush=True)


def measure(ranks: int, paths: list[str]) -> tuple[float, int]:
    command = [sys.executable, __file__, "rank"]
    group = f"load-slices-{time.monotonic_ns()}"
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(ranks), group, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for rank in range(ranks)
    ]
    for process in processes:
        process.stdout.readline()
    started = time.perf_counter()
    for process in processes:
        print(file=process.stdin, flush=True)
    answers = [process.stdout.readline() for process in processes]
    took = time.perf_counter() - started
    if any([process.wait() for process in processes]):
        sys.exit("a rank has failed")
    return took, sum(map(int, answers))


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "make":
        make(Path(rest[0]), int(rest[1]))
    elif what == "rank":
        load(int(rest[0]), int(rest[1]), rest[2], rest[3:])
    else:
        print(*measure(int(what), rest))


main()
