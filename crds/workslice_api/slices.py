"""Names of GPU slices: MIG profile names and the Kubernetes resources and node labels that stand for them."""

import re
from typing import Final

WHOLE: Final = "whole"
WHOLE_RESOURCE: Final = "nvidia.com/gpu"
SLICE_PATTERN: Final = r"^(whole|[1-9]g\.[1-9][0-9]{0,2}gb(\+me|\+me\.all|\+gfx|-me)?)$"
"""`whole`, or a MIG profile as nvidia-smi prints it: 1g.10gb, 1g.10gb+me, 1g.24gb+me.all, 1g.24gb+gfx, 1g.24gb-me."""
_MIG_RESOURCE: Final = "nvidia.com/mig-"


def slice_resource(profile: str) -> str:
    """Extended resource that the NVIDIA device plugin (strategy mixed) advertises for a slice: `+` becomes `.`.

    Raises:
        ValueError: not the name of a slice.
    """
    if not re.fullmatch(SLICE_PATTERN, profile):
        raise ValueError(f"not a MIG profile or 'whole': {profile!r}")
    return WHOLE_RESOURCE if profile == WHOLE else _MIG_RESOURCE + profile.replace("+", ".")


def is_slice_resource(resource: str) -> bool:
    """Whether an extended resource of a node is a whole GPU or a MIG slice."""
    return resource == WHOLE_RESOURCE or resource.startswith(_MIG_RESOURCE)


def slice_name(resource: str) -> str:
    """Short name of a slice resource for messages: `1g.10gb`, `1g.10gb.me`, `whole`."""
    return WHOLE if resource == WHOLE_RESOURCE else resource.removeprefix(_MIG_RESOURCE)


def slice_of_resource(resource: str) -> str | None:
    """The slice that an extended resource of a node stands for, as a profile names it; None when it is none that a profile may name."""
    name = slice_name(resource)
    base, dot, attribute = name.partition("gb.")
    profile = f"{base}gb+{attribute}" if dot else name
    return profile if is_slice_resource(resource) and re.fullmatch(SLICE_PATTERN, profile) else None
