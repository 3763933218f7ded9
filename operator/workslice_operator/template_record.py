"""A pod template with the specs that it was rendered from, as an annotation of the Deployment remembers it. Pure."""

import base64
import bz2
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pydantic import ValidationError

from workslice_api.pool import WorkspacePool, WorkspacePoolSpec
from workslice_api.profile import WorkspaceProfile, WorkspaceProfileSpec
from workslice_operator.render.pod_template import pod_template

_LONGEST: Final = 100_000
"""Bytes: the API refuses objects whose annotations together have more than 256 KiB, and a Deployment may have two records."""
_LONGEST_JSON: Final = 4_000_000
"""Bytes that a compressed record may come to, whoever wrote it."""


@dataclass(frozen=True)
class TemplateRecord:
    """One pod template and where it came from."""

    template: Mapping[str, Any]
    pool: WorkspacePoolSpec
    profile: WorkspaceProfileSpec
    why: str = ""
    """Of a template that failed: what happened."""

    @cached_property
    def hash(self) -> str:
        """Differs between templates whenever the pods must be replaced."""
        return hashlib.sha256(json.dumps(self.template, sort_keys=True).encode()).hexdigest()[:16]

    def renders_like(self, fresh: "TemplateRecord", pool: WorkspacePool, profile: WorkspaceProfile) -> bool:
        """Whether this version of the operator makes the same of the remembered specs as of those of `fresh`: then nobody has changed
        anything that replaces pods, however much the two templates differ.
        """
        then = pod_template(
            pool.model_copy(update={"spec": self.pool}), profile.model_copy(update={"spec": self.profile})
        )
        return then == fresh.template

    def as_text(self) -> str:
        """For the annotation: JSON, compressed where it is long (warm-up prefixes are); empty when even that is too long for one."""
        return self._text

    @cached_property
    def _text(self) -> str:
        # With defaults, as the API server stores them: it keeps the old value when a later version has another default.
        specs = {"pool": self.pool.to_wire(), "profile": self.profile.to_wire()}
        why = {"why": self.why} if self.why else {}
        text = json.dumps({"template": self.template, **specs, **why}, sort_keys=True)  # ASCII: a character is a byte
        if len(text) <= _LONGEST:
            return text
        # Not zlib, which makes half as much again of letters that are written as escapes, and takes up to a second for it.
        compact = base64.b64encode(bz2.compress(text.encode())).decode()
        return compact if len(compact) <= _LONGEST and len(text) <= _LONGEST_JSON else ""


def rendered_record(pool: WorkspacePool, profile: WorkspaceProfile) -> TemplateRecord:
    """What this version of the operator makes of a pool and its profile."""
    return TemplateRecord(pod_template(pool, profile), pool.spec, profile.spec)


def read_record(text: str) -> TemplateRecord | None:
    """The record of an annotation; None when there is none or it cannot be read (any more)."""
    if not text:
        return None
    try:
        raw = json.loads(text if text.startswith("{") else _decompressed(text))
        return TemplateRecord(
            raw["template"],
            WorkspacePoolSpec.model_validate(raw["pool"]),
            WorkspaceProfileSpec.model_validate(raw["profile"]),
            raw.get("why", ""),
        )
    except (ValueError, KeyError, TypeError, OSError, ValidationError):
        return None


def _decompressed(text: str) -> bytes:
    return bz2.BZ2Decompressor().decompress(base64.b64decode(text, validate=True), _LONGEST_JSON)
