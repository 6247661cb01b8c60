"""Loads model weights at the speed of the storage, into host and GPU memory."""

from hearth._native import HearthError, Tensor
from hearth.safetensors import TensorInfo, inspect_safetensors, load_safetensors

__all__ = ["HearthError", "Tensor", "TensorInfo", "inspect_safetensors", "load_safetensors"]
