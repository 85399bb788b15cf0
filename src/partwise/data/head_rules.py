"""The head child of a constituent, by the rules of Collins (1999, appendix A) for Penn treebank labels.

A rule is a direction and labels in order of preference. The head is the first child from that side with the first
label, else with the second, and so on, else the first child from that side. Without a rule it is the leftmost child.
"""

from __future__ import annotations

from collections.abc import Sequence

from partwise.data.treebank import plain_label

_RULES = {
    "ADJP": "left NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB",
    "ADVP": "right RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN",
    "CONJP": "right CC RB IN",
    "FRAG": "right",
    "LST": "right LS :",
    "NAC": "left NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW",
    "PP": "right IN TO VBG VBN RP FW",
    "PRT": "right RP",
    "QP": "left $ IN NNS NN JJ RB DT CD NCD QP JJR JJS",
    "RRC": "right VP NP ADVP ADJP PP",
    "S": "left TO IN VP S SBAR ADJP UCP NP",
    "SBAR": "left WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG",
    "SBARQ": "left SQ S SINV SBARQ FRAG",
    "SINV": "left VBZ VBD VBP VB MD VP S SINV ADJP NP",
    "SQ": "left VBZ VBD VBP VB MD VP SQ",
    "UCP": "right",
    "VP": "left TO VBD VBN MD VBZ VB VBG VBP VP ADJP NN NNS NP",
    "WHADJP": "left CC WRB JJ ADJP",
    "WHADVP": "right CC WRB",
    "WHNP": "left WDT WP WP$ WHADJP WHPP WHNP",
    "WHPP": "right IN TO FW",
}
_HEAD_RULES = {label: (rule.split()[0], rule.split()[1:]) for label, rule in _RULES.items()}
_NOUNS = {"NN", "NNP", "NNPS", "NNS", "NX", "POS", "JJR"}


def head_child(label: str, children: Sequence[str]) -> int:
    """The place of the head among children, by their labels.

    Parameters
    ----------
    label : str
        Label of the constituent; function tags do not matter.
    children : sequence of str
        Labels of its children, at least one.
    """
    names = [plain_label(child) for child in children]
    label = plain_label(label)
    if label in ("NP", "NX"):
        return _head_of_noun_phrase(names)
    direction, wanted = _HEAD_RULES.get(label, ("left", []))
    order = range(len(names)) if direction == "left" else range(len(names) - 1, -1, -1)
    for name in wanted:
        for k in order:
            if names[k] == name:
                return k
    return order[0]


def _head_of_noun_phrase(names: list[str]) -> int:
    last = len(names) - 1
    if names[last] == "POS":
        return last
    from_right = range(last, -1, -1)
    searches = (
        (from_right, _NOUNS),
        (range(last + 1), {"NP"}),
        (from_right, {"$", "ADJP", "PRN"}),
        (from_right, {"CD"}),
        (from_right, {"JJ", "JJS", "RB", "QP"}),
    )
    for order, wanted in searches:
        for k in order:
            if names[k] in wanted:
                return k
    return last
