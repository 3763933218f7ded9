"""The container that fetches a hub model into the claim of model.cache before the engine starts."""

from importlib.resources import files
from typing import Any, Final

from workslice_api import names
from workslice_api.profile import WorkspaceProfile
from workslice_operator.model_source import DEFAULT_REVISION, locate_model

_PROGRAM: Final = (files("workslice_operator") / "model_fetch_program.py").read_text()
_ENVIRONMENT: Final = {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
"""Images may be made for engines that never download; bars would fill the end of the log, where an error is looked for."""


def model_fetch(
    profile: WorkspaceProfile, environment: list[dict[str, Any]], mounts: list[dict[str, Any]], common: dict[str, Any]
) -> dict[str, Any]:
    """The container, for a model that is cached. `environment` and `mounts` are the engine's, `common` what all containers of the pod
    share.
    """
    model = profile.spec.model
    location = locate_model(model)
    ours = [{"name": name, "value": value} for name, value in _ENVIRONMENT.items()]
    theirs = [one for one in environment if one["name"] != "HF_HUB_OFFLINE"]
    words = [model.source, model.revision or DEFAULT_REVISION, location.argument]
    return {
        "name": names.MODEL_FETCH_CONTAINER,
        "image": profile.spec.engine.image,
        # The kubelet replaces $(NAME) and $$ in commands.
        "command": ["python3", "-c", _PROGRAM.replace("$", "$$"), *words],
        "env": [*ours, *theirs],
        **common,
        "volumeMounts": [
            {name: value for name, value in one.items() if name != "readOnly"}
            if one["mountPath"] == location.mount
            else one
            for one in mounts
        ],
    }
