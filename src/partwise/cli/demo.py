"""`partwise demo`: smudged handwritten dates, read digit by digit and as a whole, with certificates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.compiled.clock import seconds_compiling, telling, working_time

if TYPE_CHECKING:
    import numpy as np

    from partwise.data.digit_dates import DigitDates

_SHOWN = 4  # dates on the page


@dataclass(frozen=True)
class Plan:
    """One model of the demo. Regulariser and tolerance depend on the loss, since losses differ in scale."""

    name: str
    loss: str
    l2: float
    tol: float


ALONE = Plan("each digit alone", "log", 3.0, 1e-3)
CHAINS = (Plan("chain, CRF", "log", 3.0, 1e-3), Plan("chain, max-margin", "hinge", 10.0, 1e-2))


@dataclass
class Reading:
    """Results of one model on the test dates."""

    name: str
    digits: np.ndarray
    right_digits: float
    right_dates: float
    estimator: Any
    seconds: float  # of training, without compiling


def demo(
    output: Annotated[str, typer.Option(help="Folder for the pictures and the page.")] = "demo-output",
    dates: Annotated[int, typer.Option(min=20, help="Dates to train on.")] = 1500,
    noise: Annotated[float, typer.Option(min=0.0, max=2.0, help="How smudged the digits are.")] = 0.3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
    pictures: Annotated[bool, typer.Option(help="Write the pictures; needs matplotlib.")] = True,
) -> None:
    """Train on data that comes with scikit-learn, in seconds once the code is compiled.

    Handwritten digits form dates and are smudged. A classifier reads each digit by itself; a chain, trained
    as CRF and as max-margin network, reads the date as a whole and has learnt the calendar from examples.
    """
    from pathlib import Path

    from partwise.data.digit_dates import digit_dates
    from partwise.report.output import error_console, print_json

    console = error_console()
    assert console is not None
    started, compiled_before = time.perf_counter(), seconds_compiling()
    console.print("[bold]partwise demo[/]: reading smudged handwritten dates (DDMMYYYY, 1950 to 2049)")
    train, test = digit_dates(n_train=dates, noise=noise, random_state=seed)
    console.print(f"{len(train):,} dates to train on, {len(test):,} others to test on\n", highlight=False)
    readings = [_read_alone(train, test, console)]
    readings += [_read_chain(plan, train, test, console) for plan in CHAINS]
    compile_seconds = seconds_compiling() - compiled_before
    _print_table(readings, compile_seconds, console)
    folder = Path(output)
    if pictures:
        _write_pictures(folder, readings, test)
        console.print(f"\npictures and a page: {folder / 'index.html'}", highlight=False, soft_wrap=True)
    seconds = time.perf_counter() - started
    console.print(f"all in {seconds:.1f} s", highlight=False)
    if json:
        print_json(
            {
                "seconds": seconds,
                "compile_seconds": compile_seconds,
                "readings": [_as_dict(reading) for reading in readings],
            }
        )


@contextmanager
def _display(tol: float, console: Any) -> Iterator[Any]:
    """Progress on a terminal; elsewhere only the line about compiling."""
    from partwise.report.progress import TrainingDisplay

    seen = console.is_terminal
    with (
        TrainingDisplay(tol, console if seen else None) as display,
        telling(display.compiling if seen else None),
    ):
        yield display


def _read_alone(train: DigitDates, test: DigitDates, console: Any) -> Reading:
    """Digits one by one: chains of length one, whose compiled code the dates need anyway."""
    import numpy as np

    from partwise import SequenceLabeler

    started = working_time()[0]
    with _display(ALONE.tol, console) as display:
        estimator = SequenceLabeler(loss=ALONE.loss, l2=ALONE.l2, tol=ALONE.tol, callback=display)
        estimator.fit(train.images.reshape(-1, 1, 64), train.digits.reshape(-1, 1))
        seconds = working_time()[0] - started
        digits = np.array(estimator.predict(test.images.reshape(-1, 1, 64))).reshape(test.digits.shape)
    return _reading(ALONE.name, digits, test, estimator, seconds)


def _read_chain(plan: Plan, train: DigitDates, test: DigitDates, console: Any) -> Reading:
    import numpy as np

    from partwise import SequenceLabeler
    from partwise.data.digit_dates import digit_of

    started = working_time()[0]
    with _display(plan.tol, console) as display:
        estimator = SequenceLabeler(
            loss=plan.loss, l2=plan.l2, tol=plan.tol, certificate_every=1, callback=display
        )
        estimator.fit(train.inputs(), train.labels())
        seconds = working_time()[0] - started
        predicted = estimator.predict(test.inputs())
    digits = np.array([[digit_of(label) for label in labels] for labels in predicted])
    return _reading(plan.name, digits, test, estimator, seconds)


def _reading(name: str, digits: np.ndarray, test: DigitDates, estimator: Any, seconds: float) -> Reading:
    right = digits == test.digits
    return Reading(name, digits, float(right.mean()), float(right.all(axis=1).mean()), estimator, seconds)


def _print_table(readings: list[Reading], compile_seconds: float, console: Any) -> None:
    from rich.table import Table

    from partwise.report.progress import duration

    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    table.add_column("read right by", no_wrap=True)
    for title in ("digits", "dates", "primal", "dual", "gap", "passes", "trained in"):
        table.add_column(title, justify="right", no_wrap=True)
    for reading in readings:
        fitted = reading.estimator
        table.add_row(
            reading.name,
            f"{100 * reading.right_digits:.1f} %",
            f"[bold]{100 * reading.right_dates:.1f} %[/]",
            f"{fitted.objective_:,.2f}",
            f"{fitted.dual_objective_:,.2f}",
            f"{100 * fitted.duality_gap_:.2f} %",
            f"{fitted.n_passes_:.0f}",
            f"{reading.seconds:.1f} s",
        )
    console.print(table)
    if compile_seconds >= 1:
        console.print(
            f"Compiling took {duration(compile_seconds)} besides; it happens once per machine.",
            highlight=False,
        )
    console.print(
        "\nThe certificate: no weights at all have an objective below the dual value, so each model is "
        "proved to be within its gap of the optimum."
    )


def _digit_marginals(estimator: Any, test: DigitDates, rows: np.ndarray) -> np.ndarray:
    """Probability of each digit at each place, summed over the labels that hold it."""
    import numpy as np

    from partwise.data.digit_dates import digit_of

    inputs = test.inputs()
    found = estimator.predict_marginals([inputs[row] for row in rows])
    result = np.zeros((len(rows), test.digits.shape[1], 10))
    for i, positions in enumerate(found):
        for place, distribution in enumerate(positions):
            for label, probability in distribution.items():
                result[i, place, digit_of(label)] += probability
    return result


def _telling_dates(readings: list[Reading], test: DigitDates) -> np.ndarray:
    """The dates in which the chain corrects most digits, and one that the chain gets wrong, too."""
    import numpy as np

    alone, chain = readings[0].digits != test.digits, readings[1].digits != test.digits
    repaired = np.where(chain.any(axis=1), -1, alone.sum(axis=1))
    best = np.argsort(-repaired, kind="stable")[: _SHOWN - 1]
    failed = np.flatnonzero(chain.any(axis=1) & (chain.sum(axis=1) <= alone.sum(axis=1)))
    rest = failed[:1] if len(failed) else np.argsort(-repaired, kind="stable")[_SHOWN - 1 : _SHOWN]
    return np.concatenate([best, rest])


def _write_pictures(folder: Any, readings: list[Reading], test: DigitDates) -> None:
    from partwise.errors import InputError
    from partwise.report import html
    from partwise.report.numbers import shown
    from partwise.report.plots import plot_convergence, plot_dates

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make this folder: {error.strerror}", folder) from None
    histories = {"CRF (log loss)": readings[1], "Max-margin (hinge)": readings[2]}
    curves = plot_convergence(
        {name: reading.estimator.history_ for name, reading in histories.items()}, folder / "convergence.png"
    )
    rows = _telling_dates(readings, test)
    dates = plot_dates(
        test.images[rows], test.digits[rows], readings[0].digits[rows], readings[1].digits[rows],
        _digit_marginals(readings[1].estimator, test, rows), folder / "predictions.png",
    )  # fmt: skip
    titles = ("", "digits right", "dates right", "primal", "dual", "relative gap", "passes", "time")
    table = [
        (
            each.name, f"{100 * each.right_digits:.1f} %", f"{100 * each.right_dates:.1f} %",
            each.estimator.objective_, each.estimator.dual_objective_,
            shown(each.estimator.duality_gap_, "relative gap"), shown(each.estimator.n_passes_, "passes"),
            shown(each.seconds, "seconds"),
        )
        for each in readings
    ]  # fmt: skip
    sections = [
        ("How many were read right", html.table(titles, table)),
        (
            "Primal and dual meet",
            html.picture(curves, "primal and dual objectives against passes, and their gap"),
        ),
        ("A few dates", html.picture(dates, "dates with predicted digits and their probabilities")),
    ]
    lead = (
        "Handwritten digits form dates and are smudged: a chain that has learnt the calendar reads what "
        "single digits do not tell."
    )
    html.write_page(folder / "index.html", html.page("Reading smudged dates", lead, sections))


def _as_dict(reading: Reading) -> dict[str, Any]:
    fitted = reading.estimator
    return {
        "name": reading.name,
        "right_digits": reading.right_digits,
        "right_dates": reading.right_dates,
        "objective": fitted.objective_,
        "dual_objective": fitted.dual_objective_,
        "relative_gap": fitted.duality_gap_,
        "passes": fitted.n_passes_,
        "seconds": reading.seconds,
    }
