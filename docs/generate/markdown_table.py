"""A table of a reference page. Cells may hold any text."""

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The table as text, with a line end; `|` and line ends inside cells are made harmless."""
    lines = [_line(head), _line(["---"] * len(head)), *(_line([_cell(cell) for cell in row]) for row in rows)]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Text in code type; empty text stays empty."""
    return f"`{text}`" if text else ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
