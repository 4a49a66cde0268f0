"""Import MXNet 1.9.1 in a Python of today. All else in this folder takes `mx`, `autograd` and `gluon` from here."""

import builtins
import warnings

import numpy as np

from gpubench.frameworks.mxnet import libraries

# MXNet reads np.bool and its like at import. NumPy 1.24 dropped them; before that, they warn.
for name in ("bool", "int", "float", "complex", "object", "str"):
    vars(np).setdefault(name, getattr(builtins, name))

with warnings.catch_warnings():
    # MXNet's own, which nobody will mend: deprecations, and from Python 3.12 on, escapes that it spells wrong.
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("ignore", SyntaxWarning)
    try:
        libraries.load_cuda()
        import mxnet as mx
        from mxnet import autograd, gluon
    except OSError as error:  # ctypes could not load libmxnet.so, or what it needs
        raise ImportError(libraries.missing(str(error))) from error

__all__ = ["autograd", "gluon", "mx"]
