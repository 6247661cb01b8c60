"""Loaders of safetensors files, each with the call that its documentation shows for host memory."""

from collections.abc import Callable

import numpy as np

# Loads files and returns their tensors as arrays, whose memory lives for as long as they do.
Load = Callable[[list[str]], list[np.ndarray]]


def with_hearth(paths: list[str]) -> list[np.ndarray]:
    import hearth

    return list(hearth.load_safetensors(paths).values())


def with_safetensors(paths: list[str]) -> list[np.ndarray]:
    from safetensors.numpy import load_file

    return [array for path in paths for array in load_file(path).values()]


def with_safetensors_torch(paths: list[str]) -> list[np.ndarray]:
    from safetensors.torch import load_file

    return [tensor.numpy() for path in paths for tensor in load_file(path).values()]


def with_fastsafetensors(paths: list[str]) -> list[np.ndarray]:
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    loader = SafeTensorsFileLoader(SingleGroup(), "cpu", nogds=True)
    loader.add_filenames({0: paths})
    files = loader.copy_files_to_device()
    try:
        # Its tensors are views of buffers that go with the loader.
        return [files.get_tensor(name).clone().numpy() for name in loader.get_keys()]
    finally:
        files.close()
        loader.close()


def with_instanttensor(paths: list[str]) -> list[np.ndarray]:
    from instanttensor import safe_open

    with safe_open(paths, framework="pt", device="cpu") as file:
        return [tensor.numpy() for _, tensor in file.tensors()]


def with_runai(paths: list[str]) -> list[np.ndarray]:
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_files(paths)
        # Its tensors are views of a buffer that the streamer fills again.
        return [tensor.numpy().copy() for _, tensor in streamer.get_tensors()]


OURS = "hearth"
LOADERS: dict[str, Load] = {
    OURS: with_hearth,
    "safetensors": with_safetensors,
    "safetensors.torch": with_safetensors_torch,
    "fastsafetensors": with_fastsafetensors,
    "InstantTensor": with_instanttensor,
    "Run:ai streamer": with_runai,
}
