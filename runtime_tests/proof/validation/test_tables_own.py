"""What is held of a user's module: numbers of the file against its parameters, rows that no call reads."""

from pathlib import Path

import torch
from torch import Tensor, nn

import posenc_export
from helpers.found_tables import finding
from helpers.stored import change_table, largest_table, zero
from posenc.ports import BATCH, SEQ, Port, fixed
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.checks import CHECKS, Context
from posenc_export.proof.exporter import ExportOptions
from posenc_export.proof.judging.context import Capture
from posenc_export.proof.judging.verdict import ValidateOptions
from posenc_export.proof.stored.matching import digests_of


class Looked(nn.Module):
    """Adds the rows of a table that is longer than any call."""

    def __init__(self) -> None:
        super().__init__()
        self.pe = nn.Embedding(512, 16)

    def forward(self, x: Tensor) -> Tensor:
        rows: Tensor = self.pe(torch.arange(x.shape[1]))
        return x + rows


def test_rows_of_a_users_module_that_no_call_reads_are_a_note(tmp_path: Path) -> None:
    x = Port("x", (BATCH, SEQ, fixed(16)), "float32")
    options = ExportOptions(formats=("onnx",), validation=ValidateOptions(runtimes=("ort-cpu",)))
    result = posenc_export.export(Looked, inputs=(x,), to=tmp_path / "b", spec=Spec(max_len=97), options=options)
    of_tables = next(verdict for verdict in result.verdicts if verdict.check == "tables")
    same = "8,192 of 8,192 numbers are the module's parameters and buffers, bit for bit"
    assert (of_tables.status, of_tables.detail) == ("pass", f"97 of 512 stored rows; {same}")
    assert of_tables.note == "rows 97..511 of table pe.weight were never read"
    assert finding(tmp_path / "b").problems == []
    name, _ = largest_table(tmp_path / "b")
    change_table(tmp_path / "b", name, zero(500))
    opened = Bundle.open(tmp_path / "b")
    (artifact,) = opened.manifest.artifacts
    torch.manual_seed(0)
    capture = Capture(True, True, (), stored=digests_of(Looked()))
    found = CHECKS["tables"].find(Context(opened.manifest, artifact, opened.path(artifact), capture))
    assert found.problems == ["pe.weight is not the module's"]
