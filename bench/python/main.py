"""Measures loads from Python and blocks of UCM against other loaders and the machine, in one run; prints medians.

python bench/python/main.py [FOLDER] [--files 8] [--mib 256] [--runs 11] [--blocks 512]

FOLDER is on the storage to measure. All that is compared takes turns, so that the machine's load meets all alike.
Cold: the files' pages have been dropped from the page cache, and a load ends when the caller has read a byte of every
page. Hot: all pages are there, and a load ends when the caller has read every byte. Loads and memcpy write to new
memory, and each begins with free memory that the machine need not ask its host for. A loader that is not installed or
fails has a row that says so.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from blocks import IN_FLIGHT, Blocks
from loaders import LOADERS, MAPPING, OURS, OURS_MAPPED, Load
from machine import FIO_READS, Source, back_free_memory, drop, fio_read_seconds, touch, touch_pages, warm

PACKAGES = ["hearth", "safetensors", "fastsafetensors", "instanttensor", "runai-model-streamer", "torch", "numpy"]
SPARE_MIB = 256

Times = dict[str, list[float]]


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


def cold_seconds(load: Load, paths: list[str]) -> float:
    """Until a byte of every page has been read, which brings those that a loader has only mapped."""
    started = time.perf_counter()
    touch_pages(load(paths).arrays)
    return time.perf_counter() - started


def hot_seconds(load: Load, paths: list[str]) -> float:
    """Until every byte has been read."""
    started = time.perf_counter()
    touch(load(paths).arrays)
    return time.perf_counter() - started


def usable(paths: list[str]) -> tuple[dict[str, Load], dict[str, str]]:
    """The loaders that load the files as they are, and for each of the others the reason."""
    loaders, reasons = {}, {}
    expected = touch(LOADERS[OURS](paths).arrays)
    for name, load in LOADERS.items():
        try:
            if touch(load(paths).arrays) == expected:
                loaders[name] = load
            else:
                reasons[name] = "gives other bytes"
        except ImportError as error:
            reasons[name] = f"not installed: {error}"
        except Exception as error:  # A rival's failure is its row, not ours.
            reasons[name] = f"fails here: {type(error).__name__}: {error}"
        reasons = {name: " ".join(reason.split())[:150] for name, reason in reasons.items()}
    return loaders, reasons


def best_fio(paths: list[str]) -> str:
    tried = {name: min(fio_read_seconds(paths, way) for _ in range(2)) for name, way in FIO_READS.items()}
    return min(tried, key=tried.__getitem__)


def measure(paths: list[str], loaders: dict[str, Load], fio: str, blocks: Blocks, runs: int) -> Times:
    times: Times = defaultdict(list)
    size = sum(os.path.getsize(path) for path in paths)
    source = Source(size)
    # A loader by the page cache takes pages of that and memory of its own.
    needed = 2 * size
    for run in range(runs):
        for name, load in loaders.items():
            drop(paths)
            back_free_memory(needed)
            times[f"{name} cold"].append(cold_seconds(load, paths))
        drop(paths)
        times["fio"].append(fio_read_seconds(paths, FIO_READS[fio]))
        for name, load in loaders.items():
            warm(paths)
            back_free_memory(needed)
            times[f"{name} hot"].append(hot_seconds(load, paths))
        back_free_memory(needed)
        times["memcpy"].append(source.copy_seconds())
        times["dump"].append(blocks.dump())
        times["fio dump"].append(blocks.fio_dump())
        times["load"].append(blocks.load())
        times["fio load"].append(blocks.fio_load())
        print(f"run {run + 1} of {runs}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    return times


def peak_kib() -> int:
    """Of this process since its program began; getrusage() would count the parent's memory before."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def peak_mib(name: str, paths: list[str]) -> float:
    """The most memory that a process which only loads has had, its libraries included."""
    command = [sys.executable, __file__, "--peak", name, *paths]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


def print_speeds(times: Times, loaders: dict[str, Load], reasons: dict[str, str], size: int, fio: str) -> None:
    def speed(key: str, state: str = "") -> str:
        if key not in times:
            return " " * (8 + len(state))
        return f"{size / statistics.median(times[key]) / 2**30:7.2f} {state}"

    for name in LOADERS:
        if name in reasons:
            print(f"{name:18} {reasons[name]}")
        else:
            print(f"{name:18} {speed(f'{name} cold', 'cold')} {speed(f'{name} hot', 'hot')}")
    print(f"{'fio':18} {speed('fio', 'cold')}       ({fio})")
    print(f"{'memcpy':18} {'':12} {speed('memcpy', 'hot')}")


def rows(times: Times, loaders: dict[str, Load]) -> list[tuple[str, float, float]]:
    """Each row of the goals: its name, what was measured, and the least that holds."""
    median: Callable[[str], float] = lambda key: statistics.median(times[key])  # noqa: E731

    def best(state: str, mapping: bool = True) -> float:
        others = [name for name in loaders if name not in {OURS, OURS_MAPPED} and (mapping or name not in MAPPING)]
        return min((median(f"{name} {state}") for name in others), default=float("nan"))

    return [
        ("load, cold, against fio's best sequential read", median("fio") / median(f"{OURS} cold"), 0.95),
        ("load, hot, every byte touched, against memcpy", median("memcpy") / median(f"{OURS} hot"), 0.8),
        ("load, cold, against the best of the others", best("cold") / median(f"{OURS} cold"), 1.0),
        ("load, hot, against the best that copies", best("hot", mapping=False) / median(f"{OURS} hot"), 1.0),
        ("load, hot, mapped, against the best of the others", best("hot") / median(f"{OURS_MAPPED} hot"), 1.0),
        (f"UCM dump, {IN_FLIGHT} in flight, against fio", median("fio dump") / median("dump"), 0.85),
        (f"UCM load, {IN_FLIGHT} in flight, against fio", median("fio load") / median("load"), 0.85),
    ]


def describe() -> str:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return f"{os.cpu_count()} processors, Linux {platform.release()}; {', '.join(found)}"


def report(folder: Path, options: argparse.Namespace) -> None:
    before = os.getloadavg()[0]
    paths = write_files(folder, options.files, options.mib)
    size = sum(os.path.getsize(path) for path in paths)
    loaders, reasons = usable(paths)
    fio = best_fio(paths)
    times = measure(paths, loaders, fio, Blocks(folder, options.blocks), options.runs)
    peaks = {name: peak_mib(name, paths) for name in loaders}
    print(describe())
    print(f"{size >> 20} MiB in {len(paths)} files, medians of {options.runs}, GiB/s; load of the machine", end=" ")
    print(f"{before:.1f} before, {os.getloadavg()[0]:.1f} after")
    print_speeds(times, loaders, reasons, size, fio)
    print(f"{'':50} measured  at least")
    for name, measured, least in rows(times, loaders):
        print(f"{name:50} {measured:8.2f} {least:9.2f}  {'holds' if measured >= least else 'DOES NOT HOLD'}")
    allowed = (size >> 20) + SPARE_MIB
    for name, peak in peaks.items():
        verdict = "" if name != OURS else "  holds" if peak <= allowed else "  DOES NOT HOLD"
        print(f"{'peak memory of ' + name + ', MiB':50} {peak:8.0f} {allowed:6} at most{verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--blocks", type=int, default=512, help="a multiple of 32")
    parser.add_argument("--peak", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        name, *paths = options.peak
        touch(LOADERS[name](paths).arrays)
        print(peak_kib())
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        report(Path(folder), options)


if __name__ == "__main__":
    main()
