"""A device plugin like NVIDIA's for GPUs that are not there: it speaks the real kubelet API over real sockets.

What a container gets instead of a driver is the CPU build of the engine, mounted read-only as the NVIDIA container toolkit
mounts driver libraries on a real node. It runs beside the kubelet on the embedded cluster, and as a DaemonSet elsewhere.
"""

import argparse
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from workslice_cluster import device_health, inventory
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.device_plugin_api import DEVICE_PLUGIN, MESSAGES, PACKAGE, REGISTRATION, decode, encode
from workslice_cluster.inventory import Slice

SOCKETS = Path("/var/lib/kubelet/device-plugins")
KUBELET_SOCKET = SOCKETS / "kubelet.sock"
ENGINE_MOUNT = "/opt/vllm"
SECONDS_BETWEEN_LOOKS = 0.2


def allocation(devices: list[str], engine: Path) -> Any:
    """Return what a container with these devices gets: their names, a device node and the engine's packages."""
    return MESSAGES["ContainerAllocateResponse"](
        envs={"NVIDIA_VISIBLE_DEVICES": ",".join(devices)},
        mounts=[MESSAGES["Mount"](container_path=ENGINE_MOUNT, host_path=str(engine), read_only=True)],
        devices=[
            MESSAGES["DeviceSpec"](container_path=f"/dev/{device}", host_path="/dev/null", permissions="rw")
            for device in devices
        ],
    )


def preferred(available: list[str], must_include: list[str], size: int) -> list[str]:
    """Return which free devices to take: the demanded ones, then the first in order."""
    rest = sorted(device for device in available if device not in must_include)
    return (must_include + rest)[:size]


class Plugin:
    """Serves one resource to the kubelet. A class because gRPC threads share its devices' health."""

    def __init__(self, part: Slice, engine: Path | None = None) -> None:
        self._part = part
        self._engine = engine
        self._health = dict.fromkeys(part.devices, device_health.HEALTHY)
        self._changed = threading.Condition()
        self._server: grpc.Server | None = None

    def follow(self, health: dict[str, str]) -> None:
        """Take over the health of the own devices and tell the kubelet when it changed."""
        wanted = {device: health.get(device, device_health.HEALTHY) for device in self._part.devices}
        with self._changed:
            if wanted != self._health:
                print(f"{self._part.resource}: {wanted}")
                self._health = wanted
                self._changed.notify_all()

    def register(self) -> None:
        """Open a new socket and register with the kubelet. Raises grpc.RpcError when the kubelet does not answer."""
        self.stop()
        socket = SOCKETS / f"{self._part.resource.replace('/', '-')}.sock"
        socket.unlink(missing_ok=True)
        self._server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[self._handlers()])
        self._server.add_insecure_port(f"unix://{socket}")
        self._server.start()
        request = MESSAGES["RegisterRequest"](
            version=PACKAGE, endpoint=socket.name, resource_name=self._part.resource, options=self._options()
        )
        with grpc.insecure_channel(f"unix://{KUBELET_SOCKET}") as channel:
            call = channel.unary_unary(
                f"/{REGISTRATION}/Register", request_serializer=encode, response_deserializer=decode("Empty")
            )
            call(request, timeout=5)
        print(f"registered {self._part.resource} with {self._part.count} devices")

    def stop(self) -> None:
        """Close the socket; streams to a kubelet that has gone end."""
        if self._server:
            self._server.stop(grace=None)
            self._server = None

    def _options(self) -> Any:
        return MESSAGES["DevicePluginOptions"](get_preferred_allocation_available=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        def unary(function: Any, request: str) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                function, request_deserializer=decode(request), response_serializer=encode
            )

        return grpc.method_handlers_generic_handler(
            DEVICE_PLUGIN,
            {
                "GetDevicePluginOptions": unary(lambda request, context: self._options(), "Empty"),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list_and_watch, request_deserializer=decode("Empty"), response_serializer=encode
                ),
                "GetPreferredAllocation": unary(self._preferred_allocation, "PreferredAllocationRequest"),
                "Allocate": unary(self._allocate, "AllocateRequest"),
                "PreStartContainer": unary(
                    lambda request, context: MESSAGES["PreStartContainerResponse"](), "PreStartContainerRequest"
                ),
            },
        )

    def _list_and_watch(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        sent: dict[str, str] | None = None
        while context.is_active():
            with self._changed:
                if self._health == sent:
                    self._changed.wait(timeout=1)
                now = self._health
            if now != sent:
                sent = now
                devices = [MESSAGES["Device"](ID=device, health=health) for device, health in now.items()]
                yield MESSAGES["ListAndWatchResponse"](devices=devices)

    def _preferred_allocation(self, request: Any, context: grpc.ServicerContext) -> Any:
        answers = [
            MESSAGES["ContainerPreferredAllocationResponse"](
                deviceIDs=preferred(
                    list(one.available_deviceIDs), list(one.must_include_deviceIDs), one.allocation_size
                )
            )
            for one in request.container_requests
        ]
        return MESSAGES["PreferredAllocationResponse"](container_responses=answers)

    def _allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        engine = self._engine or _engine_of_the_checkout(context)
        wanted = [list(one.devices_ids) for one in request.container_requests]
        print(f"allocate {wanted}")
        return MESSAGES["AllocateResponse"](container_responses=[allocation(devices, engine) for devices in wanted])


def _engine_of_the_checkout(context: grpc.ServicerContext) -> Path:
    """Return the folder of the engine's packages; without it the allocation fails with what to do."""
    # Imported only now: the image of the plugin does without, and the cluster may be up before the packages are there.
    from workslice_cluster.engine_environment import site_packages

    engine = site_packages()
    if not engine.is_dir():
        text = f"the engine's packages are not at {engine}: run `python -m workslice_cluster.engine_environment`"
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
    return engine


def _kubelet_identity() -> tuple[int, int] | None:
    """Return what changes when a new kubelet opens its socket."""
    try:
        status = KUBELET_SOCKET.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def serve(state: Path, engine: Path | None = None) -> None:
    """Serve the inventory of a state folder until killed; a restarted kubelet is registered with again.

    `engine` is the node's folder of the engine's packages; by default that of this checkout.
    """
    plugins = [Plugin(part, engine) for part in inventory.read(state).slices]
    registered: tuple[int, int] | None = None
    while True:
        try:
            health = device_health.read(state)
            for plugin in plugins:
                plugin.follow(health)
        except ClusterError as error:
            print(f"device health is not followed: {error}")
        kubelet = _kubelet_identity()
        if kubelet and kubelet != registered:
            try:
                for plugin in plugins:
                    plugin.register()
                registered = kubelet
            except grpc.RpcError as error:
                print(f"the kubelet does not answer yet: {error.code()}")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workslice_cluster.device_plugin", description=__doc__)
    parser.add_argument(
        "state", type=Path, help="folder with inventory.json and, when devices fail, device-health.json"
    )
    parser.add_argument(
        "--engine", type=Path, help="folder on the node with the engine's packages (default: this checkout's)"
    )
    arguments = parser.parse_args()
    serve(arguments.state, arguments.engine)


if __name__ == "__main__":
    _main()
