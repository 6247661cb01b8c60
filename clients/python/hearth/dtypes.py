"""Converts loaded tensors to arrays of NumPy and tensors of torch without copying their bytes."""

from importlib import import_module
from typing import Any, Protocol

import numpy

from hearth._native import HearthError, Tensor
from hearth.errors import hearth_error

_NUMPY = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}

# Types of the package ml-dtypes.
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
}

# Types of several elements a byte; NumPy gets them as uint8 with the last dimension in bytes.
_PACKED = {"F4", "F6_E2M3", "F6_E3M2"}

# Types that DLPack carries as bytes of the same size.
_TORCH_VIEWS = {
    "F4": "float4_e2m1fn_x2",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
}
_TORCH = {*_NUMPY, "BF16", *_TORCH_VIEWS}


class Converter(Protocol):
    def check(self, name: str, dtype: str) -> None:
        """Raises HearthError when tensors of this type cannot be converted."""

    def __call__(self, tensor: Tensor) -> Any: ...


class _AsTensor:
    def check(self, name: str, dtype: str) -> None:
        pass

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor


class _AsNumpy:
    def check(self, name: str, dtype: str) -> None:
        if dtype not in _PACKED:
            self._dtype(name, dtype)

    def __call__(self, tensor: Tensor) -> numpy.ndarray:
        if tensor.dtype in _PACKED:
            # DLPack has the shape in bytes; arrays of a buffer can be written.
            return numpy.frombuffer(tensor, dtype="uint8").reshape(numpy.from_dlpack(tensor).shape)
        return numpy.frombuffer(tensor, dtype=self._dtype(tensor.name, tensor.dtype)).reshape(tensor.shape)

    def _dtype(self, name: str, dtype: str) -> numpy.dtype:
        if dtype in _NUMPY:
            return numpy.dtype(_NUMPY[dtype])
        if dtype in _ML_DTYPES:
            ml_dtypes = _module("ml_dtypes", f"tensor {name!r} is {dtype}, which NumPy has by ml-dtypes only")
            if hasattr(ml_dtypes, _ML_DTYPES[dtype]):
                return numpy.dtype(getattr(ml_dtypes, _ML_DTYPES[dtype]))
        raise _unsupported(f"tensor {name!r} is {dtype}, which NumPy lacks; use framework='hearth' for its bytes")


class _AsTorch:
    def __init__(self) -> None:
        self._torch = _module("torch", "framework='torch' needs torch")

    def check(self, name: str, dtype: str) -> None:
        if dtype not in _TORCH or (dtype in _TORCH_VIEWS and not hasattr(self._torch, _TORCH_VIEWS[dtype])):
            raise _unsupported(f"tensor {name!r} is {dtype}, which this torch lacks; use framework='hearth'")

    def __call__(self, tensor: Tensor) -> Any:
        loaded = self._torch.from_dlpack(tensor)
        view = _TORCH_VIEWS.get(tensor.dtype)
        return loaded if view is None else loaded.view(getattr(self._torch, view))


def torch_dtype(name: str, dtype: str) -> Any:
    """Returns torch's type of elements for that of a file; raises HearthError when torch lacks it."""
    torch_names = _NUMPY | {"BF16": "bfloat16"} | _TORCH_VIEWS
    found = getattr(_module("torch", "framework='torch' needs torch"), torch_names.get(dtype, ""), None)
    if found is None:
        raise _unsupported(f"tensor {name!r} is {dtype}, which this torch lacks; use framework='hearth'")
    return found


def converter(framework: str) -> Converter:
    """Returns the converter for "numpy", "torch" or "hearth"; raises ValueError for others."""
    makers: dict[str, type[Converter]] = {"numpy": _AsNumpy, "torch": _AsTorch, "hearth": _AsTensor}
    if framework not in makers:
        raise ValueError(f"framework {framework!r} is not one of {', '.join(makers)}")
    return makers[framework]()


def _module(name: str, why: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise _unsupported(f"{why}: pip install {name.replace('_', '-')}") from error


def _unsupported(message: str) -> HearthError:
    return hearth_error("Unsupported", message)
