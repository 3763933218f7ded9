"""docs/reference/chart-values.md: every value of the chart, from the comments in its values.yaml."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from markdown_table import code, markdown_table

INTRODUCTION = """# Values of the chart

A value that is not in this table, or of the wrong type, fails the installation with a message that names it.

"""

_KEY = re.compile(r"^( *)([A-Za-z]+):")


def render_chart_values_page(values: Path) -> str:
    """The page as Markdown.

    Raises:
        ValueError: a value has no `# --` comment.
    """
    text = values.read_text()
    comments = dict(_comments(text))
    rows = []
    for path, default in _leaves("", yaml.safe_load(text), comments):
        if path not in comments:
            raise ValueError(f"{path} has no '# --' comment in {values.name}")
        rows.append((code(path), code(json.dumps(default)), comments[path]))
    return INTRODUCTION + markdown_table(("Value", "Default", "Meaning"), rows)


def _leaves(path: str, node: Any, comments: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Values that a user sets: a documented map is one value, an undocumented one is a section."""
    if path in comments or not isinstance(node, dict) or not node:
        yield path, node
        return
    for name, child in node.items():
        yield from _leaves(f"{path}.{name}" if path else name, child, comments)


def _comments(text: str) -> Iterator[tuple[str, str]]:
    """Dotted path and text of every `# --` comment."""
    parents: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("# -- "):
            comment = [bare.removeprefix("# -- ")]
        elif bare.startswith("# ") and comment:
            comment.append(bare.removeprefix("# "))
        elif key := _KEY.match(line):
            parents = [*parents[: len(key[1]) // 2], key[2]]
            if comment:
                yield ".".join(parents), " ".join(comment)
            comment = []
