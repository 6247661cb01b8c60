"""Loads safetensors files once and reads every byte of them; prints the seconds that both took.

python bench/python/load_once.py LOADER FILE...     "available" instead of a loader prints the rivals that load the files
"""

import os
import sys
import tempfile
import time

import numpy as np
from loaders import LOADERS, OURS, OURS_MAPPED
from machine import back_free_memory, touch, warm
from safetensors.numpy import save_file


def rivals(paths: list[str]) -> list[str]:
    """The other loaders that are installed and load these files."""
    found = []
    for name, load in LOADERS.items():
        if name in {OURS, OURS_MAPPED}:
            continue
        try:
            load(paths)
            found.append(name)
        except Exception as error:  # Rivals fail in ways of their own; one that does is no rival here.
            print(f"{name}: {error}", file=sys.stderr)
    return found


def seconds(name: str, paths: list[str]) -> float:
    started = time.perf_counter()
    touch(LOADERS[name](paths).arrays)
    return time.perf_counter() - started


def main() -> None:
    name, *paths = sys.argv[1:]
    if name == "available":
        print("\n".join(rivals(paths)))
        return
    if name not in {OURS, OURS_MAPPED}:
        warm(paths)
    back_free_memory(sum(os.path.getsize(path) for path in paths))
    with tempfile.TemporaryDirectory() as folder:
        small = f"{folder}/small.safetensors"
        save_file({"small": np.zeros(1, dtype=np.float32)}, small)
        LOADERS[name]([small])  # Imports are no part of a load.
    print(seconds(name, paths))


if __name__ == "__main__":
    main()
