"""Something else runs where a model's code calls a function of torch."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from torch.overrides import TorchFunctionMode

from posenc_models.asking.model import Function, Instead


def intercepted(instead: Instead) -> AbstractContextManager[object]:
    """Call `instead` with the function, its arguments and its keywords in the place of every function of torch."""

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self,
            function: Function,
            types: object,
            args: Sequence[object] = (),
            kwargs: Mapping[str, object] | None = None,
        ) -> object:
            return instead(function, args, kwargs or {})

    return Mode()
