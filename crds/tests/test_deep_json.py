import orjson
import pytest

from workslice_api import deep_json


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [1, 250, 300, 1024, 1025, 9_000])
def test_whatever_the_api_stores_can_be_read_and_written(levels: int) -> None:
    document = deep_json.loads(b'{"first":[1,{}],"deep":' + nested(levels) + b',"last":"z"}')
    assert (document["first"], document["last"]) == ([1, {}], "z")
    again = orjson.loads(deep_json.dumps(document))
    assert (again["first"], again["last"]) == ([1, {}], "z")
    assert again["deep"]["a"]


def test_of_the_usual_nothing_is_lost() -> None:
    document = {"a": [{"b": 'x"[{\\'}, [], {}, None], "c": 1.5}
    assert deep_json.loads(orjson.dumps(document)) == document
    assert orjson.loads(deep_json.dumps(document)) == document


def test_brackets_in_text_are_no_levels() -> None:
    text = '"[{\\' * 2_000
    both = deep_json.loads(b"[" + orjson.dumps({text: text}) + b"," + nested(2_000) + b"," + orjson.dumps(text) + b"]")
    assert (both[0], both[2]) == ({text: text}, text)


@pytest.mark.parametrize("text", [b"", b"{", b"<html>", b"[" * 3_000, b'{"a":1}}', nested(3_000)[:-1]])
def test_what_is_no_json_is_refused_as_ever(text: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        deep_json.loads(text)
