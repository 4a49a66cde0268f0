"""What `gpubench run` does: the plan of a run that is continued, its launches, and what a dry run says of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpubench.spec.errors import NothingToRunError, UsageError

if TYPE_CHECKING:
    from gpubench.files.store import Journal
    from gpubench.harness.interpreters import Interpreters
    from gpubench.harness.plan import Cases, Plan
    from gpubench.harness.session import Session
    from gpubench.spec.case import Case
    from gpubench.spec.record import Machine, RunRecord


@dataclass(frozen=True)
class Begun:
    """A run that is to be continued, before anything of it is changed. `plan` is None where it was not yet kept."""

    path: Path
    records: list[RunRecord]
    plan: Plan | None


def begun(word: str, save: str | None, results: Path) -> Begun:
    """The run that `--resume` names. UsageError where there is none, or it is no run; nothing is changed."""
    from gpubench.files import store
    from gpubench.files.finding import find
    from gpubench.files.toml import read_toml
    from gpubench.harness.plan import Plan
    from gpubench.harness.settings import check, from_toml

    path = find(word, results)
    if save is not None:
        raise UsageError(f"--resume continues {path.stem} under its own name: leave --save {save} out.")
    records = store.look(path)
    kept = store.plan_file(path)
    if not os.path.lexists(kept):
        return Begun(path, records, None)
    plan = Plan(**from_toml(read_toml(kept), str(kept)))
    check(plan)
    return Begun(path, records, plan)


def same_machine(run: Begun, this: Machine, given_name: str | None) -> Machine:
    """This machine, by the name that the run knows it by. UsageError where it is not the run's."""
    from gpubench.harness.machine import named_as
    from gpubench.spec.identity import identity

    if given_name is None:
        this = named_as(this, run.records)
        if run.plan is not None and run.plan.machine is not None:
            this = replace(this, name=run.plan.machine, name_from="given")
    for record in run.records:
        if found := identity(record.machine).differences(identity(this)):
            told = "; ".join(f"{what}: {then} there, {now} here" for what, (then, now) in found.items())
            raise UsageError(f"{run.path} is of another machine, or of this one in another state ({told}).")
    return this


def continued_plan(
    run: Begun, given: Mapping[str, Any], this: Machine, interpreters: Interpreters
) -> tuple[Plan, Interpreters]:
    """The plan to go on with, and its Pythons: the run's own, or, where none was kept, what the user gives again."""
    from gpubench.harness.continued import continued
    from gpubench.harness.plan import of_settings, resolved

    if run.plan is None:
        return resolved(of_settings(given), this, interpreters), interpreters
    return continued(run.path.stem, run.plan, given, this, interpreters)


def see_that_it_fits(run: Begun, cases: Cases, wanted: Plan) -> None:
    """UsageError where the records of a run to be continued are not a part of what is asked for now."""
    any_batch = isinstance(wanted.per_device_batch, str)
    planned = {_known_by(case, any_batch) for case in cases.all}
    others = {record.case.id for record in run.records if _known_by(record.case, any_batch) not in planned}
    if others:
        raise UsageError(f"{run.path} holds other cases ({', '.join(sorted(others)[:3])}…): give its selection again.")


def _known_by(case: Case, any_batch: bool) -> Case:
    """The case, at any batch where that is yet to be found."""
    return replace(case, per_device_batch=1, global_batch=1) if any_batch else case


def launches(
    cases: Cases,
    wanted: Plan,
    this: Machine,
    journal: Journal,
    quiet: bool,
    earlier: list[RunRecord],
    forecast: str | None = None,
) -> tuple[list[RunRecord], Cases]:
    """Run what is missing. Returns the records of the whole run, and the cases at the batch that they have.

    `forecast` has the words on how long it will take, as far as that is known before.
    """
    from gpubench.analysis.checks import doubts
    from gpubench.campaign import Campaign
    from gpubench.harness.session import Session
    from gpubench.progress import LineProgress, LiveProgress, Quiet, for_terminal

    progress = Quiet() if quiet else LiveProgress() if for_terminal(sys.stderr) else LineProgress()
    with Session(this, cases, wanted.timing, progress, doubts, logs=journal.log_folder()) as session, progress:
        if isinstance(progress, LiveProgress) and session.sampler is not None:
            progress.readings = session.sampler.latest
        if forecast is not None:
            progress.forecast(forecast)
        if isinstance(wanted.per_device_batch, str):
            for_knee = wanted.per_device_batch == "knee"
            cases = _with_found_batches(session, cases, for_knee, earlier, journal.trials(), progress.note)
        return Campaign(session, cases, wanted, journal, progress).run(earlier), cases


def _with_found_batches(
    session: Session,
    cases: Cases,
    for_knee: bool,
    earlier: Sequence[RunRecord],
    trials: Journal,
    tell: Callable[[str], None],
) -> Cases:
    """The cases at the batch that is found for each series; a resumed run keeps the one that it has.

    Every trial reaches the disk before the next one starts, so that a search that was cut off goes on where it was.
    """
    from gpubench.harness.batch import Search, series, with_batch
    from gpubench.harness.plan import Cases
    from gpubench.spec.identity import identity

    found = {
        series(r.case): r.case.per_device_batch for r in earlier if r.outcome.status == "ok" and r.case.n_devices == 1
    }
    todo = [one for one in cases.runnable if series(one.case) not in found]
    here = identity(session.machine)
    tried = [record for record in trials.records if identity(record.machine) == here]
    search = Search(lambda one: trials.append(session.trial(one)), session.machine.memory_bytes, tell, for_knee, tried)
    found |= search.run(todo)
    runnable = [replace(one, case=with_batch(one.case, found[series(one.case)])) for one in cases.runnable]
    return Cases(runnable, cases.skipped)


def nothing_to_run(cases: Cases) -> NoReturn:
    """NothingToRunError with each reason once."""
    reasons = sorted({skipped.reason for skipped in cases.skipped})
    raise NothingToRunError(
        "Nothing of what was asked for can run here:\n  " + "\n  ".join(reasons or ["no case fits"])
    )
