"""The kubelet's device plugin API v1beta1 as protobuf messages: the fields this project uses, by number and type."""

from collections.abc import Mapping
from typing import Any

# The library has no types.
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

PACKAGE = "v1beta1"
REGISTRATION = f"{PACKAGE}.Registration"
DEVICE_PLUGIN = f"{PACKAGE}.DevicePlugin"

# Message to field to (number, type): a leading * means repeated, `map` means text to text, a capital names a message.
FIELDS: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": (1, "bool"),
        "get_preferred_allocation_available": (2, "bool"),
    },
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "Device": {"ID": (1, "string"), "health": (2, "string")},
    "ListAndWatchResponse": {"devices": (1, "*Device")},
    "PreStartContainerRequest": {"devices_ids": (1, "*string")},
    "PreStartContainerResponse": {},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": (1, "*string"),
        "must_include_deviceIDs": (2, "*string"),
        "allocation_size": (3, "int32"),
    },
    "PreferredAllocationRequest": {"container_requests": (1, "*ContainerPreferredAllocationRequest")},
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "*string")},
    "PreferredAllocationResponse": {"container_responses": (1, "*ContainerPreferredAllocationResponse")},
    "ContainerAllocateRequest": {"devices_ids": (1, "*string")},
    "AllocateRequest": {"container_requests": (1, "*ContainerAllocateRequest")},
    "Mount": {"container_path": (1, "string"), "host_path": (2, "string"), "read_only": (3, "bool")},
    "DeviceSpec": {"container_path": (1, "string"), "host_path": (2, "string"), "permissions": (3, "string")},
    "ContainerAllocateResponse": {"envs": (1, "map"), "mounts": (2, "*Mount"), "devices": (3, "*DeviceSpec")},
    "AllocateResponse": {"container_responses": (1, "*ContainerAllocateResponse")},
}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"bool": _Field.TYPE_BOOL, "string": _Field.TYPE_STRING, "int32": _Field.TYPE_INT32}


def _add_field(message: Any, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind == "map":
        # Protobuf writes a map as repeated pairs of a nested message.
        pair = message.nested_type.add(name=f"{name.title()}Entry")
        pair.options.map_entry = True
        _add_field(pair, "key", 1, "string")
        _add_field(pair, "value", 2, "string")
        field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{message.name}.{pair.name}"
        return
    if kind.startswith("*"):
        field.label, kind = _Field.LABEL_REPEATED, kind[1:]
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


def _messages() -> Mapping[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="device_plugin_v1beta1.proto", package=PACKAGE, syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in FIELDS}


MESSAGES = _messages()


def decode(name: str) -> Any:
    """Return the function that reads a message of this name from bytes."""
    return MESSAGES[name].FromString


def encode(message: Any) -> bytes:
    """Return a message as bytes."""
    return bytes(message.SerializeToString())
