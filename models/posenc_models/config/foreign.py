"""Configs and modules of other libraries, as far as their types are known here."""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn


class HfConfig(Protocol):
    """A config of another library, with the attributes of its class."""

    def __getattr__(self, name: str, /) -> Any: ...

    def __setattr__(self, name: str, value: object, /) -> None: ...


class HfModule(Protocol):
    """A module of another library, with the attributes and the arguments of its class."""

    def __getattr__(self, name: str, /) -> Any: ...

    def __setattr__(self, name: str, value: "Tensor | nn.Module", /) -> None: ...

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Return the output of its forward."""
