"""Errors that a user can do something about; the surfaces print their text and nothing else."""

EXIT_CODES = {
    0: "done",
    1: "a case failed, a check took its number away, or a gate found a regression",
    2: "wrong usage",
    3: "nothing of what was asked for could run here",
    4: "not resolved: a gate had no number to judge by, or an interval is wider than was asked for",
    130: "interrupted; finished launches are kept",
}


class GpubenchError(Exception):
    """Says what happened, then what to do. Printed without a traceback."""

    exit_code = 1


class UsageError(GpubenchError):
    """The user asked for something that does not exist or does not fit."""

    exit_code = 2


class NothingToRunError(GpubenchError):
    """Nothing of what was asked for can run on this machine."""

    exit_code = 3


class NotResolvedError(GpubenchError):
    """A gate has no number to judge, or its interval is too wide to judge by: neither passed nor failed."""

    exit_code = 4


def nearest(word: str, known: list[str]) -> str:
    """'did you mean …' for an unknown name, or the list of known ones."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "known: " + ", ".join(sorted(known))
