import pytest

from workslice_operator.kube_api import Conflict, KubeError, NotFound, Refused, Unavailable, error_of

UNMERGEABLE = "failed to create typed patch object (shop/x; apps/v1, Kind=Deployment): duplicate entries for key"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "no", NotFound),
        (409, "no", Conflict),
        (422, "no", Refused),
        (403, "no", Refused),
        (500, "no", Unavailable),
        (503, "no", Unavailable),
        (429, "no", Unavailable),
        (500, UNMERGEABLE, Refused),
    ],
)
def test_only_what_a_retry_may_heal_is_retried(status: int, message: str, kind: type[KubeError]) -> None:
    assert type(error_of(status, message)) is kind
