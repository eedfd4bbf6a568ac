"""What do execution providers leave of our graphs, with int64 and with int32? A script, which reads lists alone.

    python runtime_tests/scripts/providers.py FOLDER  # bundles go there, a table into docs/reference/measured/files.md

The first sample of every scheme in each mode, in both dtypes of indices. A bundle that is there already is kept.
"""

import datetime
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from posenc_export.write.formats.onnx.providers import NodeGroup
from scripts.compat_table import PAGE

PART = "providers"
SHOWN = (
    *("CUDA", "TensorRT", "DirectML", "OpenVINO on CPU", "OpenVINO on GPU", "WebGPU", "WebGPU, enableInt64"),
    *("WebGPU, JSEP", "CoreML, MLProgram", "QNN", "NNAPI"),
)
"""Providers that have a column: XNNPACK takes no node of ours, and the list of WebNN has no dtypes."""
ARROW = " → "
WHOLE_STEPS = {"timestep": {"steps": "int"}}
"""Parameters without which a scheme takes floats, and no integers."""


def forms() -> Iterator[tuple[str, str]]:
    """Yield every scheme in each mode that it has."""
    from posenc.scheme import SCHEMES

    for one in SCHEMES.values():
        yield from ((one.name, mode) for mode in ("dynamic", "baked") if mode not in one.unsupported.modes)


def cells(scheme: str, mode: str, folder: Path) -> dict[str, str]:
    """Return what each provider leaves of a form: with int64, then with int32; "-" where there is no such form."""
    before, after = (left(scheme, mode, dtype, folder) for dtype in ("int64", "int32"))
    return {name: f"{before[name]}{ARROW}{after.get(name, '-')}" for name in ("nodes", *SHOWN)}


def left(scheme: str, mode: str, index_dtype: str, folder: Path) -> Mapping[str, str]:
    """Return how many nodes a file has, and how many each provider leaves; nothing where there is no such form."""
    import onnx

    from posenc.scheme import SCHEMES
    from posenc.spec import Spec
    from posenc_export.common.errors import BadInput
    from posenc_export.proof.exporter import ExportOptions, export_target
    from posenc_export.write.formats.onnx.providers import placements
    from posenc_export.write.targets.scheme import scheme_target

    record = SCHEMES[scheme]
    params = {**record.samples[0], **WHOLE_STEPS.get(scheme, {})}
    spec = Spec(mode, positions=record.positions, max_len=70, index_dtype=index_dtype)  # type: ignore[arg-type]
    bundle = folder / f"{scheme}-{mode}-{index_dtype}"
    if not bundle.exists():
        try:
            options = ExportOptions(("onnx",), validate=False)
            export_target(lambda: scheme_target(scheme, spec, params, 0), options, bundle)
        except BadInput:
            return {}
    found = placements(onnx.load(bundle / "model.onnx"))
    counts = {one.provider: (_sum(one.left), _sum(one.unknown)) for one in found}
    words = {name: str(few) + (f"+{doubt}?" if doubt else "") for name, (few, doubt) in counts.items()}
    return {"nodes": str(found[0].nodes), **words}


def _sum(groups: tuple[NodeGroup, ...]) -> int:
    return sum(group.nodes for group in groups)


def table(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return the part of the page: the date, where the lists are from, and a row for each form."""
    from posenc_export.write.formats.onnx.providers.lists import provider_lists

    sources = dict.fromkeys(
        f"{one.source.version} ([{one.source.commit[:7]}]({one.source.repository}/tree/{one.source.commit}), "
        f"{one.source.date})"
        for one in provider_lists()
    )
    names = ("nodes", *SHOWN)
    lines = [
        f"Read on {datetime.datetime.now(datetime.UTC).date()} from lists: {' and '.join(sources)}. Nothing was run.",
        "",
        f"| form | {' | '.join(names)} |",
        "| --- " * (len(names) + 1) + "|",
    ]
    lines += [f"| {form} | {' | '.join(found[name] for name in names)} |" for form, found in rows.items()]
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    """Write the bundles that are not there yet, and the table."""
    rows = {f"{scheme} {mode}": cells(scheme, mode, folder) for scheme, mode in forms()}
    put_part(PAGE, PART, table(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
