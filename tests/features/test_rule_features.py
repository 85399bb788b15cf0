"""Features of anchored rules: what templates see of a rule at its place."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.errors import InputError
from partwise.features.anchored import RuleFeatures, RuleNames
from partwise.features.spans import Places, Sentences

NAMES = RuleNames(
    ["S → NP VP", "NP → D N", "S → NP"],
    ["S", "NP", "VP", "D", "N"],
    np.array([0, 1, 0]),
    np.array([1, 3, 1]),
    np.array([2, 4, -1]),
)
SENTENCES = Sentences(["the", "dog", "barks", "the", "dog", "barks", "loud"], None, np.array([0, 3, 7]))
FIRST, LAST, CUT, RULE = (
    np.array(each, np.int32) for each in ([0, 0, 0, 0], [1, 2, 3, 3], [0, 1, 2, 3], [1, 0, 0, 2])
)
PLACES = Places(np.array([0, 2, 4]), FIRST, LAST, CUT, RULE)


@pytest.mark.parametrize("one_rule", [False, True])
def test_templates_see_the_rule_and_its_places(one_rule: bool) -> None:
    templates = [
        "rule + length",
        "right + split+1.form",
        "parent + shape",
        "left + right",
        "rule + last.form",
    ]
    names = NAMES
    places = PLACES
    if one_rule:
        names = RuleNames(NAMES.rules[:1], NAMES.symbols, *(each[:1] for each in NAMES[2:]))
        places = PLACES._replace(rule=np.zeros(4, np.int32))
    features = RuleFeatures(names, templates).fit(SENTENCES, places)
    found, shown = features.transform(SENTENCES, places), features.names()
    words = [SENTENCES.forms[:3], SENTENCES.forms[3:]]
    for row in range(4):
        rule, own = int(places.rule[row]), words[row // 2]
        rule_name, _, left, right = (
            names.rules[rule], *(int(each[rule]) for each in (names.parent, names.left, names.right))
        )  # fmt: skip
        expected = {
            f"rule={rule_name} & length={LAST[row] - FIRST[row] + 1}",
            f"parent={names.symbols[names.parent[rule]]} & shape={'x' * (LAST[row] - FIRST[row] + 1)}",
            f"rule={rule_name} & last.form={own[LAST[row]]}",
        }
        if right >= 0:  # unary rules have no right child, so that such features are absent
            after = [*own, "<outside>"][CUT[row] + 1]
            expected |= {
                f"right={names.symbols[right]} & split+1.form={after}",
                f"left={names.symbols[left]} & right={names.symbols[right]}",
            }
        ids = found.ids[found.row_ptr[row] : found.row_ptr[row + 1]]
        assert {shown[k] for k in ids.tolist()} == expected
    again = RuleFeatures.of_state(features.state(), names)
    assert again.names() == shown
    np.testing.assert_array_equal(again.transform(SENTENCES, places).ids, found.ids)


def test_no_templates_are_no_features() -> None:
    features = RuleFeatures(NAMES, None).fit(SENTENCES, PLACES)
    assert features.n_attributes == 0 and features.names() == []
    assert np.array_equal(features.transform(SENTENCES, PLACES).row_ptr, np.zeros(5))
    assert RuleFeatures.of_state(features.state(), NAMES).is_empty
    with pytest.raises(InputError, match="a field looks like rule, parent"):
        RuleFeatures(NAMES, ["middle.form"])
