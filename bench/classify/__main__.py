"""How often the router's own estimate puts a prompt on the wrong side of 4,096 tokens: `python bench/classify`.

Prompts are pieces of real files, cut to lengths that are spread evenly over the octaves from 256 to 65,536 tokens. The estimator first
learns from some of them what an engine would report as usage (the count of a real tokenizer), as in operation; then the router's own
reader and planner decide about others. Prints a table, writes ../results/classify.json and a plot; with CHECK=1 a missed target ends with
status 1.
"""

import json
import math
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from materials import materials
from plot import dot_chart
from texts import CJK, CODE, ENGLISH, JSON, TOOLS, Corpus, corpora
from vocabularies import Count, vocabularies

from workslice_router.estimate import Estimator
from workslice_router.request_body import CHAT, RequestView, read_request_body
from workslice_router.request_plan import plan_request
from workslice_router.routing_table import PoolSpec, RoutingTable
from workslice_router.text_size import text_size

BOUNDARY = 4096
SMALLEST, LARGEST = 256, 65_536
TEXTS = int(os.environ.get("TEXTS", "2000"))
LESSONS = int(os.environ.get("LESSONS", "600"))
"""For each kind."""
LONG_TO_SHORT, SHORT_TO_LONG, MICROSECONDS = 1.0, 3.0, 20.0
KINDS = (ENGLISH, CODE, CJK, JSON, TOOLS)
RESULTS = Path(__file__).parents[1] / "results"
FRAME = ["<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"]
TOOLS_FRAME = [
    "These functions may be called, each by its name and with its arguments as JSON:\n<tools>\n",
    "\n</tools>\n",
]


@dataclass(frozen=True)
class Prompt:
    """One request and what a tokenizer counts for it."""

    kind: str
    characters: int
    view: RequestView
    tokens: int


@dataclass(frozen=True)
class Row:
    """The decisions about one kind; rates in percent of the prompts that belong on that side."""

    family: str
    kind: str
    long: int
    short: int
    long_to_short: float
    short_to_long: float
    near_long_to_short: float
    near_short_to_long: float
    quarter_long_to_short: float
    quarter_short_to_long: float
    median_error: float
    p95_error: float
    bias: float
    """Mean of the logarithm of estimate over count."""
    spread: float
    """Its standard deviation: what bench/policy takes for the error of an estimate."""


def body_of(kind: str, pieces: Sequence[str]) -> bytes:
    """A chat request that carries the pieces."""
    content = "Call the function that fits." if kind == TOOLS else "".join(pieces)
    request: dict[str, Any] = {"model": "asked", "messages": [{"role": "user", "content": content}], "max_tokens": 1}
    if kind == TOOLS:
        request["tools"] = [json.loads(piece) for piece in pieces]
    return json.dumps(request, ensure_ascii=False).encode()


def prompts(kind: str, pieces: list[str], count: Count, wanted: int, chance: random.Random) -> list[Prompt]:
    """`wanted` prompts of neighbouring pieces, from a random one on."""
    counts = count(pieces)
    frame = sum(count([*FRAME, *(TOOLS_FRAME if kind == TOOLS else ())]))
    made = []
    for _ in range(wanted):
        length = math.exp(chance.uniform(math.log(SMALLEST), math.log(LARGEST)))
        start = end = chance.randrange(len(pieces))
        tokens = frame
        while tokens < length and end < len(pieces):
            tokens += counts[end]
            end += 1
        body = body_of(kind, pieces[start:end])
        made.append(Prompt(kind, sum(map(len, pieces[start:end])), read_request_body(body, CHAT), tokens))
    return made


def table_for(model: str) -> RoutingTable:
    """One model with a pool on each side of the boundary."""
    table = RoutingTable()
    for name, tokens in (("short", BOUNDARY), ("long", 4 * LARGEST)):
        spec = PoolSpec(f"bench/{name}", model, name, tokens, tokens, aliases=("asked",))
        table.put_pool(spec)
    table.commit()
    return table


def ask_about(family: str, count: Count, corpora_of: list[Corpus]) -> list[Row]:
    chance = random.Random(family)
    lessons: list[Prompt] = []
    questions: list[Prompt] = []
    for kind in KINDS:
        own = [corpus for corpus in corpora_of if corpus.kind == kind]
        for corpus in own:
            lessons += prompts(kind, corpus.taught, count, math.ceil(LESSONS / len(own)), chance)
            questions += prompts(kind, corpus.asked, count, math.ceil(TEXTS / len(own)), chance)
        print(f"{family}: {kind} read", file=sys.stderr, flush=True)
    chance.shuffle(lessons)
    estimator, table = Estimator(), table_for(family)
    for lesson in lessons:
        estimator.learn_prompt(family, lesson.view, lesson.tokens)
    return [row(family, kind, [one for one in questions if one.kind == kind], estimator, table) for kind in KINDS]


def row(family: str, kind: str, asked: list[Prompt], estimator: Estimator, table: RoutingTable) -> Row:
    chosen = [plan_request(table, estimator, one.view, None, 0.0).chosen.name for one in asked]
    ratios = [estimator.prompt_tokens(family, one.view) / one.tokens for one in asked]
    errors = sorted(abs(ratio - 1) for ratio in ratios)
    logarithms = [math.log(ratio) for ratio in ratios]
    quarter = ["long" if one.characters / 4 + 1 > BOUNDARY else "short" for one in asked]
    near = [index for index, one in enumerate(asked) if BOUNDARY / 2 <= one.tokens < BOUNDARY * 2]
    long = [one.tokens + 1 > BOUNDARY for one in asked]

    def rates(decisions: list[str], which: Sequence[int]) -> tuple[float, float]:
        wrong_long = [decisions[index] == "short" for index in which if long[index]]
        wrong_short = [decisions[index] == "long" for index in which if not long[index]]
        return 100 * sum(wrong_long) / len(wrong_long), 100 * sum(wrong_short) / len(wrong_short)

    everyone = range(len(asked))
    return Row(
        family,
        kind,
        sum(long),
        len(asked) - sum(long),
        *rates(chosen, everyone),
        *rates(chosen, near),
        *rates(quarter, everyone),
        100 * median(errors),
        100 * errors[len(errors) * 95 // 100],
        mean(logarithms),
        stdev(logarithms),
    )


def microseconds(text: str) -> float:
    """CPU time of the estimate alone for a prompt of this text."""
    estimator, view = Estimator(), read_request_body(body_of("", [text]), CHAT)
    estimator.learn_prompt("model", view, 1000)
    best = math.inf
    for _ in range(20):
        began = time.process_time()
        for _ in range(200):
            text_size([text])
            estimator.expected_and_placed("model", view)
        best = min(best, (time.process_time() - began) / 200)
    return best * 1e6


def main() -> None:
    folder = materials()
    sys.path.append(str(folder / "packages"))
    corpora_of = corpora(folder)
    rows = [
        row
        for family, count in vocabularies(folder / "packages").items()
        for row in ask_about(family, count, corpora_of)
    ]
    costs = {
        corpus.kind: microseconds("".join(corpus.asked[: 40_000 // 300]).encode()[:10_000].decode(errors="ignore"))
        for corpus in corpora_of
    }
    report(rows, costs)


def report(rows: list[Row], costs: dict[str, float]) -> None:
    print(
        f"{'':8} {'':14} {'':>11} {'long -> short':^14} {'short -> long':^14} {'within an octave':^16} {'characters / 4':^15} "
        f"{'error of the count':^18}"
    )
    print(
        f"{'family':8} {'kind':14} {'long/short':>11} {'%':>6} {'target':>7} {'%':>6} {'target':>7} {'l->s':>8} {'s->l':>7} "
        f"{'l->s':>8} {'s->l':>6} {'median':>9} {'p95':>8}"
    )
    missed = []
    for one in rows:
        print(
            f"{one.family:8} {one.kind:14} {one.long:5}/{one.short:<5} {one.long_to_short:6.2f} {LONG_TO_SHORT:7g} "
            f"{one.short_to_long:6.2f} {SHORT_TO_LONG:7g} {one.near_long_to_short:8.2f} {one.near_short_to_long:7.2f} "
            f"{one.quarter_long_to_short:8.2f} {one.quarter_short_to_long:6.2f} {one.median_error:8.1f}% {one.p95_error:7.1f}%"
        )
        for what, rate, target in (
            ("long -> short", one.long_to_short, LONG_TO_SHORT),
            ("short -> long", one.short_to_long, SHORT_TO_LONG),
        ):
            if rate > target:
                missed.append(f"{one.family}, {one.kind}: {what} {rate:.2f} %, target {target:g} %")
    for kind, cost in costs.items():
        print(f"estimate of 10 KB of {kind}: {cost:.1f} us (target {MICROSECONDS:g})")
        if cost > MICROSECONDS:
            missed.append(f"{kind}: {cost:.1f} us for 10 KB, target {MICROSECONDS:g}")
    RESULTS.mkdir(exist_ok=True)
    document = {"boundary": BOUNDARY, "rows": [asdict(one) for one in rows], "microseconds_for_10_KB": costs}
    (RESULTS / "classify.json").write_text(json.dumps(document, indent=2) + "\n")
    (RESULTS / "classify.svg").write_text(plot(rows))
    if missed and os.environ.get("CHECK") == "1":
        raise SystemExit("missed targets:\n" + "\n".join(missed))


def plot(rows: list[Row]) -> str:
    """Wrong decisions of the estimate, and of the rule without a tokenizer."""
    series = {
        "long -> short": [one.long_to_short for one in rows],
        "short -> long": [one.short_to_long for one in rows],
        "characters / 4: l -> s": [one.quarter_long_to_short for one in rows],
        "characters / 4: s -> l": [one.quarter_short_to_long for one in rows],
    }
    targets = {"long -> short": LONG_TO_SHORT, "short -> long": SHORT_TO_LONG}
    title = f"Prompts on the wrong side of {BOUNDARY} tokens: further left is better, dashed are the targets"
    return dot_chart(title, [f"{one.family}, {one.kind}" for one in rows], series, targets)


if __name__ == "__main__":
    main()
