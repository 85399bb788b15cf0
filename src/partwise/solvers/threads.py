"""Threads that visit examples together, in one of two ways.

*Sharing*: all threads change one v. A visit reads scores while other threads change weights, so that its direction is a
visit or two old. But it holds a lock from scattering its step until the step is kept or undone. So the gain that
decides is exact, and the dual rises as with one thread. The order of the threads is random: runs differ, and their
certificates hold. Sharing is for visits that touch few of the weights and do more work than that.

*Rounds* (CoCoA+; Ma, Smith, Jaggi, Jordan, Richtárik and Takáč 2015): in a round each of K threads visits its own
examples, with a copy u of v. It weighs its examples σ times as much, so that it climbs σ times

    its share of the dual − ( 2 v·d + σ ‖d‖² ) / (2 l2),   d = (u − v) / σ   the change that it has earned

and v ← v + Σ_k d_k afterwards. The dual rises by at least the gain that the threads see if ‖Σ d_k‖² ≤ σ Σ ‖d_k‖². This
holds always for σ = K (Jensen, also with an l1 term), and for a much smaller σ if examples share few weights. The σ
that the last rounds would have needed is known after them, and the next round uses it. Nothing depends on which thread
is faster: equal seeds and numbers of threads give equal results, bit for bit. Rounds are for few weights, which sharing
would send back and forth between the processors, and for steps whose length follows from scores, which must be exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any

import numpy as np

from partwise.compiled.dispatch import IS_OFF
from partwise.compiled.examples import Batch, Scratch
from partwise.compiled.lock import arrive
from partwise.core.problem import Problem
from partwise.core.time_limit import current_deadline, until
from partwise.solvers.combining import BLOCK, combine_pass
from partwise.solvers.work_model import online_pass_work, scatter_work

_MOST_ROUNDS, _FEWEST_ROUNDS = 25, 10  # rounds of a pass
_A_THREAD = 2e5  # work, in the unit of `work_model.py`, to wake a thread
_A_WEIGHT = 1.0  # the same, to copy and combine a weight
_SHARE_OF_WORK = 0.08  # share of a pass that rounds may cost
_FEWEST_VISITS = 20  # visits of a thread in a pass below which a thread is not worth waking
# Factor on the σ that rounds needed, and how much of its maximum a round forgets.
_CAUTION, _FORGOTTEN = 1.1, 0.1
_MOST_IN_ROUNDS = 2  # threads in rounds: four cost as many passes as they saved time (docs/tuning.md)
_MOST_TOUCHED = 0.1  # share of all weights that a visit may touch if threads share v
_CHUNKS = 5  # least number of parts of a pass that threads visit together
_FEWEST_AT_ONCE = 16  # visits that a thread takes at once if v is shared

Run = Callable[[Batch, np.ndarray, Any, Scratch], Any]


class Threads:
    """The threads of one step of a block-coordinate solver, at most the problem's `n_jobs`; a context.

    Parameters
    ----------
    problem : Problem
    asks : tuple of str, optional
        As for :meth:`Problem.visits`.
    may_share : bool
        Whether visits decide by the value that scatter returned, and hold the lock of their scratch.
    """

    def __init__(self, problem: Problem, asks: tuple[str, ...] | None = None, may_share: bool = False):
        self.problem, self.asks, self.deadline = problem, asks, current_deadline()
        self.is_sharing = may_share and _is_worth_sharing(problem)
        self.n_threads = n_sharing(problem) if self.is_sharing else n_worthwhile(problem)
        self.lock = _on_lines_of_their_own(1, np.int64)[0]
        self.sigma, self.needed = float(self.n_threads), 0.0
        self.sizes = np.diff(problem.batch.part_ptr)
        self.copies: np.ndarray | None = None
        self.weight = problem.batch.example_weight.copy()  # of examples, times σ in rounds
        self.helpers: list[_Helper] = []

    def __enter__(self) -> Threads:
        self.helpers = [_Helper() for _ in range(1, self.n_threads)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for helper in self.helpers:
            helper.dismiss()
        self.helpers = []

    def visit(self, order: np.ndarray, point: Any, run: Run) -> list[Any]:
        """Visit the examples of `order` by ``run(batch, order, point, scratch)``, which changes the point.

        Parameters
        ----------
        point : NamedTuple
            With `v` and `norm`, its squared norm; everything else in it must belong to single examples.

        Returns
        -------
        The results of `run`, for one piece of `order` after another.
        """
        if self.n_threads == 1:

            def alone(batch: Batch, here: np.ndarray, v: np.ndarray, scratch: Scratch) -> Any:
                return run(batch, here, point._replace(v=v), scratch)

            return self.problem.visits(order, point.v, alone, self.asks)
        self._prepare(point.v)
        if self.is_sharing:
            return self._visit_sharing(order, point, run)
        results = []
        for here in self._rounds(order):
            if self._ends():
                break
            results += self._round(here, point, run)
        return results

    def _visit_sharing(self, order: np.ndarray, point: Any, run: Run) -> list[Any]:
        pieces = deque(self._cut(pieces_of(order, len(self.sizes), self.n_threads)))
        norms = _on_lines_of_their_own(self.n_threads, np.float64)

        def visit(k: int) -> list[Any]:
            def own(batch: Batch, here: np.ndarray, v: np.ndarray, scratch: Scratch) -> Any:
                return run(batch, here, point._replace(norm=norms[k]), scratch._replace(lock=self.lock))

            results = []
            while pieces and not self._ends():
                try:
                    here = pieces.popleft()
                except IndexError:  # another thread was faster
                    break
                results += Problem.visits(self.problem, here, point.v, own, self.asks, thread=k)
            return results

        results = self._together(visit)
        point.norm[0] += norms.sum()
        self._note(len(order) - sum(map(len, pieces)))
        return [result for own in results for result in own]

    def _rounds(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Pieces of `order`, one for each round; their size is estimated, not timed, so that equal runs are alike."""
        n, problem = self.n_threads, self.problem
        worth = _SHARE_OF_WORK * online_pass_work(problem) / n / _round_effort(problem, n)
        size = problem.n_examples / float(np.clip(worth, _FEWEST_ROUNDS, _MOST_ROUNDS))
        return iter(np.array_split(order, max(1, round(len(order) / max(size, n)))))

    def _round(self, order: np.ndarray, point: Any, run: Run) -> list[Any]:
        problem, v, sigma = self.problem, point.v, self.sigma
        copies, n = self.copies, self.n_threads
        assert copies is not None
        shares = shares_of(order, self.sizes, n)
        sums, cuts = np.zeros((n, 3)), np.linspace(0, len(v), n + 1).astype(int)
        arrived = np.zeros(1, np.int64)
        self.weight[order] = sigma * problem.batch.example_weight[order]

        def own(batch: Batch, here: np.ndarray, u: np.ndarray, scratch: Scratch) -> Any:
            batch = batch._replace(example_weight=self.weight)
            return run(batch, here, point._replace(v=u, norm=np.zeros(1)), scratch)

        def visit(k: int) -> list[Any]:
            try:
                copies[k] = v
                found = Problem.visits(problem, shares[k], copies[k], own, self.asks, thread=k)
            finally:
                arrive(arrived, n)
            combine_pass(v, copies, 1.0 / sigma, problem.l1, cuts[k], cuts[k + 1], np.empty(BLOCK), sums[k])
            return found

        results = self._together(visit)
        together, apart, point.norm[0] = sums.sum(axis=0)
        needed = _CAUTION * together / apart if apart > 0.0 else 1.0
        self.needed = max(needed, (1.0 - _FORGOTTEN) * self.needed)
        self.sigma = float(np.clip(self.needed, 1.0, n))
        self._note(len(order))
        return [result for own in results for result in own]

    def _note(self, n_visits: int) -> None:
        """Note that the threads have visited examples together."""
        if self.deadline is not None:
            self.deadline.n_done += n_visits
        self.problem.visited(n_visits)

    def _ends(self) -> bool:
        """Whether the time of the pass is over."""
        return self.deadline is not None and self.deadline.visits_end()

    def _cut(self, pieces: list[np.ndarray]) -> list[np.ndarray]:
        """No longer pieces than are visited between two looks at the clock.

        Pieces with repeated examples stay whole: each belongs to one thread.
        """
        if self.deadline is None or len(pieces) <= self.n_threads:
            return pieces
        most = self.deadline.at_once
        return [piece[k : k + most] for piece in pieces for k in range(0, len(piece), most)]

    def _prepare(self, v: np.ndarray) -> None:
        """A copy of v for each thread that needs one. This thread alone makes and compiles what visits need."""
        if self.copies is None:
            self.copies = np.empty((0 if self.is_sharing else self.n_threads, len(v)), v.dtype)
            nobody = np.zeros(0, np.int64)
            for k in range(self.n_threads):
                Problem.visits(self.problem, nobody, v, lambda *_: None, self.asks, thread=k)

    def _together(self, work: Callable[[int], Any]) -> list[Any]:
        """``work(k)`` on every thread, of which the caller is the first; all have ended when this returns."""
        for k, helper in enumerate(self.helpers):
            helper.begin(work, k + 1)
        try:
            with until(None):  # the threads look at the clock themselves
                own = work(0)
        finally:
            answers = [helper.answer() for helper in self.helpers]
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [own, *answers]


class _Helper:
    """A thread that does one piece of work after another."""

    def __init__(self) -> None:
        self.asked: SimpleQueue[Any] = SimpleQueue()
        self.answered: SimpleQueue[Any] = SimpleQueue()
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        for work, k in iter(self.asked.get, None):
            try:
                self.answered.put(work(k))
            except BaseException as error:
                self.answered.put(error)

    def begin(self, work: Callable[[int], Any], k: int) -> None:
        self.asked.put((work, k))

    def answer(self) -> Any:
        """The result of the work begun, or its exception."""
        return self.answered.get()

    def dismiss(self) -> None:
        self.asked.put(None)
        self.thread.join()


def _on_lines_of_their_own(n: int, dtype: Any) -> np.ndarray:
    """Zeros (n, 1) on separate cache lines, so that processors that change them do not wait for each other."""
    return np.zeros((n + 1, 16), dtype)[:n, 8:9]


def _is_worth_sharing(problem: Problem) -> bool:
    """Whether visits touch few of the weights, so that threads can share v."""
    touched = problem.n_touched / problem.n_examples
    return not IS_OFF and problem.has_features and touched <= _MOST_TOUCHED * problem.n_weights


def n_sharing(problem: Problem) -> int:
    """How many of `n_jobs` threads are busy while one of them holds the lock."""
    effort, held = online_pass_work(problem), scatter_work(problem)
    n = min(problem.n_jobs, problem.n_examples // _FEWEST_VISITS, round(1.0 + effort / held))
    return max(n, 1) if effort > _CHUNKS * _A_THREAD * n / _SHARE_OF_WORK else 1


def n_worthwhile(problem: Problem) -> int:
    """How many of `n_jobs` threads have enough work in a round."""
    if not problem.has_features:  # a visit changes the scores of all rows
        return 1
    n = min(problem.n_jobs, _MOST_IN_ROUNDS, problem.n_examples // _FEWEST_VISITS)
    effort = online_pass_work(problem)
    while n > 1 and effort / n < _FEWEST_ROUNDS * _round_effort(problem, n):
        n -= 1
    return max(n, 1)


def _round_effort(problem: Problem, n_threads: int) -> float:
    """The effort of beginning and ending a round, in the unit of `work_model.py`."""
    return _A_THREAD * n_threads + _A_WEIGHT * problem.n_weights


def pieces_of(order: np.ndarray, n_examples: int, n: int) -> list[np.ndarray]:
    """`order` in pieces that `n` threads take one after another, each shorter, so that all end at about the same time.

    If examples occur twice, there is one piece for each thread, as in :func:`shares_of`.
    """
    if _repeats(order, n_examples):
        return shares_of(order, np.ones(n_examples), n)
    pieces, first = [], 0
    while first < len(order):
        size = max((len(order) - first) // (2 * n), _FEWEST_AT_ONCE)
        pieces.append(order[first : first + size])
        first += size
    return pieces


def _repeats(order: np.ndarray, n_examples: int) -> bool:
    """Whether an example occurs twice."""
    place, last = np.arange(len(order)), np.empty(n_examples, np.int64)
    last[order] = place
    return bool((last[order] != place).any())


def shares_of(order: np.ndarray, sizes: np.ndarray, n: int) -> list[np.ndarray]:
    """`order` in `n` pieces of about the same total size; all visits of an example are in the same piece.

    Parameters
    ----------
    order : ndarray of int
    sizes : ndarray (n_examples,)
    """
    so_far = np.cumsum(sizes[order])
    middle = (so_far - 0.5 * sizes[order]) * n / max(float(so_far[-1]), 1.0)
    if not _repeats(order, len(sizes)):
        return np.split(order, np.searchsorted(middle, np.arange(1, n)))
    piece = np.minimum(middle, n - 1).astype(np.int64)
    owner = np.zeros(len(sizes), np.int64)
    owner[order[::-1]] = piece[::-1]
    return [order[owner[order] == k] for k in range(n)]
