"""Attention of any number of axes, what torch.onnx cannot write, and the TorchScript-based exporter as the last way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as attend

from posenc.encoding import Encoding, Tolerance, no_tables
from posenc.ports import BATCH, SEQ, Port, fixed
from posenc_export.common.errors import ExportFailed, first_line
from posenc_export.write.formats import WriteRequest, quiet
from posenc_export.write.formats.onnx import attention
from posenc_export.write.formats.onnx.refusals import why
from posenc_export.write.formats.onnx.traced import TracedGraph, traced

X = Port("x", (BATCH, SEQ, fixed(8)), "float32")
SIZES, OTHER = {"batch": 3, "seq": 11}, {"batch": 2, "seq": 7}


class Attention(nn.Module):
    """Attention with whatever options."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor, m: Tensor | None = None) -> Tensor:
        output: Tensor = attend(q, k, v, m, **self.options)
        return output


def drawn(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(
        torch.randn(shape, generator=torch.Generator().manual_seed(i + sum(shape))) for i, shape in enumerate(shapes)
    )


def translated(module: nn.Module, inputs: tuple[Tensor, ...]) -> onnx.ModelProto:
    with quiet():
        program = torch.export.export(module, inputs)
        table = attention.translations() if attention.count_of(program) else {}
        exported = torch.onnx.export(
            program, inputs, dynamo=True, opset_version=18, verbose=False, custom_translation_table=table
        )
    assert exported is not None
    return exported.model_proto


MASK = torch.arange(7 * 9).reshape(7, 9) % 3 != 1
FIVE = drawn((2, 3, 4, 7, 8), (2, 3, 4, 9, 8), (2, 3, 4, 9, 6))
AXES: list[tuple[tuple[Tensor, ...], dict[str, Any]]] = [
    ((*drawn((7, 8), (9, 8), (9, 6)), MASK), {}),
    (drawn((3, 7, 8), (3, 9, 8), (3, 9, 6)), {"is_causal": True}),
    (drawn((4, 7, 8), (2, 9, 8), (2, 9, 6)), {"enable_gqa": True}),
    ((*drawn((3, 7, 8), (3, 9, 8), (3, 9, 6)), MASK), {"scale": 0.3}),
    (drawn((2, 3, 7, 8), (2, 3, 9, 8), (2, 3, 9, 6)), {}),
    ((*FIVE, torch.zeros(3, 1, 7, 9).masked_fill(~MASK, -1e9)), {}),
    ((*FIVE, MASK), {}),
    (FIVE, {"is_causal": True}),
]


QUICK = (0, 2, 5)
"""One of two, of three and of five axes."""
PARAMS = [pytest.param(*one, marks=() if i in QUICK else pytest.mark.exhaustive) for i, one in enumerate(AXES)]


@pytest.mark.parametrize(("inputs", "options"), PARAMS, ids=[f"{one[0].dim()}-{i}" for i, (one, _) in enumerate(AXES)])
def test_attention_of_any_number_of_axes_is_written(inputs: tuple[Tensor, ...], options: dict[str, Any]) -> None:
    import onnxruntime

    module = Attention(**options)
    model = translated(module, inputs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {port.name: tensor.numpy() for port, tensor in zip(session.get_inputs(), inputs, strict=True)}
    expected = module(*inputs).numpy()
    (actual,) = session.run(None, feeds)
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() < 16 * np.finfo(np.float32).eps * np.abs(expected).max()


def refusal(module: nn.Module, inputs: tuple[Tensor, ...]) -> str:
    with pytest.raises(Exception, match="Failed to convert") as caught:
        translated(module, inputs)
    return why(caught.value)


def test_a_refusal_names_the_operator_and_the_reason() -> None:
    unlike = drawn((3, 7, 8), (9, 8), (9, 6))
    words = " at aten.scaled_dot_product_attention: only 4D query, key, and value are supported"
    assert refusal(Attention(), unlike) == words


class Solves(nn.Module):
    def forward(self, a: Tensor) -> Tensor:
        solved: Tensor = torch.linalg.solve(a @ a.mT, a)
        return solved


def test_an_operator_that_onnx_has_not_is_named() -> None:
    assert refusal(Solves(), drawn((3, 4, 4))) == " at aten._linalg_solve_ex: ONNX has none like it"


def test_an_error_that_names_no_operator_is_said_as_it_is() -> None:
    assert why(RuntimeError("no\nmore")) == ": no"


def test_no_line_holds_escape_codes() -> None:
    assert first_line(RuntimeError("\x1b[96mThis is step 3/3\x1b[0m of\nmore")) == "This is step 3/3 of"


def own(module: nn.Module, inputs: int = 1) -> tuple[Encoding, WriteRequest]:
    ports = tuple(Port(f"x{i}", X.axes, "float32") for i in range(inputs))
    out = Port("y", (BATCH, SEQ, fixed(8)), "float32")
    none = no_tables("none")
    zero = Tolerance()
    encoding = Encoding("module", module, ports, (out,), lambda *_: {}, lambda _: zero, lambda _: zero, none)

    def at(sizes: Any) -> tuple[Tensor, ...]:
        return drawn(*(port.shape(sizes) for port in ports))

    return encoding, WriteRequest(at(SIZES), 64, at=at, other_sizes=OTHER)


class Recurrent(nn.Module):
    """Of which torch.export makes a graph of one length."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LSTM(8, 4, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.net(x)[0]
        return output


def test_a_recurrent_network_is_traced() -> None:
    program = traced(*own(Recurrent().eval()), "a reason", branches=False)
    assert isinstance(program, TracedGraph)
    assert "LSTM" in {node.op_type for node in onnx.load_from_string(program.model).graph.node}
    assert program.findings.notes == (
        "written by torch.onnx.export(dynamo=False), the TorchScript-based exporter: a reason",
    )


class Branches(nn.Module):
    """Asks one question of its input, or of the size, and does something else where the answer is another."""

    def __init__(self, asks: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.asks = asks

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if self.asks(x) else x


HIDDEN: dict[str, Callable[[Tensor], object]] = {
    "comparison": lambda x: x.max() < 1e9,
    "item": lambda x: x.max().item() < 1e9,
    "size": lambda x: x.shape[1] != 501,
    "length": lambda x: len(x) < 501,
    "int": lambda x: int(x.shape[1]) < 501,
    "equal": lambda x: not torch.equal(x, 0 * x),
    "allclose": lambda x: not torch.allclose(x, 0 * x),
    "contains": lambda x: 1e9 not in x,
    "numpy": lambda x: x.detach().numpy().max() < 1e9,
    "list": lambda x: max(x.flatten().tolist()) < 1e9,
    "unique": lambda x: torch.unique(x).numel() > 1,
    "indices": lambda x: len(x[x > 1e9]) == 0,
    "nonzero": lambda x: (x > 1e9).nonzero().shape[0] == 0,
    "detached": lambda x: not torch.equal(x.detach().clone(), torch.zeros_like(x)),
    "float": lambda x: float(x.sum()) < 1e9,
    "any": lambda x: not bool((x > 1e9).any()),
    "is_nonzero": lambda x: torch.is_nonzero(x.abs().sum()),
}


@pytest.mark.parametrize("asks", HIDDEN.values(), ids=HIDDEN)
def test_what_hides_a_branch_is_never_traced(asks: Callable[[Tensor], object]) -> None:
    with pytest.raises(ExportFailed, match=r"cannot see what the module does by|failed: "):
        traced(*own(Branches(asks)), "", branches=False)


class Keeps(nn.Module):
    """Keeps a size, or a number, of the call that is traced."""

    def __init__(self, keeps: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.keeps = keeps

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = x * self.keeps(x)
        return output


@pytest.mark.parametrize("keeps", [lambda x: int(x.shape[1]), lambda x: float(x[0, 0, 0])], ids=["size", "number"])
def test_what_keeps_a_size_or_a_number_is_never_traced(keeps: Callable[[Tensor], Any]) -> None:
    with pytest.raises(ExportFailed, match="keeps sizes or numbers"):
        traced(*own(Keeps(keeps)), "", branches=True)


def test_what_asks_for_sizes_is_traced_where_torch_export_knows_the_answers() -> None:
    with pytest.raises(ExportFailed, match="cannot see"):
        traced(*own(Branches(lambda x: x.dim() and x.shape[2] == 8)), "", branches=False)
    assert traced(*own(Branches(lambda x: x.shape[2] == 8)), "", branches=True).model


def test_it_writes_no_newer_opset_than_it_knows() -> None:
    encoding, request = own(Branches(lambda x: True))
    with pytest.raises(ExportFailed, match="writes opsets up to 20"):
        traced(encoding, WriteRequest(request.trace, 64, opset=23, at=request.at, other_sizes=OTHER), "", branches=True)
