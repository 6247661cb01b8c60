"""Compares loaders of safetensors files on the same files in one run; prints medians as a table.

python bench/python/loaders.py [FOLDER] [--files 2] [--mib 256] [--runs 5]

Each run loads all files and touches one byte of every page. Cold: the files' pages are dropped from the page cache
first (posix_fadvise), which leaves those of others alone. A loader that is not installed, or that needs a torch that
is not, has a row that says so. The loaders take turns, so that all of them meet the machine's load alike.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Run = Callable[[list[str]], list[np.ndarray]]


def with_hearth(paths: list[str]) -> list[np.ndarray]:
    import hearth

    return list(hearth.load_safetensors(paths).values())


def with_safetensors(paths: list[str]) -> list[np.ndarray]:
    from safetensors.numpy import load_file

    return [array for path in paths for array in load_file(path).values()]


def with_runai(paths: list[str]) -> list[np.ndarray]:
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_files(paths)
        return [tensor.numpy().copy() for _, tensor in streamer.get_tensors()]


def with_fastsafetensors(paths: list[str]) -> list[np.ndarray]:
    import torch  # noqa: F401
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
    loader.add_filenames({0: paths})
    tensors = loader.copy_files_to_device()
    return [tensors.get_tensor(name).numpy() for name in loader.get_keys()]


def with_instanttensor(paths: list[str]) -> list[np.ndarray]:
    import torch  # noqa: F401
    from instanttensor import safe_open

    with safe_open(paths, framework="pt", device="cpu") as file:
        return [tensor.numpy() for _, tensor in file.tensors()]


LOADERS: dict[str, Run] = {
    "hearth": with_hearth,
    "safetensors": with_safetensors,
    "fastsafetensors": with_fastsafetensors,
    "InstantTensor": with_instanttensor,
    "Run:ai streamer": with_runai,
}


def write_files(folder: Path, files: int, mib: int) -> list[str]:
    from safetensors.numpy import save_file

    paths = []
    for number in range(files):
        random = np.random.default_rng(number)
        tensors = {
            f"layer{number}.{i}": random.integers(0, 256, 8 << 20, dtype=np.uint8).view(np.float32)
            for i in range(mib // 8)
        }
        paths.append(str(folder / f"{number}.safetensors"))
        save_file(tensors, paths[-1])
    os.sync()
    return paths


def drop(paths: list[str]) -> None:
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def touch(arrays: list[np.ndarray]) -> None:
    for array in arrays:
        array.reshape(-1).view(np.uint8)[::4096].sum()


def seconds(run: Run, paths: list[str]) -> float:
    started = time.perf_counter()
    touch(run(paths))
    return time.perf_counter() - started


def copy_seconds(size: int) -> float:
    source = np.ones(size, dtype=np.uint8)
    started = time.perf_counter()
    source.copy()
    return time.perf_counter() - started


def fio_seconds(path: str, size: int) -> float | None:
    command = ["fio", "--name=read", f"--filename={path}", "--rw=read", "--bs=4m", "--direct=1", "--iodepth=16"]
    command += ["--ioengine=io_uring", "--readonly", "--output-format=terse", "--terse-version=3"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    kib_per_second = int(out.split(";")[6])
    return size / (kib_per_second * 1024)


def measure(paths: list[str], runs: int) -> None:
    total = sum(os.path.getsize(path) for path in paths)
    reasons: dict[str, str] = {}
    times: dict[tuple[str, str], list[float]] = {}
    for name, run in LOADERS.items():
        try:
            run(paths)
        except ImportError as error:
            reasons[name] = f"not installed ({error.name or error})"
        except Exception as error:  # A rival's failure is its row, not ours.
            reasons[name] = f"failed: {type(error).__name__}: {error}"
    for _ in range(runs):
        for name, run in LOADERS.items():
            if name in reasons:
                continue
            drop(paths)
            times.setdefault((name, "cold"), []).append(seconds(run, paths))
            for path in paths:
                Path(path).read_bytes()
            times.setdefault((name, "hot"), []).append(seconds(run, paths))
        times.setdefault(("memcpy", "hot"), []).append(copy_seconds(total))
        drop(paths)
        fio = [fio_seconds(path, os.path.getsize(path)) for path in paths]
        if None not in fio:
            times.setdefault(("fio", "cold"), []).append(sum(fio))
    print(f"{total >> 20} MiB in {len(paths)} files, medians of {runs}, GiB/s")
    for name in [*LOADERS, "fio", "memcpy"]:
        if name in reasons:
            print(f"{name:16}  {reasons[name]}")
            continue
        cells = []
        for state in ("cold", "hot"):
            found = times.get((name, state))
            cells.append(f"{total / statistics.median(found) / 2**30:6.2f} {state}" if found else " " * 11)
        print(f"{name:16}  {'  '.join(cells)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(write_files(Path(folder), options.files, options.mib), options.runs)


if __name__ == "__main__":
    main()
