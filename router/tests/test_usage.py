"""Finding the engine's counts in an answer."""

import pytest

from workslice_router.usage import Usage, ended_by_length, find_usage


def test_finds_the_usage_of_an_answer_and_of_a_stream() -> None:
    body = (
        b'{"id":"x","usage":{"prompt_tokens":12,"total_tokens":20,"completion_tokens": 8,"prompt_tokens_details":null}}'
    )
    assert find_usage(body) == Usage(12, 8)
    assert find_usage(
        b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}}\n\ndata: [DONE]\n\n'
    ) == Usage(5, 6)
    assert find_usage(b'{"usage":null}') is None
    assert find_usage(b"") is None


def test_an_embedding_reports_only_its_prompt() -> None:
    assert find_usage(b'{"usage":{"prompt_tokens":12,"total_tokens":12}}') == Usage(12, 0)


def test_usage_that_a_model_wrote_as_text_is_not_usage() -> None:
    assert find_usage(b'{"text":"\\"usage\\":{\\"prompt_tokens\\":99,\\"completion_tokens\\":1}"}') is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"choices":[{"message":{"content":"x"},"finish_reason":"length"}]}', True),
        (b'data: {"choices":[{"delta":{},"finish_reason": "length"}]}\n\n', True),
        (b'{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}', False),
        (b'{"choices":[{"message":{"content":"\\"finish_reason\\":\\"length\\""},"finish_reason":"stop"}]}', False),
        (b"", False),
    ],
)
def test_sees_whether_an_answer_ended_because_it_may_not_be_longer(answer: bytes, expected: bool) -> None:
    assert ended_by_length(answer) is expected
