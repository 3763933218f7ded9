"""A namespace of a test's own, with profiles and pools in it, that goes away with the test."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.cluster_client import Cluster
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

import manifests


@dataclass
class Scratch:
    """One namespace; objects get the namespace's name as a prefix where they are cluster-wide."""

    cluster: Cluster
    namespace: str
    engine_image: str
    models: Path
    profiles: list[str] = field(default_factory=list)

    def create(self) -> None:
        """Make the namespace with a claim on the models."""
        self.cluster.apply([manifests.namespace(self.namespace), *manifests.model_volume(self.namespace, self.models)])

    def profile(self, **spec: Any) -> str:
        """Apply the namespace's own profile and return its name; see manifests.profile."""
        self.cluster.apply([manifests.profile(self.namespace, self.engine_image, **spec)])
        self.profiles.append(self.namespace)
        return self.namespace

    def pool(self, name: str = "pool", *, profile: str | None = None, model: str | None = None, **spec: Any) -> None:
        """Apply a pool; by default it serves a model named like the namespace and uses its profile."""
        used = profile or self.namespace
        self.cluster.apply([manifests.pool(name, self.namespace, used, model or self.namespace, **spec)])

    def wait_for(
        self, kind: str, status: str, reason: str, *, pool: str = "pool", saying: str = "", seconds: float = 60
    ) -> str:
        """Wait until a condition of a pool has this status and reason and says these words, and return its message."""

        def look() -> str:
            found = condition(self.cluster.get("wspool", pool, self.namespace), kind)
            if (found["status"], found["reason"]) != (status, reason) or saying not in found["message"]:
                raise NotYet(f"{kind}={found['status']} {found['reason']}: {found['message']}")
            return str(found["message"])

        wanted = f"{kind}={status} with reason {reason} {saying!r} on {self.namespace}/{pool}"
        return wait_until(wanted, look, seconds=seconds)

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of the namespace that are not on their way out."""
        return [p for p in self.cluster.objects("pods", self.namespace) if "deletionTimestamp" not in p["metadata"]]

    def events(self, pool: str = "pool") -> str:
        """Return the Events of a pool, `Reason: message`, one in a line."""
        mine = [e for e in self.cluster.objects("events", self.namespace) if e["involvedObject"]["name"] == pool]
        return "\n".join(f"{event['reason']}: {event['message']}" for event in mine)

    def wait_for_events(self, *texts: str, pool: str = "pool", seconds: float = 30) -> None:
        """Wait until each of the texts stands in an Event of a pool.

        Events are written after what they tell of: a test that has seen the thing itself may be too early for them.
        """

        def look() -> None:
            found = self.events(pool)
            if missing := [text for text in texts if text not in found]:
                raise NotYet(f"no {missing} in:\n{found}")

        wait_until(f"Events of {self.namespace}/{pool}", look, seconds=seconds, every=0.3)

    def limit_cpu(self, cpu: str, *, pool: str = "pool") -> None:
        """Give a pool's running engines this much CPU: little, after a start with all they want, and they answer slowly from now on."""
        limits = {"spec": {"containers": [{"name": "engine", "resources": {"limits": {"cpu": cpu}}}]}}
        for pod in self.pods():
            if pod["metadata"]["labels"].get("workslice.dev/pool") == pool:
                words = ("patch", "pod", pod["metadata"]["name"], "-n", self.namespace, "--subresource=resize")
                self.cluster.kubectl(*words, "-p", json.dumps(limits))

    def release(self) -> None:
        """Delete the pools and wait until their pods, and with them every slice, are gone; the rest goes by itself.

        Nobody waits for an answer any more: engines that have been told to go get no time to drain.
        """
        self.cluster.kubectl("delete", "wspool", "--all", "-n", self.namespace, "--ignore-not-found")

        def no_pods() -> None:
            left = [pod["metadata"] for pod in self.cluster.objects("pods", self.namespace)]
            if slow := [pod["name"] for pod in left if pod.get("deletionGracePeriodSeconds", 0) > 1]:
                hurry = ("--grace-period=1", "--wait=false", "--ignore-not-found")
                self.cluster.kubectl("delete", "pod", *slow, "-n", self.namespace, *hurry)
            if left:
                raise NotYet(f"{len(left)} pods are left")

        wait_until(f"the pods of {self.namespace} to go", no_pods, seconds=150)
        self.delete(wait=False)

    def delete(self, *, wait: bool = True) -> None:
        """Delete the namespace and the cluster-wide objects of its name; by default wait until they are gone."""
        for name in self.profiles or [self.namespace]:
            self.cluster.kubectl("delete", "wsprof", name, "--ignore-not-found")
        patience = ("--wait", "--timeout=150s") if wait else ("--wait=false",)
        self.cluster.kubectl("delete", "namespace", self.namespace, "--ignore-not-found", *patience, seconds=160)
        volumes = [f"{self.namespace}-{claim}" for claim in ("models", "cache")]
        self.cluster.kubectl("delete", "pv", *volumes, "--ignore-not-found", *patience, seconds=160)
