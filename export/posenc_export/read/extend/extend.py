"""`extend`: an ONNX file that anybody made, made longer or exact, in processes with limits, and proved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter

from posenc.memory import GIB
from posenc_export.bundle.replacement import staged
from posenc_export.common.child import path_text
from posenc_export.common.errors import BadInput, decoded
from posenc_export.common.limit import check_limits
from posenc_export.common.messages import answer_of
from posenc_export.read.extend.files import check_places, fix_config, free_name, install, is_beside
from posenc_export.read.extend.request import ExtendRequest
from posenc_export.read.extend.result import CommonRun, Extended, Wall

PROGRAM = ("-m", "posenc_export.read.extend.child")
"""What Python runs in the process that makes an extension."""
OTHER_SCALING = "not compared with outputs of before: another scaling changes them"


@dataclass(frozen=True)
class ExtendOptions:
    """What an extension is to be.

    Args:
        max_len: how many positions the file is to hold; None for as many as now, exact or under another scaling.
        rope_type: another rope scaling, by its name.
        parameters: of the scaling, by the names that transformers has for them.
        encoding: which encoding is meant: a tensor, a node, or a family.
        exact: whether Sin and Cos give way to angle addition.
        keep_rows: whether old rows keep their bits.
        force: whether a file is replaced that is there.
        timeout: seconds that each of the two processes may take; 0 for any.
        memory: GiB that it may take.
    """

    max_len: int | None = None
    rope_type: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    encoding: str = ""
    exact: bool = False
    keep_rows: bool = False
    force: bool = False
    timeout: float = 300.0
    memory: float = 8.0

    def __post_init__(self) -> None:
        check_limits(timeout=self.timeout, memory=self.memory)
        if self.max_len is not None and self.max_len < 2:
            raise ValueError(f"max_len must be at least 2, got {self.max_len}")


def extend_file(file: Path, out: Path, options: ExtendOptions) -> Extended:
    """Write a longer file, and return what became of it.

    Args:
        file: the ONNX file, which is left as it is.
        out: where the new one goes.
        options: what it is to be.

    Raises BadInput, in one line, where the file cannot be extended, or takes too long or too much memory.
    """
    _check(options)
    check_places(file, out, options.force)
    with staged(out) as folder:
        request = _request(file, out, folder, options)
        made, orphans = TypeAdapter(tuple[Extended, list[str]]).validate_python(_done("make", request))
        result = _with_runs(made, request)
        if all(run.passed for run in result.runs):
            install(folder / out.name, out, (request.tables, request.weights), orphans)
            note = fix_config(file, out, folder, options.max_len or 0, options.force)
            result = replace(result, notes=(*result.notes, *([note] if note else [])))
    return replace(result, out=decoded(str(out)))


def _check(options: ExtendOptions) -> None:
    if options.max_len is None and not (options.exact or options.rope_type):
        raise BadInput("say what the file is to be: --max-len N, --rope-type NAME or --exact")
    if options.parameters and not options.rope_type:
        raise BadInput("-p gives parameters of --rope-type: give that, too")
    if options.keep_rows and options.rope_type:
        raise BadInput("--keep-rows and --rope-type contradict: rows of another scaling are other rows")


def _request(file: Path, out: Path, folder: Path, options: ExtendOptions) -> ExtendRequest:
    return ExtendRequest(
        file=path_text(file),
        shown=decoded(str(file)),
        scratch=path_text(folder),
        made=path_text(folder / out.name),
        tables=decoded(free_name(file, out, "tables")),
        weights="" if is_beside(file, out) else decoded(free_name(file, out, "weights")),
        out=path_text(out),
        max_len=options.max_len or 0,
        rope_type=options.rope_type,
        parameters=dict(options.parameters),
        encoding=options.encoding,
        exact=options.exact,
        keep_rows=options.keep_rows,
        seconds=options.timeout,
        memory=int(options.memory * GIB),
    )


def _with_runs(result: Extended, request: ExtendRequest) -> Extended:
    """Return a result with calls of both files; under another scaling, outputs are meant to differ."""
    content = cast("dict[str, object]", _done("call", request))
    why, beyond = str(content["why"]), str(content["beyond"])
    runs = TypeAdapter(tuple[CommonRun, ...]).validate_python(content["runs"])
    not_compared = why
    if request.rope_type:
        runs, why, not_compared = (), why or OTHER_SCALING, ""
    walls = result.walls
    if beyond and not walls:
        walls = (Wall(0, "", "refuses", f"the first call beyond the old end fails in ONNX Runtime: {beyond}"),)
    notes = (*result.notes, *([why] if why and not not_compared else []))
    return replace(result, runs=runs, walls=walls, notes=notes, not_compared=not_compared)


def _done(step: str, request: ExtendRequest) -> object:
    """Return what a step gives in a process of its own; raise BadInput where it fails, or takes too long."""
    program = [*PROGRAM, step, json.dumps(asdict(request))]
    return answer_of(program, b"done", shown=request.shown, doing="extending", seconds=request.seconds)
