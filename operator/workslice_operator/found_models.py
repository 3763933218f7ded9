"""What pods have found out of the models that they fetched, for the status of their profiles: pools tell it, profiles read it."""

from collections.abc import Callable, Iterable

from workslice_api.model_spec import FoundModel
from workslice_api.profile import WorkspaceProfile
from workslice_operator.config_shape import found_model, is_of
from workslice_operator.keys import Key, profile_key
from workslice_operator.observed import PodFacts


class FoundModels:
    """One process's memory, by the name of the profile. What is lost with it stands in the statuses, or in the pods."""

    def __init__(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake
        self._found: dict[str, FoundModel] = {}

    def tell(self, profile: WorkspaceProfile, pods: Iterable[PodFacts]) -> None:
        """Remember what pods of the profile's present model say, and queue the profile if it is new. Where pods say different things
        nothing is known until the profile names another model, or the process starts anew.
        """
        name = profile.metadata.name
        for text in {pod.fetch.found for pod in pods if pod.fetch is not None and pod.fetch.found}:
            found, known = found_model(text), self._found.get(name)
            if found is None or not is_of(found, profile.spec.model):
                continue
            if known is not None and is_of(known, profile.spec.model):
                if known in (found, disputed := _disputed(found)):
                    continue
                found = disputed
            self._found[name] = found
            self._wake(profile_key(name))

    def of(self, profile: WorkspaceProfile) -> FoundModel | None:
        """What is known of the profile's present model, from its pods or from before."""
        known = (self._found.get(profile.metadata.name), profile.status.model)
        return next((one for one in known if is_of(one, profile.spec.model)), None)

    def forget(self, name: str) -> None:
        """The profile is gone."""
        self._found.pop(name, None)


def _disputed(found: FoundModel) -> FoundModel:
    message = "pods say different things of the model, and model.shape is not set"
    return FoundModel(source=found.source, revision=found.revision, message=message)
