"""Import MXNet 1.9.1 in a Python of today. All else in this folder takes `mx`, `autograd` and `gluon` from here."""

import builtins
import warnings

import numpy as np

# MXNet reads np.bool and its like at import. NumPy 1.24 dropped them; before that, they warn.
for name in ("bool", "int", "float", "complex", "object", "str"):
    vars(np).setdefault(name, getattr(builtins, name))

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # MXNet's own, which nobody will mend
    try:
        import mxnet as mx
        from mxnet import autograd, gluon
    except OSError as error:  # ctypes could not load libmxnet.so
        raise ImportError(
            f"MXNet's library does not load ({error}). It takes libgomp.so.1 and libquadmath.so.0 from the system; "
            "on Debian and Ubuntu: apt-get install libgomp1 libquadmath0"
        ) from error

__all__ = ["autograd", "gluon", "mx"]
