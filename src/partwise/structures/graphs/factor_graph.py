"""Factor graphs: tables of scores and rules over the labels of vertices. Inference is by message passing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.exactness import Exactness
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import checked_count, checked_samples, require_possible
from partwise.structures.contract import PartLists, Shapes
from partwise.structures.graphs.factor_answers import BestLabelling, Diagnosis, answer, entropy, one_of
from partwise.structures.graphs.graph import shaped_marginals
from partwise.structures.graphs.layout import FactorKind, GraphShape, checked_graph, layout_of_kinds
from partwise.structures.graphs.message_passing import FACTOR, FactorSpecification
from partwise.structures.graphs.messages.rows import factor_rest, factor_workspace, rules_in
from partwise.structures.graphs.messages.workspace import PackedFactorWorkspace
from partwise.structures.graphs.parts import LabelledGraph, cached_row
from partwise.structures.graphs.rules import Rule, RuledShape, obey
from partwise.structures.graphs.scores import GraphScores, read_scores, with_costs
from partwise.structures.packed import Packed

Engine = Literal["tree-reweighted", "loopy"]
_ENGINES = ("tree-reweighted", "loopy")
# Default damping of each engine: undamped, tree-reweighted messages oscillate for long.
_DAMPING = {"tree-reweighted": 0.3, "loopy": 0.0}
# The k best, samples and counts enumerate labellings, at most so many.
_MOST_LABELLINGS = 100_000


class FactorGraph(LabelledGraph):
    """Labels on the vertices of any graph, with tables of scores and rules. Inference is by message passing.

    Parameters
    ----------
    vertices, factors
        Kinds of vertices and factors for training, as for ``Graph``.
    engine : {"tree-reweighted", "loopy"}
        How the log-partition is approximated. "tree-reweighted": an upper bound, convex in the scores. Training has a
        certificate for the relaxed problem. "loopy": Bethe's value at a fixed point of belief propagation. It is no
        bound, may not converge, and training has no certificate. Both are exact for graphs without cycles.
    tolerance : float
        Messages have converged if none changes by more, in nats.
    max_iterations : int
        The largest number of sweeps over all factors.
    damping : float, optional
        Share of its old value that a message keeps at first. It grows if messages do not converge.
    max_nodes : int
        The largest number of branches of the search for a best labelling.

    Notes
    -----
    Methods take `vertex_scores`, `edges` and `edge_scores` as ``Graph`` does, and `rules`: a list of
    :class:`~partwise.structures.graphs.rules.Rule` (a list of such lists for many graphs). Best labellings do not
    depend on the engine. They have a bound, and are proved to be best if the search was completed.

    Examples
    --------
    >>> from partwise.structures import XOR
    >>> FactorGraph().argmax(np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]), rules=[XOR((0, 1, 2))])
    array([0, 0, 1])
    """

    oracle = FACTOR
    exactness: Exactness = "relaxation"  # type: ignore[misc]

    def __init__(
        self,
        vertices: Mapping[str, int] | None = None,
        factors: Sequence[FactorKind] = (),
        *,
        engine: Engine = "tree-reweighted",
        tolerance: float = 1e-10,
        max_iterations: int = 2000,
        damping: float | None = None,
        max_nodes: int = 1000,
    ):
        super().__init__(vertices, factors)
        if engine not in _ENGINES:
            raise InputError(f"engine must be one of {', '.join(map(repr, _ENGINES))}, not {engine!r}")
        if damping is not None and not 0.0 <= damping < 1.0:
            raise InputError(f"damping must be at least 0 and below 1, not {damping!r}")
        if not 0.0 < tolerance < 1.0:
            raise InputError(f"tolerance must lie between 0 and 1, not {tolerance!r}")
        self.engine, self.tolerance, self.damping = engine, float(tolerance), damping
        self.max_iterations = checked_count(max_iterations, "max_iterations", most=2**31 - 1)
        self.max_nodes = checked_count(max_nodes, "max_nodes", most=2**31 - 1)
        self.exactness = "relaxation" if engine == "tree-reweighted" else "approximate"

    def __repr__(self) -> str:
        kinds = f"{self.vertices}, {list(self.factors)}, " if self.vertices else ""
        return f"FactorGraph({kinds}engine={self.engine!r})"

    # -- for solvers ------------------------------------------------------------------------

    def shapes_of(self, graphs: Sequence[GraphShape | RuledShape]) -> Shapes:
        """Shapes of some graphs, with or without rules."""
        rows, kinds = [], tuple(self.vertices)
        for i, shape in enumerate(graphs):
            graph = checked_graph(GraphShape(*shape[:2]), kinds, self.factors, f"graphs[{i}]")
            rules = tuple(getattr(shape, "rules", ()))
            key = (
                self._key(),
                graph.vertex_kind.tobytes(),
                *(scope.tobytes() for scope in graph.scopes),
                rules,
            )
            rows.append(cached_row(key, partial(self._ruled_row, graph, rules, f"graphs[{i}]")))
        return Shapes(offsets([len(row) for row in rows]), np.concatenate([np.zeros(0, np.int32), *rows]))

    def _ruled_row(self, graph: GraphShape, rules: tuple[Rule, ...], where: str) -> np.ndarray:
        layout = layout_of_kinds(tuple(self.vertices.values()), self.factors, self.widths, graph)
        check_rules(rules, layout.labels, where)
        return layout.row(factor_rest(layout, rules))

    def specification(self) -> FactorSpecification:
        return self._specification(self.engine)

    def _specification(self, engine: str) -> FactorSpecification:
        step = 1.0 - (_DAMPING[engine] if self.damping is None else self.damping)
        is_bound = engine == "tree-reweighted"
        return FactorSpecification(is_bound, self.tolerance, self.max_iterations, step, self.max_nodes)

    def workspace(self, shapes: Shapes, specification: Any = None) -> PackedFactorWorkspace:
        return factor_workspace(shapes)

    def check_gold(self, labels: Any, shapes: Shapes) -> np.ndarray:
        """Check labels as for all labelled graphs. Labels must also obey the rules."""
        labels = super().check_gold(labels, shapes)
        first = offsets(shapes.lengths)
        for i, (a, b) in enumerate(pairwise(shapes.ptr.tolist())):
            for k, (code, vertices, numbers) in enumerate(rules_in(shapes.values[a:b])):
                if not obey(code, numbers, labels[first[i] + vertices]):
                    raise InputError(
                        f"labels: example {i} breaks its rule {k}, over vertices {vertices.tolist()}"
                    )
        return labels

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        raise InputError(
            "message passing does not rank labellings: use Graph, or a solver that needs the best one"
        )

    # -- for users --------------------------------------------------------------------------

    def log_partition(
        self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), rules: Any = ()
    ) -> Any:
        """The engine's log-partition: a float, or float64 (n,) for a list.

        It is −inf if messages prove that no labelling is possible.
        """
        return self._pack(*self._read(vertex_scores, edges, edge_scores, rules)).log_partition()

    def marginals(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), rules: Any = ()) -> Any:
        """Beliefs of the labels of every vertex and of every soft factor: GraphMarginals, or a list."""
        scores, rule_lists = self._read(vertex_scores, edges, edge_scores, rules)
        _, counts = self._pack(scores, rule_lists).expectations()
        results = [
            shaped_marginals(graph, counts[first:last])
            for graph, (first, last) in zip(scores.graphs, pairwise(scores.part_ptr.tolist()), strict=True)
        ]
        return results[0] if scores.single else results

    def entropy(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), rules: Any = ()) -> Any:
        """Entropy in nats of the engine's beliefs; A(s) − s·μ if messages have converged. A float, or float64 (n,)."""
        packed = self._pack(*self._read(vertex_scores, edges, edge_scores, rules))
        values, entropies = (
            np.array([entropy(one_of(packed, i)) for i in range(len(packed.lengths))]).reshape(-1, 2).T
        )
        require_possible(values, packed.single)
        return float(entropies[0]) if packed.single else entropies

    def argmax(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), rules: Any = ()) -> Any:
        """The best labelling found, int64 (V,), or a list. It obeys every rule. See :meth:`best_labelling`."""
        scores, rule_lists = self._read(vertex_scores, edges, edge_scores, rules)
        found = [best.labels for best in self._search(scores, rule_lists)]
        return found[0] if scores.single else found

    def best_labelling(
        self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), rules: Any = ()
    ) -> Any:
        """The best labelling found, with a bound on the score of all: a :class:`BestLabelling`, or a list."""
        scores, rule_lists = self._read(vertex_scores, edges, edge_scores, rules)
        found = self._search(scores, rule_lists)
        return found[0] if scores.single else found

    def loss_augmented_argmax(
        self,
        vertex_scores: Any,
        edges: Any = (),
        edge_scores: Any = (),
        rules: Any = (),
        *,
        y: Any,
        cost: Any = 1.0,
    ) -> Any:
        """A labelling with the largest score plus `cost`, counted from the true labels `y`, as for ``Graph``."""
        scores, rule_lists = self._read(vertex_scores, edges, edge_scores, rules)
        found = [best.labels for best in self._search(with_costs(scores, y, cost), rule_lists)]
        return found[0] if scores.single else found

    def diagnose(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), rules: Any = ()) -> Any:
        """Both engines on the same scores: a :class:`Diagnosis`, or a list."""
        scores, rule_lists = self._read(vertex_scores, edges, edge_scores, rules)
        packed, results = self._pack(scores, rule_lists), []
        for i, graph in enumerate(scores.graphs):
            own = one_of(packed, i)
            runs = []
            for engine in _ENGINES:
                value, counts, report = answer(own, self._specification(engine), "sums")
                require_possible(np.array([value]), True)
                runs.append((value, counts[: int(graph.labels.sum())], int(report[0]), float(report[1])))
            bound, loopy = runs
            apart = float(np.abs(loopy[1] - bound[1]).max(initial=0.0))
            iterations, changes = (loopy[2], bound[2]), (loopy[3], bound[3])
            results.append(Diagnosis(loopy[0], bound[0], bound[0] - loopy[0], *iterations, *changes, apart))
        return results[0] if scores.single else results

    def kbest(
        self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), k: int = 5, rules: Any = ()
    ) -> Any:
        """The k best labellings, by enumeration. Raises an error if a graph has too many labellings."""
        k, (scores, rule_lists) = checked_count(k, "k"), self._read(vertex_scores, edges, edge_scores, rules)
        results = []
        for labels, values in self._enumerated(scores, rule_lists, "rank labellings"):
            order = np.argsort(-values, kind="stable")[:k]
            results.append([(labels[j], float(values[j])) for j in order if values[j] > -np.inf])
        return results[0] if scores.single else results

    def sample(
        self,
        vertex_scores: Any,
        edges: Any = (),
        edge_scores: Any = (),
        n_samples: int = 1,
        random_state: Any = None,
        rules: Any = (),
    ) -> Any:
        """Labellings drawn with probability ∝ exp(score), by enumeration as in :meth:`kbest`."""
        n_samples, generator = checked_samples(n_samples), random_generator(random_state)
        scores, rule_lists = self._read(vertex_scores, edges, edge_scores, rules)
        results = []
        for labels, values in self._enumerated(scores, rule_lists, "draw labellings"):
            with np.errstate(over="ignore"):  # differences beyond the largest number
                weights = np.exp(values - values.max())
            results.append(labels[generator.choice(len(labels), n_samples, p=weights / weights.sum())])
        return results[0] if scores.single else results

    def log_count(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), rules: Any = ()) -> Any:
        """Log of the number of labellings that obey the rules and do not score −inf, as in :meth:`kbest`."""
        scores, rule_lists = self._read(vertex_scores, edges, edge_scores, rules)
        found = self._enumerated(scores, rule_lists, "count labellings", needs_some=False)
        with np.errstate(divide="ignore"):
            counts = np.array([np.log((values > -np.inf).sum()) for _, values in found])
        return float(counts[0]) if scores.single else counts

    def score(
        self, y: Any, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), rules: Any = ()
    ) -> float:
        """Score of one labelling of one graph, −inf if it breaks a rule."""
        labels = [int(label) for label in y]
        total = sum(float(vector[label]) for vector, label in zip(vertex_scores, labels, strict=True))
        for scope, table in zip(edges, edge_scores, strict=True):
            total += float(np.asarray(table)[tuple(labels[v] for v in scope)])
        return total if all(rule.allows(labels) for rule in rules) else -np.inf

    def indicators(self, y: Any) -> Any:
        raise InputError("indicators of factors need the graph, which the labels alone do not give")

    # Shared by the methods above.

    def _read(
        self, vertex_scores: Any, edges: Any, edge_scores: Any, rules: Any
    ) -> tuple[GraphScores, list[tuple[Rule, ...]]]:
        scores = read_scores(vertex_scores, edges, edge_scores)
        n = len(scores.graphs)
        if not isinstance(rules, list | tuple):
            raise InputError(f"rules must be a list of rules, or of such lists, not {rules!r:.40}")
        lists = [rules] if scores.single else list(rules) if len(rules) else [()] * n
        if len(lists) != n:
            raise InputError(f"rules has {len(lists)} lists for {n} graphs")
        rule_lists = []
        for i, (graph, own) in enumerate(zip(scores.graphs, lists, strict=True)):
            where = "rules" if scores.single else f"rules[{i}]"
            if not isinstance(own, list | tuple):
                raise InputError(f"{where} must be a list of rules, not {own!r:.40}")
            check_rules(own, graph.labels, where)
            rule_lists.append(tuple(own))
        return scores, rule_lists

    def _pack(self, scores: GraphScores, rule_lists: list[tuple[Rule, ...]]) -> Packed:
        rows = [
            cached_row(("factor tables", *graph.key, own), partial(_table_row, graph, own))
            for graph, own in zip(scores.graphs, rule_lists, strict=True)
        ]
        shapes = Shapes(offsets([len(row) for row in rows]), np.concatenate([np.zeros(0, np.int32), *rows]))
        return Packed(self, self.specification(), shapes, scores.part_ptr, scores.tables, scores.single)

    def _search(self, scores: GraphScores, rule_lists: list[tuple[Rule, ...]]) -> list[BestLabelling]:
        packed, results = self._pack(scores, rule_lists), []
        for i, graph in enumerate(scores.graphs):
            own = one_of(packed, i)
            value, counts, report = answer(own, packed.specification, "best")
            require_possible(np.array([value]), True)
            if np.isnan(value):
                raise InputError(
                    f"no labelling that obeys every rule was found in max_nodes = {self.max_nodes} branches"
                )
            used = np.flatnonzero(counts > 0.5)
            labels = self.decode_all(PartLists(np.array([0, len(used)]), used), own.shapes)
            n_states = int(graph.labels.sum())
            best = float(own.scores[used[used < n_states]].sum())
            best += float(own.scores[used[used >= n_states]].sum())
            results.append(BestLabelling(labels, best, max(float(report[2]), best), int(report[0])))
        return results

    def _enumerated(
        self, scores: GraphScores, rule_lists: list[tuple[Rule, ...]], what: str, needs_some: bool = True
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Enumerate all labellings (N, V) of each graph and their scores (N,)."""
        for graph, own, first in zip(scores.graphs, rule_lists, scores.part_ptr.tolist(), strict=False):
            if np.log(graph.labels).sum() > np.log(_MOST_LABELLINGS):
                raise InputError(
                    f"message passing cannot {what}, and this graph has more than {_MOST_LABELLINGS}: use Graph"
                )
            labels = np.indices(tuple(graph.labels)).reshape(len(graph.labels), -1).T
            layout = graph.layout()
            values = scores.tables[first + layout.vertex_part + labels].sum(axis=1)
            for f, at in enumerate(layout.factor_part.tolist()):
                entry = np.zeros(len(labels), np.int64)
                for v in layout.scope(f):
                    entry = entry * graph.labels[v] + labels[:, v]
                values = values + scores.tables[first + at + entry]
            if not (values < np.inf).all():
                raise InputError("the scores of a labelling add up to an infinite number: scale them down")
            for rule in own:
                values = np.where(rule.allows(labels), values, -np.inf)
            if needs_some:
                require_possible(np.array([values.max(initial=-np.inf)]), True)
            yield labels, values


def check_rules(rules: Any, labels: np.ndarray, where: str) -> None:
    """Raise unless `rules` fit a graph whose vertices have `labels` (V,) labels."""
    for k, rule in enumerate(rules):
        if not isinstance(rule, Rule):
            raise InputError(f"{where}[{k}] must be a rule such as XOR((0, 1)), not {rule!r:.40}")
        rule.check(labels, f"{where}[{k}], {rule!r:.60},")


def _table_row(graph: Any, rules: tuple[Rule, ...]) -> np.ndarray:
    layout = graph.layout()
    return layout.row(factor_rest(layout, rules))
