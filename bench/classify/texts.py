"""Real texts of the kinds that clients send, from files that packages ship: manuals, programs, JSON Schemas."""

import html
import json
import os
import pydoc_data.topics
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ENGLISH, CODE, CJK, JSON, TOOLS = "English prose", "code", "CJK", "JSON", "tool schemas"
PIECE = 300
"""Characters of a piece at least; it ends with a line."""
LONGEST_PIECE = 2000
SECTION = 40
"""Neighbouring documents of which all teach, or all are asked about."""
TAUGHT = 5
"""Every so manieth section teaches."""
MOST_CHARACTERS = int(os.environ.get("CHARACTERS", "8_000_000"))
"""Of a corpus: enough for thousands of different prompts."""
BOILERPLATE = 20
"""A line of a manual on so many pages is furniture."""
_TAG = re.compile(r"<(script|style|head)\b.*?</\1>|<[^>]+>", re.DOTALL)
_TOOL_NAME = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True)
class Corpus:
    """Pieces of one kind; neighbours in a list are neighbours in their files."""

    kind: str
    taught: list[str]
    asked: list[str]


def corpora(folder: Path) -> list[Corpus]:
    """Of every kind one or, for CJK, one for each language; `folder` is what materials() gives."""
    manuals, schemas = folder / "manuals", _schemas(folder / "packages")
    english = [*_manual(manuals, "libreoffice-help-en-us", "debian-reference-en"), *pydoc_data.topics.topics.values()]
    chinese = _manual(manuals, "libreoffice-help-zh-cn", "debian-reference-zh-cn", "debian-reference-zh-tw")
    japanese = _manual(manuals, "libreoffice-help-ja", "debian-reference-ja")
    korean = _manual(manuals, "libreoffice-help-ko")
    return [
        _corpus(ENGLISH, map(_pieces, english)),
        _corpus(CODE, map(_pieces, _programs())),
        *(_corpus(CJK, [_pieces(page) for page in pages if _is_cjk(page)]) for pages in (chinese, japanese, korean)),
        _corpus(JSON, (_pieces(_formatted(file.read_text(), number)) for number, file in enumerate(schemas))),
        _corpus(TOOLS, map(_tools, schemas)),
    ]


def _corpus(kind: str, documents: Iterable[list[str]]) -> Corpus:
    corpus = Corpus(kind, [], [])
    size = 0
    for number, pieces in enumerate(documents):
        (corpus.asked if number // SECTION % TAUGHT else corpus.taught).extend(pieces)
        size += sum(map(len, pieces))
        if size > MOST_CHARACTERS and corpus.asked:
            break
    return corpus


def _pieces(text: str) -> list[str]:
    pieces, piece = [], ""
    for line in text.splitlines(keepends=True):
        piece += line
        while len(piece) > LONGEST_PIECE:
            pieces.append(piece[:LONGEST_PIECE])
            piece = piece[LONGEST_PIECE:]
        if len(piece) >= PIECE:
            pieces.append(piece)
            piece = ""
    return [*pieces, piece] if piece.strip() else pieces


def _manual(folder: Path, *packages: str) -> list[str]:
    files = [file for package in packages for file in sorted((folder / package).rglob("*.html"))]
    pages = [_plain(file.read_text("utf-8", "replace")) for file in files]
    seen = Counter(line for page in pages for line in set(page))
    return ["\n".join(line for line in page if seen[line] < BOILERPLATE) + "\n\n" for page in pages]


def _plain(page: str) -> list[str]:
    lines = html.unescape(_TAG.sub("", page)).replace("\xa0", " ").splitlines()
    return [short for line in lines if (short := re.sub(r"[ \t]+", " ", line).strip())]


def _is_cjk(page: str) -> bool:
    return sum(ord(character) > 0x2E80 for character in page) > 0.3 * len(page)


def _programs() -> Iterator[str]:
    packages = Path(httpx.__file__).parents[1]
    roots = {Path(sysconfig.get_path(name)) for name in ("stdlib", "include")} | {packages}
    folders: dict[Path, list[Path]] = {}
    for file in sorted({file for root in roots for file in root.rglob("*") if file.suffix in (".py", ".h", ".js")}):
        if "test" not in str(file):  # tests repeat themselves
            folders.setdefault(file.parent, []).append(file)
    names = sorted(folders)
    random.Random(1).shuffle(names)
    size = 0
    for name in names:
        for file in folders[name]:
            text = file.read_text("utf-8", "replace")
            size += len(text)
            yield text
        if size > MOST_CHARACTERS:
            return


def _schemas(packages: Path) -> list[Path]:
    return sorted((packages / "cfnlint/data/schemas/resources").glob("*.json"))


def _formatted(text: str, number: int) -> str:
    """As it is shipped, or as clients print JSON: in lines, with spaces, without any."""
    styles: list[dict[str, Any]] = [{"indent": 2}, {}, {"separators": (",", ":")}]
    return text if number % 4 == 0 else json.dumps(json.loads(text), **styles[number % 4 - 1]) + "\n"


def _tools(file: Path) -> list[str]:
    """Tools whose parameters are the resource's schema and the schemas inside it, as JSON text."""
    document = json.loads(file.read_text())
    inner = document.get("definitions") or {}
    named = {document.get("typeName", file.stem): document, **inner}
    tools = []
    for name, schema in named.items():
        if not isinstance(schema, dict) or not schema.get("properties"):
            continue
        parameters = {"type": "object", "properties": schema["properties"], "required": schema.get("required", [])}
        function = {
            "name": _TOOL_NAME.sub("_", name),
            "description": schema.get("description", ""),
            "parameters": parameters,
        }
        tools.append(json.dumps({"type": "function", "function": function}, ensure_ascii=False))
    return tools
