"""Whether numbers were of the type that the case says: those of a parameter, of an input, and of what is multiplied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from gpubench.spec.invariants import complete
from gpubench.spec.record import Check, RunRecord

# What a precision means: the type of parameters and inputs, the type of matrix products and convolutions, and whether
# a GPU may round the float32 that it multiplies to TF32.
TYPES: Mapping[str, tuple[str, str, bool]] = {
    "fp32": ("float32", "float32", False),
    "tf32": ("float32", "float32", True),
    "bf16": ("float32", "bfloat16", False),  # mixed: parameters stay float32
}

# Variables by which a library multiplies in another type than its framework hands it, which no type in the framework
# shows: (variable, values, the precisions that they change).
_ON = "(?!(0|false|off|no)$).+"
OVERRIDES = (
    ("NVIDIA_TF32_OVERRIDE", "0", ("tf32",)),
    ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", _ON, ("fp32",)),
    ("ONEDNN_DEFAULT_FPMATH_MODE", "(?!strict$).+", ("fp32",)),
    ("DNNL_DEFAULT_FPMATH_MODE", "(?!strict$).+", ("fp32",)),
    ("TF_SET_ONEDNN_FPMATH_MODE", "bf16", ("fp32",)),
    ("MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION", _ON, ("fp32",)),
)


def _types(record: RunRecord) -> Iterator[Check]:
    wanted = TYPES.get(record.case.precision)
    if wanted is None:
        return
    observed, (stored, multiplied, tf32) = record.observed, wanted
    found = [
        f"{what} {', '.join(types)} where {record.case.precision} has {expected}"
        for what, types, expected in (
            ("parameters are", observed.parameter_types, stored),
            ("inputs are", observed.input_types, stored),
            ("matrix products and convolutions are", observed.product_types, multiplied),
        )
        if types and set(types) != {expected}
    ]
    # Only of float32 that is multiplied does the switch for TF32 say anything.
    if record.case.device_kind == "gpu" and multiplied == "float32" and observed.tf32 not in (None, tf32):
        found.append(f"float32 {'may be' if observed.tf32 else 'is not'} rounded to TF32")
    found += [
        f"{name}={record.environment[name][:60]} changes what is computed"
        for name, values, precisions in OVERRIDES
        if name in record.environment
        and record.case.precision in precisions
        and re.fullmatch(values, record.environment[name].strip(), re.IGNORECASE)
    ]
    lacking = [
        what
        for what, types in (("inputs", observed.input_types), ("products and convolutions", observed.product_types))
        if types is None and complete.is_current(record) and not (what == "inputs" and record.case.framework == "fake")
    ]
    if found or lacking:
        unknown = f"the framework did not tell the type of {' and of '.join(lacking)}"
        yield Check(
            name="precision",
            severity="severe" if found else "warning",
            message="; ".join(found) or unknown,
            remedy="the case did other work than it says: look for a setting of the floating-point type, in a "
            "configuration file, a variable or the strategy",
        )


DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (_types,)
