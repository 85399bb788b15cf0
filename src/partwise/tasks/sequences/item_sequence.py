"""`ItemSequence`: the features of a sequence as python-crfsuite reads them, made once and used often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from partwise.errors import InputError

_SIMPLE = (str, float, int, bool)


class ItemSequence:
    """A sequence of items, each a list of attributes with values.

    Parameters
    ----------
    pyseq : iterable
        Items, each of one of these forms:

        - a dict {"name": number}, {"name": bool} or {"name": "text"}, which is the attribute name:text;
        - a dict {"name": {...}} or {"name": [...]}, whose inner names follow the outer one and a colon;
        - any iterable of names.

        Names may be bytes of UTF-8.

    Examples
    --------
    >>> from partwise.crfsuite import ItemSequence
    >>> ItemSequence([["foo"], {"bar": {"baz": 1}}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0}]
    """

    def __init__(self, pyseq: Any):
        self._items: list[list[tuple[str, float]]]
        if isinstance(pyseq, ItemSequence):
            self._items = pyseq._items
            return
        if isinstance(pyseq, (str, bytes)):
            raise InputError(f"a sequence is a list of items, not the text {pyseq!r:.40}")
        self._items = [list(_attributes(item)) for item in pyseq]

    def items(self) -> list[dict[str, float]]:
        """A dict {attribute: value} for each item. Values of an attribute that is there twice are added."""
        return [_added(item) for item in self._items]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def plain_items(xseq: Any) -> list[Any]:
    """A sequence as estimators take it, and a copy, so that later changes of the caller's do not matter."""
    if isinstance(xseq, (ItemSequence, str, bytes)):
        return ItemSequence(xseq).items()
    return [_copied(item) for item in xseq]


def _copied(item: Any) -> Any:
    if type(item) is dict:
        if all(type(key) is str and type(value) in _SIMPLE for key, value in item.items()):
            return dict(item)
    elif type(item) is list and all(type(name) is str for name in item):
        return list(item)
    return _added(list(_attributes(item)))


def _added(attributes: list[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in attributes:
        found[name] = found.get(name, 0.0) + value
    return found


def _attributes(item: Any) -> Iterator[tuple[str, float]]:
    """The attributes of an item with their values."""
    if isinstance(item, (str, bytes)):
        raise InputError(f"an item is a dict or a list of names, not the text {item!r:.40}")
    if not isinstance(item, Mapping):
        try:
            names = list(item)
        except TypeError:
            raise InputError(f"an item is a dict or a list of names, not {item!r:.40}") from None
        yield from ((_text(name), 1.0) for name in names)
        return
    for key, value in item.items():
        name = _text(key)
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            yield from ((f"{name}:{inner}", number) for inner, number in _attributes(value))
        elif isinstance(value, (str, bytes)):
            yield f"{name}:{_text(value)}", 1.0
        else:
            try:
                yield name, float(value)
            except (TypeError, ValueError, OverflowError):
                raise InputError(
                    f"{name!r:.40} has the value {value!r:.40}, neither a number nor text"
                ) from None


def _text(name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode("utf-8", "surrogateescape")
    if not isinstance(name, str):
        raise InputError(f"the name of an attribute is {name!r:.40}; it must be text")
    return name
