"""Which cluster is meant: CLUSTER is `embedded` (the default), `kubeconfig` (the one that KUBECONFIG names) or `kind`."""

import os
from enum import StrEnum

from workslice_cluster.cluster_error import ClusterError


class ClusterChoice(StrEnum):
    """The clusters that the demo and the end-to-end tests run on."""

    EMBEDDED = "embedded"
    KUBECONFIG = "kubeconfig"
    KIND = "kind"


def cluster_choice() -> ClusterChoice:
    """Return what CLUSTER says. Raises ClusterError for any other word.

    KUBECONFIG alone chooses nothing: it is set in many shells, and nobody wants to install something by mistake.
    """
    named = os.environ.get("CLUSTER") or ClusterChoice.EMBEDDED
    try:
        return ClusterChoice(named)
    except ValueError as error:
        raise ClusterError(f"CLUSTER is {named!r}: choose one of {', '.join(ClusterChoice)}") from error


def need_embedded(what: str) -> None:
    """Raise ClusterError unless the embedded cluster is meant; `what` acts on the machine under it."""
    if (chosen := cluster_choice()) is not ClusterChoice.EMBEDDED:
        raise ClusterError(f"{what} acts on the machine of the embedded cluster, and CLUSTER is {chosen}")
