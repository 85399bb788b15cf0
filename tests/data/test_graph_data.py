"""Graphs as data: the format of JSON lines, its errors, and grids of images."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

from partwise import InputError
from partwise.data import GraphFactor, grid_graph, parse_graphs, read_graphs, stream_graphs
from partwise.tasks.graphs.data import GraphCorpus
from partwise.tasks.graphs.encoder import GraphEncoder

LINE = (
    '{"nodes": [{"features": {"word": "bank", "long": true}, "kind": "w", "label": "A"}, {"features": [0.5, 2], '
    '"kind": "t"}, {"features": ["short"], "kind": "w", "label": null}], "edges": [[0, 1], {"nodes": [2, 0], '
    '"features": ["near"], "kind": "next"}], "factors": [{"nodes": [0, 1, 2], "kind": "all"}], "id": 7}'
)


def test_a_line_is_a_graph(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("\n" + LINE + "\n\n", encoding="utf-8")
    found = read_graphs(tmp_path / "file")
    [graph] = found.graphs
    assert found.labels == [["A", None, None]]
    assert graph.node_features == [{"word": "bank", "long": True}, [0.5, 2], ["short"]]
    assert graph.node_kinds == ["w", "t", "w"] and graph.edges == [(0, 1), (2, 0)]
    assert graph.edge_features == [None, ["near"]] and graph.edge_kinds == [None, "next"]
    assert graph.factors == [GraphFactor((0, 1, 2), None, "all")]
    bare = parse_graphs('{"nodes": [{}, {}]}')
    assert bare.labels is None and bare.graphs[0].node_features == [[], []] and bare.graphs[0].n_nodes == 2


def test_graphs_are_read_as_they_arrive() -> None:
    class Slow(io.BytesIO):
        def read1(self, size: int = -1) -> bytes:
            return self.read(50)

    lines = [LINE, "", '{"nodes": [{}]}'] * 3
    batches = list(stream_graphs(Slow("\n".join(lines).encode()), batch_size=2))
    assert sum(map(len, batches)) == 6 and max(map(len, batches)) <= 2
    assert batches[0][0].record == json.loads(LINE)
    with pytest.raises(InputError, match=r"^f:3: "):
        list(stream_graphs(io.BytesIO(b'{"nodes": [{}]}\n\n{"nodes": 1}'), path="f"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", "a JSON object is needed, not a list"),
        ('{"nodes": ', "not valid JSON"),
        ('{"nodes": []}', "at least one entry"),
        ('{"edges": [[0, 1]]}', "at least one entry"),
        ('{"nodes": [3]}', '"nodes"[0] must be an object with "features", not a number'),
        (
            '{"nodes": [{"features": [1, "a"]}]}',
            '"nodes"[0]["features"] must be an object, a list of strings',
        ),
        ('{"nodes": [{"features": {"a": [1]}}]}', '"nodes"[0]["features"]["a"] must be a string'),
        ('{"nodes": [{"features": [1e999]}]}', "must be an object, a list of strings or a list of finite"),
        ('{"nodes": [{"label": 3}]}', '"nodes"[0]["label"] must be a string, not a number'),
        ('{"nodes": [{"kind": "a"}, {}]}', '"nodes"[1] has no "kind", but others have one'),
        ('{"nodes": [{}], "edges": 1}', '"edges" must be a list, not a number'),
        ('{"nodes": [{}], "edges": [[0, 1]]}', '"edges"[0] names node 1, but nodes are numbered 0 to 0'),
        ('{"nodes": [{}], "edges": [[0, 0]]}', '"edges"[0] names a node twice'),
        ('{"nodes": [{}], "edges": [[0]]}', '"edges"[0] must have two numbers of nodes'),
        ('{"nodes": [{}], "edges": [[0, true]]}', '"edges"[0] must have two numbers of nodes'),
        ('{"nodes": [{}], "edges": ["x"]}', '"edges"[0] must be a pair of numbers of nodes or an object'),
        ('{"nodes": [{}, {}], "factors": [{"nodes": [0, 1]}]}', '"factors"[0] must have three or more'),
        ('{"nodes": [{}], "factors": [[0, 1, 2]]}', '"factors"[0] must be an object with "nodes"'),
    ],
)
def test_what_is_wrong_is_said_with_its_line(line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_graphs(f"{LINE}\n\n{line}", path="file")
    assert str(caught.value).startswith("file:3: ") and message in str(caught.value)


def test_files_without_graphs() -> None:
    for text, message in (("", "this file is empty"), ("\n \n", "no graphs in this file")):
        with pytest.raises(InputError, match=message):
            parse_graphs(text, path="f")


def test_grids_of_images() -> None:
    image = np.arange(12.0).reshape(3, 4)
    grid = grid_graph(image, neighbours=8, window=1)
    assert grid.n_nodes == 12 and grid.node_features.shape == (12, 9)
    np.testing.assert_array_equal(grid.node_features[:, 4], image.ravel())
    assert grid.node_features[0].tolist() == [0, 0, 0, 0, 0, 1, 0, 4, 5]
    steps = {(0, 1): 0, (1, 0): 1, (1, 1): 2, (1, -1): 3}
    expected = {
        (r * 4 + c, (r + dr) * 4 + c + dc): k
        for (dr, dc), k in steps.items()
        for r in range(3)
        for c in range(4)
        if r + dr < 3 and 0 <= c + dc < 4
    }
    found = zip(map(tuple, grid.edges.tolist()), grid.edge_features.argmax(axis=1).tolist(), strict=True)
    assert dict(found) == expected and (grid.edge_features.sum(axis=1) == 1).all()
    ends = grid_graph(np.stack([image, -image], axis=2), ends=True)
    assert ends.edge_features.shape == (17, 8)
    assert ends.edge_features[0].tolist() == [0, 0, 1, -1, 0, 0, 0, 0]  # 0 to the right
    assert ends.edge_features[-1].tolist() == [0, 0, 0, 0, 7, -7, 11, -11]  # 7 down
    assert len(grid_graph([[1.0]]).edges) == 0
    for wrong in ({"neighbours": 6}, {"window": -1}, {"window": True}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            grid_graph(image, **wrong)
    for shape in ((3,), (0, 2), (2, 2, 2, 2)):
        with pytest.raises(InputError, match="image has shape"):
            grid_graph(np.zeros(shape))


def test_kinds_are_gathered() -> None:
    corpus = GraphCorpus.read(parse_graphs(f'{LINE}\n{{"nodes": [{{"kind": "t", "features": [1, 1]}}]}}'))
    assert corpus.kinds == ["t", "w"] and corpus.node_kind.tolist() == [1, 0, 1, 0]
    assert {name: each.kind.nodes for name, each in corpus.factors.items()} == {
        "w-t": ("w", "t"),
        "next": ("w", "w"),
        "all": ("w", "t", "w"),
    }
    encoder, rows = GraphEncoder.fit(corpus)
    assert [kind.name for kind in encoder.factors] == ["next", "all", "w-t"]
    assert encoder.sizes == ((2, 0), (0, 3), (0, 1)) and len(rows) == 3
    again = GraphEncoder.from_state(json.loads(json.dumps(encoder.state())))
    for ours, theirs in zip(rows, again.transform(corpus), strict=True):
        assert (ours.dense is None) == (theirs.dense is None)
        if ours.sparse is not None and theirs.sparse is not None:
            np.testing.assert_array_equal(ours.sparse.ids, theirs.sparse.ids)


TWO = np.ones((2, 1))


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        (None, "X is missing"),
        (np.ones((2, 2)), "X is ndarray; it must be a list of graphs"),
        ([], "X has no graphs"),
        ([3], r"X\[0\] is 3; a graph is a tuple"),
        ([{"nodes": 1}], r"X\[0\] has the entry 'nodes'"),
        ([{"edges": []}], r"X\[0\] has no node_features"),
        ([(np.zeros((0, 1)),)], r"X\[0\] has no nodes"),
        ([(np.ones(2),)], r"X\[0\].node_features has shape \(2,\)"),
        ([(TWO, [[0, 2]])], r"X\[0\].edges\[0\] is \[0, 2\], but nodes are numbered 0 to 1"),
        ([(TWO, [[1, 1]])], r"X\[0\].edges\[0\] joins node 1 to itself"),
        ([(TWO, [0, 1])], r"X\[0\].edges has shape \(2,\)"),
        ([(TWO, [[0.0, 1.0]])], "it must be an integer array"),
        ([(TWO, [[0, 1]], TWO)], r"X\[0\] has 2 rows of edge_features, but 1 edges"),
        ([(TWO, [[0, 1]], [[1]]), (TWO, [[0, 1]])], r"X\[1\]: factors of kind 'edge' have no features, but"),
        ([(TWO, [[0, 1], [1, 0]], [["a"], None])], "number 1 of the factors of kind 'edge' has no features"),
        ([(TWO,), (np.ones((2, 2)),)], "features of kind 'node': X: a graph has 2 columns"),
        ([([["a"], 3],)], "features of kind 'node': graph 0, row 1: cannot read"),
        ([{"node_features": TWO, "node_kinds": ["a"]}], r"X\[0\] has 1 node_kinds, but 2 nodes"),
        ([{"node_features": TWO, "edges": [[0, 1]], "edge_kinds": []}], "has 0 edge_kinds, but 1 edges"),
        ([{"node_features": TWO, "factors": [(0, 1, 2)]}], "it must be a GraphFactor"),
        ([{"node_features": TWO, "factors": [GraphFactor((0, 1, 2))]}], "three or more different numbers"),
        (
            [{"node_features": TWO, "edges": [[0, 1]], "node_kinds": ["a", "b"], "edge_kinds": ["a"]}],
            "'a' is the name of a kind of nodes and of a kind of factors",
        ),
        (
            [
                {
                    "node_features": TWO,
                    "edges": [[0, 1], [1, 0]],
                    "node_kinds": ["a", "b"],
                    "edge_kinds": ["e", "e"],
                }
            ],
            "factors of kind 'e' join a and b at first and b and a later",
        ),
    ],
)  # fmt: skip
def test_graphs_that_are_none(graphs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphEncoder.fit(GraphCorpus.read(graphs))
