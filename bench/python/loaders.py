"""Loaders of safetensors files, each with the call that its documentation shows for host memory."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Loaded(NamedTuple):
    """The tensors of a load, and what their memory goes with."""

    arrays: list[np.ndarray]
    owner: object = None


Load = Callable[[list[str]], Loaded]


def with_hearth(paths: list[str]) -> Loaded:
    import hearth

    return Loaded(list(hearth.load_safetensors(paths).values()))


def with_hearth_mapped(paths: list[str]) -> Loaded:
    import hearth

    return Loaded(list(hearth.load_safetensors(paths, mapped=True).values()))


def with_safetensors(paths: list[str]) -> Loaded:
    from safetensors.numpy import load_file

    return Loaded([array for path in paths for array in load_file(path).values()])


def with_safetensors_torch(paths: list[str]) -> Loaded:
    from safetensors.torch import load_file

    return Loaded([tensor.numpy() for path in paths for tensor in load_file(path).values()])


def with_fastsafetensors(paths: list[str]) -> Loaded:
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
    loader.add_filenames({0: paths})
    files = loader.copy_files_to_device()
    return Loaded([files.get_tensor(name).numpy() for name in loader.get_keys()], _FastFiles(loader, files))


class _FastFiles:
    """Gives the buffers of fastsafetensors back, which it does not by itself."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def __del__(self) -> None:
        for part in reversed(self._parts):
            part.close()


def with_instanttensor(paths: list[str]) -> Loaded:
    from instanttensor import safe_open

    with safe_open(paths, framework="pt", device="cpu") as file:
        return Loaded([tensor.numpy() for _, tensor in file.tensors()])


def with_runai(paths: list[str]) -> Loaded:
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_files(paths)
        return Loaded([tensor.numpy() for _, tensor in streamer.get_tensors()])


OURS = "hearth"
OURS_MAPPED = "hearth, mapped"
# Their tensors in host memory are pages of the page cache.
MAPPING = {OURS_MAPPED, "safetensors.torch"}
LOADERS: dict[str, Load] = {
    OURS: with_hearth,
    OURS_MAPPED: with_hearth_mapped,
    "safetensors": with_safetensors,
    "safetensors.torch": with_safetensors_torch,
    "fastsafetensors": with_fastsafetensors,
    "InstantTensor": with_instanttensor,
    "Run:ai streamer": with_runai,
}
