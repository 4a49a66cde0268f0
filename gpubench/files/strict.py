"""The record as msgspec reads it: types made once from the dataclasses of `spec/record.py`, with limits on each value.

Whatever passes keeps to all that `validation` says of values by themselves, checked in C while it is read. The limits
here are never wider than those there, and now and then narrower: a line that fails is looked at again, value by value,
to say why in a sentence, or to let it pass.
"""

from __future__ import annotations

import types
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from gpubench.files.validation import (
    LARGEST_COUNT,
    LARGEST_FLOAT,
    LARGEST_INTEGER,
    LARGEST_SIZE,
    LONGEST_LIST,
    LONGEST_NAME,
    LONGEST_SECONDS,
    LONGEST_TEXT,
    NAMES,
    SHORTEST_SECONDS,
    SIGNED,
)
from gpubench.spec.case import Case
from gpubench.spec.record import Round, RunRecord

_SIZE, _COUNT = Meta(ge=1, le=LARGEST_SIZE), Meta(ge=1, le=LARGEST_COUNT)
# What `validation` asks of one field beyond what it asks of every number.
_OF_FIELDS: dict[tuple[type, str], Any] = {
    (RunRecord, "launch"): Annotated[int, Meta(ge=0, le=LARGEST_SIZE)],
    (Case, "n_devices"): Annotated[int, _SIZE],
    (Case, "n_nodes"): Annotated[int, _SIZE],
    (Case, "cores_per_device"): Annotated[int, Meta(ge=0, le=LARGEST_SIZE)],
    (Case, "per_device_batch"): Annotated[int, _COUNT],
    (Case, "global_batch"): Annotated[int, _COUNT],
    (Round, "steps"): Annotated[int, _COUNT],
    (Round, "samples"): Annotated[int, Meta(ge=0, le=LARGEST_COUNT)],
    (Round, "rank_seconds"): Annotated[
        list[Annotated[float, Meta(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]],
        Meta(min_length=1, max_length=LONGEST_LIST),
    ],
    **{key: Annotated[str, Meta(max_length=longest)] for key, longest in NAMES.items()},
}


@cache
def strict(kind: type, unread: tuple[str, ...] = ()) -> Any:
    """A msgspec.Struct with the fields, defaults and properties of `kind`, a dataclass of the record.

    Whoever reads a record's fields may take one for the other; it cannot be hashed, nor changed by `replace`. The
    fields that `unread` names are left as the JSON that they are.
    """
    hints = get_type_hints(kind)
    made: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for each in fields(kind):
        limited = limited_type(kind, each.name, hints[each.name])
        if each.name in unread:
            is_needed = each.default is MISSING and each.default_factory is MISSING
            made.append((each.name, msgspec.Raw) if is_needed else (each.name, msgspec.Raw, _default(each)))
        elif each.default is not MISSING:
            made.append((each.name, limited, each.default))
        elif each.default_factory is not MISSING:
            factory = strict(each.default_factory) if is_dataclass(each.default_factory) else each.default_factory
            made.append((each.name, limited, msgspec.field(default_factory=factory)))
        else:
            made.append((each.name, limited))
    properties = {name: value for name, value in vars(kind).items() if isinstance(value, property)}
    # A record has no cycles, so that Python's collector need not look for any in millions of them.
    return msgspec.defstruct(kind.__name__, made, namespace=properties, kw_only=True, gc=False)


def limited_type(kind: type, name: str, hint: Any) -> Any:
    """What a field of the dataclass `kind`, which has the type `hint`, may hold."""
    return _OF_FIELDS.get((kind, name)) or _limited(hint, name in SIGNED)


def _default(of: Field[Any]) -> msgspec.Raw:
    """The default of a field that has one, as JSON."""
    made = of.default if of.default_factory is MISSING else of.default_factory()
    return msgspec.Raw(msgspec.json.encode(made))


def _limited(hint: Any, is_signed: bool) -> Any:
    if is_dataclass(hint):
        return strict(hint)  # type: ignore[arg-type]
    parts = get_args(hint)
    match get_origin(hint):
        case None if hint is int:
            return Annotated[int, Meta(ge=-LARGEST_INTEGER if is_signed else 0, le=LARGEST_INTEGER)]
        case None if hint is float:
            return Annotated[float, Meta(ge=-LARGEST_FLOAT if is_signed else 0.0, le=LARGEST_FLOAT)]
        case None if hint is str:
            return Annotated[str, Meta(max_length=LONGEST_TEXT)]
        case types.UnionType:
            return Union[tuple(_limited(part, is_signed) for part in parts)]  # noqa: UP007  (made of values)
        case kind if kind is list:
            return Annotated[list[_limited(parts[0], is_signed)], Meta(max_length=LONGEST_LIST)]  # type: ignore[misc]
        case kind if kind is dict:
            return dict[Annotated[str, Meta(max_length=LONGEST_NAME)], _limited(parts[1], is_signed)]  # type: ignore[misc]
        case kind if kind is tuple:
            inner = tuple(part if part is Ellipsis else _limited(part, is_signed) for part in parts)
            made = tuple[inner]  # type: ignore[valid-type]
            return Annotated[made, Meta(max_length=LONGEST_LIST)] if Ellipsis in parts else made
    return hint  # None, bool, Literal
