"""Two kernels that Numba compiles, or finds in NUMBA_CACHE_DIR; prints the result, and how many of them it found."""

import json

import numba
import numpy


@numba.njit(cache=True)
def scale(values, factor):
    return values * factor


@numba.njit(cache=True)
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result


def count(kind):
    return sum(sum(getattr(kernel.stats, kind).values()) for kernel in (scale, total))


result = total(scale(numpy.arange(1000, dtype=numpy.float64), 2.0))
print(json.dumps({"result": result, "found": count("cache_hits"), "compiled": count("cache_misses")}))
