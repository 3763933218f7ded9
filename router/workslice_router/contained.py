"""Keeps a fault of the router to the request that meets it."""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Fallible(Protocol):
    """Something with callbacks that others call."""

    def fail_internally(self) -> None:
        """A callback has raised: end the request. Called inside the exception's handler."""


Arguments = ParamSpec("Arguments")
Self = TypeVar("Self", bound=Fallible)


def contained(
    callback: "Callable[Concatenate[Self, Arguments], None]",
) -> "Callable[Concatenate[Self, Arguments], None]":
    """A callback whose fault ends its request, and neither hangs it nor reaches whoever calls back."""

    @functools.wraps(callback)
    def guarded(self: Self, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        try:
            callback(self, *arguments, **named)
        except Exception:
            self.fail_internally()

    return guarded
