"""A solver over solvers: any number of candidates take turns from the best weights so far, by how fast the gap falls.

Work is counted from sizes (`work_model.py`), never by a clock, so that equal runs are equal. The candidate that is
expected to need the least work to `tol` goes on:

    passes forecast × work of a pass    for a candidate that has not had a turn
    log(gap / tol) / rate               for others; the rate is the fall of log(gap) for each unit of work, measured
                                        over the second half of its last turn

The first turn lasts for half of the work that the next best candidate is forecast to need, and each further turn is at
least twice as long as the turn before, so that wrong guesses cost a bounded share of the run. A candidate that has
taken over is judged earlier if its gap does not fall. The best lower bound and the best weights of all candidates are
shared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.base import Certificate, Memory, Solver, StepInfo, check_precision
from partwise.solvers.needs import Needs, both

_FIRST_TURN = 0.5  # length of the first turn, as a share of the work forecast for the next best candidate
_LONGER = 2.0  # least growth of turns
_FEWEST_STEPS = 4  # steps before a candidate is judged: the first gaps say little
_FRUITLESS_STEPS = 8  # steps after which a candidate that has taken over is judged if its gap does not fall
# Begin again if the new l2 is below this share of the old one: warm starts no longer help.
_FAR_WEAKER = 0.05
_LONGEST = 64  # gaps of a turn that are kept


class Progress(NamedTuple):
    """The numbers of a race itself, beside the states of its candidates.

    Attributes
    ----------
    turn : ndarray (1,) of int64
        Number of the candidate at work.
    forecast : ndarray (n_candidates,)
        Work that a candidate is forecast to need, inf if nothing is known.
    rate : ndarray (n_candidates,)
        Fall of the logarithm of the gap for each unit of work in its last turn; nan before its first.
    gave_way : ndarray (n_candidates,) of uint8
        Whether a candidate has given way before its turn ended, which it may do once.
    least : ndarray (1,)
        Work of this turn before its candidate is judged.
    bound : ndarray (1,)
        The best D so far.
    best, weights : ndarray (1,), ndarray (n_weights,)
        The smallest P that a certificate found, and its weights.
    behind : ndarray (1,) of uint8
        Whether the last certificate of the candidate at work improved neither bound.
    l2 : ndarray (1,)
        The l2 of all that was measured.
    trace : ndarray (64, 2)
        Work of the turn and logarithm of the relative gap after each of its last steps.
    n_traced : ndarray (1,) of int64
        Steps of the turn.
    """

    turn: np.ndarray
    forecast: np.ndarray
    rate: np.ndarray
    gave_way: np.ndarray
    least: np.ndarray
    bound: np.ndarray
    best: np.ndarray
    weights: np.ndarray
    behind: np.ndarray
    l2: np.ndarray
    trace: np.ndarray
    n_traced: np.ndarray


class RaceState:
    """The state of a race: its own numbers, and the states of the candidates that have had a turn.

    It has the methods of a NamedTuple that checkpoints and warm starts use; arrays of a candidate's state have its
    number before their names. Other attributes are those of the candidate at work.
    """

    def __init__(self, names: tuple[str, ...], own: Progress, states: dict[int, Any]):
        self.names, self.own, self.states = names, own, states

    @property
    def leader(self) -> Any:
        """The state of the candidate at work."""
        return self.states[int(self.own.turn[0])]

    def at_work(self) -> str:
        """The name of the candidate that is at work."""
        return self.names[int(self.own.turn[0])]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("names", "own", "states"):  # absent while a copy is made
            raise AttributeError(name)
        return getattr(self.leader, name)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self._asdict().values())

    def _asdict(self) -> dict[str, np.ndarray]:
        of_candidates = {
            f"{number}.{name}": array
            for number, state in self.states.items()
            for name, array in state._asdict().items()
        }
        return {**self.own._asdict(), **of_candidates}

    def _replace(self, **arrays: np.ndarray) -> RaceState:
        own = {name: array for name, array in arrays.items() if "." not in name}
        states = {}
        for number, state in self.states.items():
            prefix = f"{number}."
            mine = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            states[number] = state._replace(**mine)
        return RaceState(self.names, self.own._replace(**own), states)

    def growing(self) -> tuple[str, ...]:
        """Names of the arrays that grow during a run."""
        return tuple(
            f"{number}.{name}"
            for number, state in self.states.items()
            for name in (state.growing() if hasattr(state, "growing") else ())
        )

    def is_sound(self) -> bool:
        """Whether arrays read from a file fit together."""
        return int(self.own.turn[0]) in self.states and all(
            state.is_sound() for state in self.states.values() if hasattr(state, "is_sound")
        )


@dataclass(frozen=True)
class Race(Solver):
    """Candidates in turns, by how fast the gap falls.

    Parameters
    ----------
    candidates : tuple of Solver
        Solvers that reach the same optimum. If forecasts are equal or missing, the first begins.
    name : str
        The name shown to users.
    precision : {"auto", "single", "double"}
        Precision of the states of candidates whose own is "auto".
    tol : float
        The relative gap to reach; set by the driver.
    """

    candidates: tuple[Solver, ...]
    name: str = "race"
    precision: Literal["auto", "single", "double"] = "auto"
    tol: float = field(default=1e-3, repr=False)

    @property
    def needs(self) -> Needs:
        """All that any candidate needs; weights and bounds that are shared need features and exact sums."""
        shared = Needs(features=True, exact=True)
        return reduce(both, (each.needs for each in self.candidates), shared)

    @property
    def runners(self) -> tuple[Solver, ...]:
        """The candidates with the precision and the tolerance of this run."""
        return tuple(self._settled(each) for each in self.candidates)

    def _settled(self, solver: Any) -> Solver:
        settings: dict[str, Any] = {"tol": self.tol} if hasattr(solver, "tol") else {}
        if getattr(solver, "precision", "") == "auto":
            settings["precision"] = self.precision
        settled: Solver = replace(solver, **settings) if settings else solver
        return settled

    @property
    def lean(self) -> bool:
        """Whether some candidate keeps a lean state."""
        return any(getattr(each, "lean", False) for each in self.candidates)

    def check(self, problem: Problem) -> None:
        check_precision(self.precision)
        for each in self.runners:
            each.check(problem)

    def memory_needed(self, problem: Problem) -> Memory:
        """That of the candidate that begins; the others have a turn in some runs only."""
        first = self._first(problem)
        needed, seldom = self.runners[first].memory_needed(problem), 8 * problem.n_weights
        for number, each in enumerate(self.runners):
            if number != first:
                seldom += sum(each.memory_needed(problem))
        return needed._replace(seldom=needed.seldom + seldom)

    def leaner(self, problem: Problem) -> Race | None:
        lean = tuple(each.leaner(problem) or each for each in self.candidates)
        return None if lean == self.candidates else replace(self, candidates=lean)

    def on_shards(self, problem: Problem) -> Solver | None:
        """The candidate that would begin, if it works on shards: there are no turns there."""
        in_order = np.argsort(self._forecast(problem), kind="stable")
        able = (self.runners[number].on_shards(problem) for number in in_order)
        return next((each for each in able if each is not None), None)

    # -- start ------------------------------------------------------------------------------------

    def _forecast(self, problem: Problem) -> np.ndarray:
        """The work that every candidate is forecast to need from its start."""
        return np.array([each.passes_expected(problem) * each.pass_work(problem) for each in self.runners])

    def _first(self, problem: Problem) -> int:
        return int(np.argmin(self._forecast(problem)))

    def init(self, problem: Problem, random: np.random.Generator) -> RaceState:
        first = self._first(problem)
        return self._begun(problem, first, self.runners[first].init(problem, random))

    def _begun(self, problem: Problem, turn: int, state: Any, weights: np.ndarray | None = None) -> RaceState:
        """A race that begins with a candidate, from its state."""
        forecast = self._forecast(problem)
        own = Progress(
            turn=np.array([turn]),
            forecast=forecast,
            rate=np.full(len(forecast), np.nan),
            gave_way=np.zeros(len(forecast), np.uint8),
            least=np.array([_FIRST_TURN * np.delete(forecast, turn).min(initial=np.inf)]),
            bound=np.full(1, -np.inf),
            best=np.full(1, np.inf),
            weights=np.zeros(problem.n_weights) if weights is None else weights,
            behind=np.zeros(1, np.uint8),
            l2=np.array([problem.l2]),
            trace=np.zeros((_LONGEST, 2)),
            n_traced=np.zeros(1, np.int64),
        )
        return RaceState(tuple(each.name for each in self.candidates), own, {turn: state})

    def template(self, problem: Problem, arrays: Set[str]) -> RaceState:
        """A state in which those candidates have begun whose arrays have these names."""
        begun = {int(name.partition(".")[0]) for name in arrays if "." in name}
        if not begun <= set(range(len(self.candidates))) or not begun:
            raise ValueError("of another race")
        states = {}
        for number in sorted(begun):
            own = {name.removeprefix(f"{number}.") for name in arrays if name.startswith(f"{number}.")}
            states[number] = self.runners[number].template(problem, own)
        first = min(begun)
        made = self._begun(problem, first, states[first])
        return RaceState(made.names, made.own, states)

    def carry_over(self, problem: Problem, state: RaceState, changed: Set[str]) -> RaceState:
        """The candidate at work keeps what it can, or hands over to the one that a first fit would begin with.

        Bounds and rates are of the old problem and are forgotten, with the states of the other candidates.
        """
        now, first = int(state.own.turn[0]), self._first(problem)
        weights, random = state.own.weights, np.random.default_rng(0)
        if problem.l2 < _FAR_WEAKER * state.own.l2[0]:
            return self.init(problem, random)
        if now == first:
            kept = self.runners[now].carry_over(problem, state.leader, changed)
        else:
            kept = self.runners[first].from_weights(problem, weights, random)
        return self._begun(problem, first, kept, weights)

    def from_other_data(
        self, problem: Problem, weights: np.ndarray, random: np.random.Generator
    ) -> RaceState:
        """The candidate that would begin starts from the weights."""
        first = self._first(problem)
        state = self.runners[first].from_other_data(problem, weights, random)
        return self._begun(problem, first, state, weights.copy())

    def grown(
        self, problem: Problem, old: Problem, state: RaceState, random: np.random.Generator
    ) -> RaceState | None:
        """The candidate at work keeps what it can; None to start again."""
        now, first = int(state.own.turn[0]), self._first(problem)
        if now != first:
            kept = self.runners[first].from_weights(problem, state.own.weights, random)
        else:
            kept = self.runners[now].grown(problem, old, state.leader, random)
        return None if kept is None else self._begun(problem, first, kept, state.own.weights)

    # -- steps ------------------------------------------------------------------------------------

    def step(
        self, problem: Problem, state: RaceState, random: np.random.Generator
    ) -> tuple[RaceState, StepInfo]:
        own, now = state.own, int(state.own.turn[0])
        runner = self.runners[now]
        state.states[now], info = runner.step(problem, state.leader, random)
        value = info.dual + info.estimated_gap
        gap = min(info.estimated_gap, value - float(own.bound[0]))  # nan stays nan
        info = info._replace(dual=value - gap, estimated_gap=gap)
        _note(own, info, runner.pass_work(problem, state.leader))
        more = 1.0 if own.gave_way[now] else runner.gives_way(problem, state.leader)
        if more > 1.0 and len(self.candidates) > 1:
            own.gave_way[now] = 1
            own.forecast[now] *= more
            own.least[0] = _FIRST_TURN * own.forecast[now]
            state = self._hand_over(problem, state, random, own.forecast, afresh=True)
        elif own.n_traced[0] >= _FEWEST_STEPS and (
            _spent(own) >= own.least[0] or _is_fruitless(problem, state)
        ):
            own.rate[now], to_go = _measured_rate(own), _last_gap(own) - math.log(self.tol)
            left = _work_left(own, to_go)
            if to_go > 0.0 and left[now] > left.min():
                state = self._hand_over(problem, state, random, left)
        return state, info

    def _hand_over(
        self,
        problem: Problem,
        state: RaceState,
        random: np.random.Generator,
        left: np.ndarray,
        afresh: bool = False,
    ) -> RaceState:
        """The candidate with the least work left goes on from the best weights, or from its own start."""
        own, now = state.own, int(state.own.turn[0])
        following = min((k for k in range(len(left)) if k != now), key=lambda k: left[k])
        runner = self.runners[following]
        if afresh:
            begun = runner.init(problem, random)
        else:
            state, _ = self.certificate(problem, state)
            own = state.own
            begun = runner.from_weights(problem, own.weights, random, state.states.get(following))
        state.states[following] = begun
        own.least[0] = max(_LONGER * _spent(own), own.least[0])
        own.turn[0], own.n_traced[0] = following, 0
        return state

    # -- certificate ------------------------------------------------------------------------------

    def catches_up(self, state: RaceState) -> bool:
        return bool(state.own.behind[0])

    def weights(self, problem: Problem, state: RaceState) -> np.ndarray | None:
        return self.runners[int(state.own.turn[0])].weights(problem, state.leader)

    def certificate(self, problem: Problem, state: RaceState) -> tuple[RaceState, Certificate]:
        """The certificate of the candidate at work, with the best dual and the best weights of all."""
        own, now = state.own, int(state.own.turn[0])
        state.states[now], found = self.runners[now].certificate(problem, state.leader)
        own.behind[0] = found.primal >= own.best[0] and found.dual <= own.bound[0]
        own.bound[0] = max(float(own.bound[0]), found.dual)
        if not found.primal >= own.best[0]:
            own.best[0] = found.primal
            state.own = own = own._replace(weights=found.weights)
        best = replace(found, primal=float(own.best[0]), dual=float(own.bound[0]), weights=own.weights)
        return state, best


def _note(own: Progress, info: StepInfo, pass_work: float) -> None:
    """Add a step to the trace of the turn."""
    gap, size = info.estimated_gap, abs(info.dual + info.estimated_gap)
    is_known = 0.0 < gap < math.inf and 0.0 < size < math.inf
    log_gap = math.log(gap / size) if is_known else -math.inf if gap <= 0.0 else math.inf
    row = int(own.n_traced[0]) % _LONGEST
    own.trace[row] = _spent(own) + info.passes * pass_work, log_gap
    own.n_traced[0] += 1


def _spent(own: Progress) -> float:
    """The work of the turn so far."""
    n = int(own.n_traced[0])
    return float(own.trace[(n - 1) % _LONGEST, 0]) if n else 0.0


def _last_gap(own: Progress) -> float:
    """The logarithm of the relative gap after the last step."""
    return float(own.trace[(int(own.n_traced[0]) - 1) % _LONGEST, 1])


def _measured_rate(own: Progress) -> float:
    """The fall of the logarithm of the gap for each unit of work: the slope of a line through the second half of the
    turn, because estimates of gaps go up and down."""
    n = int(own.n_traced[0])
    kept = own.trace[[k % _LONGEST for k in range(max(0, n - _LONGEST), n)]]
    work, log_gap = kept[len(kept) // 2 - 1 :].T
    if not np.isfinite(log_gap).all():
        return 0.0
    work = work - work.mean()
    return max(-float(work @ log_gap) / max(float(work @ work), 1e-300), 0.0)


def _is_fruitless(problem: Problem, state: RaceState) -> bool:
    """Whether a candidate that has taken over makes no progress. Its passes may cost more than sizes tell then.

    For β = ∞ the primal jumps, and gaps often rise before they fall.
    """
    is_later = len(state.states) > 1 and int(state.own.n_traced[0]) >= _FRUITLESS_STEPS
    return is_later and not problem.loss.is_hard and _measured_rate(state.own) == 0.0


def _work_left(own: Progress, to_go: float) -> np.ndarray:
    """The work that every candidate is expected to need until log(gap) has fallen by `to_go`."""
    measured = to_go / np.maximum(own.rate, 1e-300)
    return np.where(np.isnan(own.rate), own.forecast, measured)
