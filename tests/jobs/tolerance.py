"""How far two devices may be apart: the one table that every comparison of the JAX programs uses.

Each program names its class. Integers and booleans are compared exactly whatever the class says. What is
measured, per output array:
  exact        bits differ nowhere (NaN equals NaN)
  elementwise  distance in units in the last place of the array's type, element by element
  reduction    difference relative to the largest magnitude in the array: terms of a sum may cancel, so an element
               by itself says nothing about the sum's accuracy
  half         as reduction, for 16-bit floats
"""

import numpy as np

TOLERANCE = {"exact": 0, "elementwise": 4, "reduction": 1e-5, "half": 2e-2}


def _ulps(a, b):
    """Largest distance in units in the last place; equal signs of infinity and NaN against NaN count as 0."""
    integer = {2: np.int16, 4: np.int32, 8: np.int64}[a.dtype.itemsize]

    def ordered(x):  # integers in the order of the floats, -0.0 and 0.0 alike
        bits = x.view(integer).astype(np.int64)
        return np.where(bits < 0, np.int64(np.iinfo(integer).min) - bits, bits)

    distance = np.abs(ordered(a) - ordered(b)).astype(np.float64)
    both_nan = np.isnan(a) & np.isnan(b)
    one_nan = np.isnan(a) ^ np.isnan(b)
    distance = np.where(both_nan, 0, np.where(one_nan, np.inf, distance))
    return float(distance.max(initial=0))


def _relative(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    finite = np.isfinite(a) & np.isfinite(b)
    if not (finite | same).all():
        return float("inf")
    return float(np.abs(a - b)[finite].max() / max(np.abs(b)[finite].max(), np.finfo(np.float32).tiny))


def distance(kind, a, b):
    """(how far a is from b in the measure of kind, whether that is near enough)."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf"), False
    if kind == "exact" or a.dtype.kind in "biu":
        equal = a.tobytes() == b.tobytes() or bool(np.array_equal(a, b, equal_nan=a.dtype.kind not in "biu"))
        return (0.0 if equal else float("inf")), equal
    value = _ulps(a, b) if kind == "elementwise" else _relative(a, b)
    return value, value <= TOLERANCE[kind]
