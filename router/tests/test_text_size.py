"""Measuring a text by a few counts."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.text_size import TextKind, text_size

PROSE = (
    "A vLLM server batches all requests together. That is efficient as long as they are alike. When a request with a very long "
    "prompt arrives, its prefill takes seconds of the engine, and every short request behind it waits for its end.\n"
)
CODE = "def feed(self, data: bytes) -> None:\n    if self.ended:\n        return\n    self._now += len(data[3:])\n\n"
DATA = json.dumps({"type": "object", "properties": {"id": {"type": "integer", "maximum": 1024}, "n": {"enum": [1, 2]}}})
CHINESE = "当一个提示很长的请求到达时，它的预填充会占用引擎数秒钟，后面的每个短请求都要等待。"
JAPANESE = "とても長いプロンプトを持つリクエストが来ると、後ろの短いリクエストはすべて待たされます。"
KOREAN = "프롬프트가 아주 긴 요청이 들어오면 뒤에 있는 짧은 요청은 모두 기다려야 합니다."
RUSSIAN = "Когда приходит запрос с очень длинным промптом, все короткие запросы за ним ждут."


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PROSE, TextKind.PROSE),
        (CODE, TextKind.CODE),
        (DATA, TextKind.DATA),
        (CHINESE, TextKind.CHINESE),
        (JAPANESE, TextKind.JAPANESE),
        (KOREAN, TextKind.KOREAN),
        (RUSSIAN, TextKind.OTHER_SCRIPT),
        ("“Smart quotes” don’t make prose foreign — not even — several — of — them. " * 3, TextKind.PROSE),
        (PROSE + CHINESE * 4, TextKind.CHINESE),
        ("", TextKind.PROSE),
    ],
)
def test_tells_the_kind(text: str, kind: TextKind) -> None:
    assert text_size([text]).kind is kind
    if text:
        assert text_size([text * 5000]).kind is kind, "also of a text that is only sampled"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (PROSE, 50),  # what Qwen's tokenizer counts
        (CODE, 31),
        (DATA, 40),
        (CHINESE, 25),
        (JAPANESE, 30),
        (KOREAN, 30),
        (RUSSIAN, 26),
        ("x = 1\n" + " " * 60 + "y = 2\n", 11),
    ],
)
def test_is_near_what_a_tokenizer_counts(text: str, tokens: int) -> None:
    assert 0.75 * tokens <= text_size([text]).tokens <= 1.35 * tokens


def test_texts_count_together() -> None:
    assert text_size([PROSE, CODE]).tokens == pytest.approx(text_size([PROSE + CODE]).tokens)
    assert text_size([]).tokens == 0


@pytest.mark.parametrize("text", [PROSE, CODE, CHINESE])
def test_a_long_text_is_sampled_over_its_whole_length(text: str) -> None:
    once = text_size([text]).tokens
    assert text_size([text * 2000]).tokens == pytest.approx(2000 * once, rel=0.05)
    halves = text_size(["1" * 100_000 + "x" * 100_000]).tokens
    assert halves == pytest.approx(100_000 * 1.4 + 100_000 * 0.14, rel=0.1)


@given(st.lists(st.text(max_size=3000) | st.sampled_from(["", PROSE * 40, CODE * 90, CHINESE * 60]), max_size=12))
def test_many_texts_are_sampled_like_the_one_that_they_make_together(texts: list[str]) -> None:
    assert text_size(texts) == text_size(["".join(texts)])


def test_measuring_many_texts_copies_none_of_them_whole() -> None:
    texts = [PROSE * 20_000, "\N{GRINNING FACE}", PROSE * 20_000]
    tracemalloc.start()
    try:
        text_size(texts)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@given(st.text(max_size=400), st.integers(1, 200))
def test_any_text_has_a_size_and_a_smaller_least_one(text: str, times: int) -> None:
    size = text_size([text * times])
    assert 0 <= size.least <= size.tokens + 1
    assert size.tokens <= 4 * len(text) * times


def test_a_text_whose_spaces_stand_where_pairs_are_counted_has_no_size_below_zero() -> None:
    words, spaces = "aaaaaaaaaa=" * 80, " " * 880
    assert text_size([words + 2 * spaces + 2 * words + 2 * spaces + words]).tokens >= 0


def test_a_text_without_words_may_have_next_to_no_tokens() -> None:
    assert text_size([" " * 100_000]).least == 0
    assert text_size(["=" * 100_000]).least == 0


@pytest.mark.parametrize("line", ["def two(words):  # why\n    return words[0]\n", "He said that it was so.\n"])
@pytest.mark.parametrize("lines", [3, 4000])
def test_a_sign_that_is_not_ascii_hardly_changes_a_long_text(line: str, lines: int) -> None:
    plain, with_sign = text_size([line * lines]), text_size(["§" + line * lines])
    assert with_sign.kind == plain.kind
    assert with_sign.tokens == pytest.approx(plain.tokens, rel=0.05)
    assert with_sign.least == pytest.approx(plain.least, abs=max(1, 0.01 * plain.least))
