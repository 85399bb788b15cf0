"""Model files: what is written comes back, and nothing that is not whole and sound gets in."""

from __future__ import annotations

import json
import math
import os
import random
import struct

import numpy as np
import pytest
from model_bytes import container
from safetensors.numpy import save

from partwise.errors import InputError
from partwise.storage.checks import (
    expect_array,
    expect_number,
    expect_offsets,
    expect_texts,
)
from partwise.storage.model_file import load, load_model, save_model

HEADER = {
    "estimator": "SequenceLabeler",
    "numbers": [1, 2.5, math.inf, -math.inf, None, True],
    "scalar": np.float32(0.5),
    "words": [f"wört{k}" for k in range(40)],
    "nested": {"more": ["a" * k for k in range(300)], "few": ["x", "y"]},
}
ARRAYS = {
    "weights": np.linspace(-1, 1, 7, dtype=np.float32),
    "odd": np.arange(3, dtype=np.uint8),
    "ids": np.arange(12, dtype=np.int64).reshape(3, 4),
    "mask": np.array([True, False]),
    "empty": np.zeros((0, 4), np.int32),
}


def same(left, right):
    return json.dumps(left, default=float) == json.dumps(right, default=float)


def test_round_trip(tmp_path):
    path = tmp_path / "m.pw"
    save_model(path, HEADER, ARRAYS)
    header, arrays = load_model(path)
    assert same(header, HEADER)
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype and arrays[name].shape == array.shape
        assert (arrays[name] == array).all()
        assert arrays[name].flags.aligned and arrays[name].flags.c_contiguous


def test_arrays_outlive_what_is_done_to_the_file(tmp_path):
    """A map of a file ends the process (SIGBUS) when the file is cut short, as `cp` onto it does."""
    path = tmp_path / "m.pw"
    save_model(path, HEADER, {**ARRAYS, "large": np.arange(100_000)})
    before = path.read_bytes()
    _, arrays = load_model(path)
    arrays["weights"][:] = 7.0
    assert path.read_bytes() == before
    os.truncate(path, 0)
    assert arrays["large"].sum() == 99_999 * 50_000


def test_same_model_same_bytes(tmp_path):
    save_model(tmp_path / "a", HEADER, ARRAYS)
    save_model(tmp_path / "b", HEADER, ARRAYS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.pw"
    save_model(path, HEADER, ARRAYS)
    before = path.read_bytes()

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(InputError, match="No space left"):
        save_model(path, {**HEADER, "words": []}, ARRAYS)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.pw"]


def test_what_cannot_be_stored_is_refused_before_writing(tmp_path):
    with pytest.raises(InputError, match="cannot hold"):
        save_model(tmp_path / "m", {"x": object()}, {})
    with pytest.raises(InputError, match="dtype object"):
        save_model(tmp_path / "m", {}, {"x": np.array([object()])})
    with pytest.raises(InputError, match="cannot write here"):
        save_model(tmp_path / "no" / "m", {}, {})
    assert os.listdir(tmp_path) == []


def message_of(path):
    with pytest.raises(InputError) as error:
        load(path)
    text = str(error.value)
    assert text.startswith(str(path)) and "\n" not in text
    return text


def test_wrong_files(tmp_path):
    assert "no such file" in message_of(tmp_path / "missing")
    assert "directory" in message_of(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    assert "empty" in message_of(tmp_path / "empty")
    (tmp_path / "text").write_text("The cat sat on the mat.\n" * 10)
    assert "not a model file" in message_of(tmp_path / "text")
    (tmp_path / "other").write_bytes(save({"x": np.zeros(3)}, {"format": "pt"}))
    assert "no partwise model" in message_of(tmp_path / "other")
    os.mkfifo(tmp_path / "pipe")
    assert "ordinary file" in message_of(tmp_path / "pipe")


def raw(front):
    """A safetensors file with this front and eight bytes of data."""
    return struct.pack("<Q", len(front)) + front + b"\0" * 8


HOSTILE = {
    "newer": (container(version="2"), "newer partwise .* upgrade"),
    "no version": (container(version="one"), "is no version"),
    "huge version": (container(version="9" * 8), "newer"),
    "checksum": (container(checksum="00"), "checksum"),
    "deep json": (container("[" * 100_000), "nested too deeply|not JSON"),
    "deep object": (container('{"a":' * 900 + "1" + "}" * 900), "damaged|unknown kind"),
    "not an object": (container("[]"), "not a JSON object"),
    "constants": (container('{"a": NaN}'), "not JSON"),
    "long integer": (container('{"a": ' + "9" * 10_000 + "}"), "not JSON"),
    "unknown kind": (container('{"estimator": "os.system"}'), "unknown kind 'os.system'"),
    "kind is a list": (container('{"estimator": ["SequenceLabeler"]}'), "unknown kind"),
    "missing strings": (container('{"a": {"$strings": 0}}'), "list of strings 0 is missing"),
    "wrapping lengths": (
        container('{"a": {"$strings": 0}}', {
            "strings.0": np.zeros(2, np.uint8),
            "string_lengths.0": np.array([2**62, 2**62, 2**62, 2**62, 2], np.int64),
        }),
        "wrong lengths",
    ),
    "not utf-8": (
        container('{"a": {"$strings": 0}}', {
            "strings.0": np.full(2, 255, np.uint8), "string_lengths.0": np.array([2], np.uint8),
        }),
        "damaged",
    ),
    "strings named twice": (
        container('{"a": {"$strings": 0}, "b": {"$strings": 0}}', {
            "strings.0": np.zeros(2, np.uint8), "string_lengths.0": np.array([2], np.uint8),
        }),
        "list of strings 0 is missing",
    ),
    "header length": (struct.pack("<Q", 2**63) + b"{}", "not a model file"),
    "header longer than file": (struct.pack("<Q", 50_000_000) + b"{}", "not a model file"),
    "huge array": (
        raw(b'{"x":{"dtype":"F64","shape":[1000000000000],"data_offsets":[0,8]}}'),
        "not a model file",
    ),
    "negative shape": (
        raw(b'{"x":{"dtype":"F64","shape":[-1],"data_offsets":[0,8]}}'),
        "not a model file",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_containers(tmp_path, name):
    data, message = HOSTILE[name]
    path = tmp_path / "m.pw"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        load(path)


def test_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "m.pw"
    save_model(path, HEADER, ARRAYS)
    data = path.read_bytes()
    for length in range(0, len(data), 37):
        path.write_bytes(data[:length])
        with pytest.raises(InputError):
            load_model(path)


def test_checks():
    arrays = {"a": np.array([0, 3, 5], np.int32), "w": np.array([1.0, np.nan], np.float32)}
    assert expect_array(arrays, "a", np.int32, shape=(3,), low=0, high=6) is arrays["a"]
    for wrong in ({"dtype": np.int64}, {"dtype": np.int32, "ndim": 2}, {"dtype": np.int32, "high": 5},
                  {"dtype": np.int32, "low": 1}, {"dtype": np.int32, "shape": (4,)}):  # fmt: skip
        with pytest.raises(InputError, match="'a'"):
            expect_array(arrays, "a", **wrong)
    with pytest.raises(InputError, match="not finite"):
        expect_array(arrays, "w", np.float32)
    with pytest.raises(InputError, match="missing"):
        expect_array(arrays, "b", np.float32)
    assert expect_offsets(arrays, "a", 2, 5) is arrays["a"]
    with pytest.raises(InputError, match="never descend"):
        expect_offsets({"a": np.array([0, 4, 3])}, "a", 2, 3)
    for value in (True, "3", None, math.nan, 7, 2.5):
        with pytest.raises(InputError):
            expect_number({"n": value}, "n", 0, 5, whole=True)
    with pytest.raises(InputError, match="twice"):
        expect_texts({"t": ["a", "a"]}, "t", distinct=True)


def test_container_fuzz(tmp_path):
    """Without a new checksum no change of the bytes gets through, wherever it is."""
    path = tmp_path / "m.pw"
    save_model(path, HEADER, ARRAYS)
    original = path.read_bytes()
    draw = random.Random(1)
    for _ in range(1000):
        data = bytearray(original)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        try:
            header, arrays = load_model(path)
        except InputError:
            continue
        # Bits that carry no meaning, such as the case of a letter in an escape sequence.
        assert same(header, HEADER)
        assert all((arrays[name] == array).all() for name, array in ARRAYS.items())
