"""Settings of the operator: from flags and the pod's environment to one frozen object."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workslice_api import names
from workslice_operator.installation import Installation
from workslice_operator.rolling_pools import MOST_AT_ONCE


@dataclass(frozen=True)
class Settings:
    """What an installation decides once for all pools."""

    installation: Installation
    router_service: str = "workslice-router-admin"
    """Service (in the installation's namespace) whose EndpointSlices list the routers' admin ports."""
    model_owners: Mapping[str, str] = field(default_factory=dict)
    """Model name → the namespace that alone may serve it."""
    pools_rolled_at_once: int = MOST_AT_ONCE
    """Pools whose replicas are replaced at the same time, in the whole cluster; at least 1."""
    identity: str = "operator"
    """Name of this process in the Lease and in Events (its pod)."""
    metrics_port: int = names.OPERATOR_METRICS_PORT
    """Port of /metrics, /healthz and /readyz; 0 takes any free one."""
    log_level: str = "info"


def _labels(text: str) -> dict[str, str]:
    labels = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise argparse.ArgumentTypeError(f"{pair!r} is not KEY=VALUE")
        labels[key] = value
    return labels


def model_owners(text: str) -> dict[str, str]:
    """The value of --model-owners; raises argparse.ArgumentTypeError."""
    try:
        owners = json.loads(text or "{}")
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(owners, dict) or not all(isinstance(one, str) for one in owners.values()):
        raise argparse.ArgumentTypeError('expected an object such as {"model-name": "namespace"}')
    return owners


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Settings from the command line; exits with a usage message (status 2) when they are wrong."""
    parser = argparse.ArgumentParser(
        prog="workslice-operator", description="Turns pools and profiles into vLLM replicas."
    )
    parser.add_argument(
        "--namespace", default=environment.get("POD_NAMESPACE", ""), help="namespace of the installation"
    )
    parser.add_argument("--router-service", default=Settings.router_service, help="Service of the routers' admin ports")
    parser.add_argument(
        "--router-selector", type=_labels, default={}, metavar="KEY=VALUE,..", help="labels of router pods"
    )
    parser.add_argument(
        "--operator-selector", type=_labels, default={}, metavar="KEY=VALUE,..", help="labels of operator pods"
    )
    parser.add_argument(
        "--model-owners", type=model_owners, default={}, metavar="JSON", help='{"model-name": "namespace"}'
    )
    parser.add_argument(
        "--pools-rolled-at-once",
        type=_at_least_one,
        default=Settings.pools_rolled_at_once,
        help="pools whose replicas are replaced at the same time, in the whole cluster",
    )
    parser.add_argument("--metrics-port", type=int, default=Settings.metrics_port, help="/metrics, /healthz, /readyz")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    flags = parser.parse_args(arguments)
    if not flags.namespace:
        parser.error("--namespace is needed outside a pod (inside, POD_NAMESPACE gives it)")
    return Settings(
        installation=Installation(flags.namespace, flags.router_selector, flags.operator_selector),
        router_service=flags.router_service,
        model_owners=flags.model_owners,
        pools_rolled_at_once=flags.pools_rolled_at_once,
        identity=environment.get("POD_NAME") or environment.get("HOSTNAME") or "operator",
        metrics_port=flags.metrics_port,
        log_level=flags.log_level,
    )


def running_settings(arguments: Sequence[str], namespace: str) -> tuple[Installation, Mapping[str, str]]:
    """Installation and model owners of an operator that runs with these arguments, of whatever version it is.

    Raises:
        ValueError: they cannot be read.
    """
    given = dict(one[2:].split("=", maxsplit=1) for one in arguments if one.startswith("--") and "=" in one)
    try:
        selectors = [_labels(given.get(name, "")) for name in ("router-selector", "operator-selector")]
        return Installation(namespace, *selectors), model_owners(given.get("model-owners", ""))
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from None
