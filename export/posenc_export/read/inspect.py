"""`inspect`: what an ONNX file that anybody made holds of positions, read in a process with limits."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from posenc.memory import GIB
from posenc_export.common.child import Child, Ended, Hung, path_text
from posenc_export.common.errors import BadInput, ToolFailed, check_machine, decoded, first_line
from posenc_export.common.limit import check_limits
from posenc_export.common.messages import raise_error
from posenc_export.read.child import ReadRequest
from posenc_export.read.findings import finding
from posenc_export.read.inspection import ComparedFile, Finding, Inspection, NotJudged
from posenc_export.read.judging import unjudged_findings
from posenc_export.read.loading import Loading
from posenc_export.read.recognise.named import VALUES_TURNED
from posenc_export.write.formats.onnx.place import check_file

PROGRAM = ("-m", "posenc_export.read.child")
"""What Python runs in the process that reads a file."""
GRACE = 2.0
"""Seconds that a process has beyond its time, to say that it stopped."""
GRAVEST = ("error", "warning", "note")


@dataclass(frozen=True)
class InspectOptions:
    """How a file is inspected.

    Args:
        bound: the error against float64 that counts as too large. Without one, 0.001 does, and what float32 itself
            loses far out is no finding.
        timeout: seconds that reading a file may take; 0 for any.
        memory: GiB that it may take.
        positions: names of inputs that hold positions; without them, every input is tried.
        masks: names of inputs that are masks.
        windows: how many keys queries are to see: longer calls are tried, which show how many they are. None: nobody
            asks. A config takes the place of it.
        explain: names of nodes, or of values that they give: what is seen there, and which formulas were asked.
        begun: is called with what the file is, as soon as that is read.
    """

    bound: float | None = None
    timeout: float = 120.0
    memory: float = 4.0
    positions: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    windows: tuple[int, ...] | None = None
    explain: tuple[str, ...] = ()
    begun: Callable[[Inspection], None] = lambda _: None

    def __post_init__(self) -> None:
        check_limits(timeout=self.timeout, memory=self.memory)
        if self.bound is not None and not 0 <= self.bound < float("inf"):
            raise ValueError(f"bound must be a finite number of at least 0, got {self.bound}")


def inspect_file(path: Path, config: Path | None, against: Path | None, options: InspectOptions) -> Inspection:
    """Return what a file holds of positions, and what is wrong with it.

    Args:
        path: the ONNX file.
        config: a model's config.json, or its folder, that the file is held against.
        against: the ONNX file that it was made of.
        options: bounds and limits.

    Raises BadInput, in one line, where one of the files cannot be read, or takes too long or too much memory.
    """
    check_file(path)
    if config is not None and not os.path.exists(config):
        raise BadInput(f"--config: {config} does not exist: give a config.json, or a model's folder that has one")
    before = None
    if against is not None:
        check_file(against)
        # the file before may call its inputs otherwise
        before = _read(against, replace(options, begun=lambda _: None, positions=(), masks=(), explain=()))
    loading = Loading(path, options.memory)
    try:
        inspection = _read(path, options if config is None else replace(options, windows=_windows_in(config)))
        refused = loading.refusal(options.timeout)
    finally:
        loading.end()
    findings, compared = list(inspection.findings), []
    if refused:
        findings.append(finding("refused", "", refused))
    if before is not None and against is not None:
        from posenc_export.read.comparing.against import compare_files

        changed = compare_files(inspection, before)
        compared.append(ComparedFile(decoded(str(against)), len(inspection.named), not changed))
        findings += changed
    if config is not None:
        if _turns_values(config):
            findings = [entry for entry in findings if not entry.detail.endswith(VALUES_TURNED)]
        differing, of_config = _against_config(inspection, config)
        compared.append(of_config)
        findings += differing
    return replace(inspection, findings=tuple(sorted(findings, key=_rank)), compared=tuple(compared))


def _turns_values(config: Path) -> bool:
    """Return whether a config says that values are turned as queries and keys are, as RoFormer's rotary_value does."""
    from posenc_models.config.model_config import load_config

    try:
        return load_config(config).get("rotary_value") is True
    except ValueError:  # the comparison says what is wrong with it
        return False


def _windows_in(config: Path) -> tuple[int, ...]:
    """Return how many keys a config lets queries see, so that calls of as many are tried."""
    from posenc_export.read.comparing.attending import windows_in

    return windows_in(config)


def _rank(entry: Finding) -> tuple[int, str]:
    # that a file is none that runs comes before all that is read in it
    return -1 if entry.name == "refused" else GRAVEST.index(entry.severity), entry.code


def _against_config(inspection: Inspection, config: Path) -> tuple[tuple[Finding, ...], ComparedFile]:
    """Return what differs from a config, and what was compared with it; a finding alone where it cannot be read."""
    # schemes and rope types, which are read here alone, import torch
    from posenc_export.read.comparing.config import compare_config

    try:
        return compare_config(inspection, config)
    except ValueError as error:
        check_machine(error)
        # the file was read: what is known of it is not hidden by a config that is not
        why = finding("config", "", f"not judged: {first_line(error)}")
        return (why,), ComparedFile(decoded(str(config)), 0, False)


def _read(path: Path, options: InspectOptions) -> Inspection:
    """Return the inspection that a process of its own makes of a file."""
    request = ReadRequest(
        file=path_text(path),
        shown=decoded(str(path)),
        bound=options.bound,
        memory=int(options.memory * GIB),
        seconds=options.timeout,
        placed=list(options.positions),
        masks=list(options.masks),
        windows=None if options.windows is None else list(options.windows),
        explain=list(options.explain),
    )
    child = Child([*PROGRAM, json.dumps(request)])
    try:
        return _followed(child, request["shown"], options)
    finally:
        child.end()


def _followed(child: Child, shown: str, options: InspectOptions) -> Inspection:
    """Return what a process says at last; raise BadInput where it ends, or is ended, before it has named encodings."""
    end = time.monotonic() + options.timeout + GRACE if options.timeout else None
    # imported while the process starts
    from posenc_export.read.report.schema import inspection_read

    known: list[Inspection] = []
    try:
        while True:
            line = child.line(None if end is None else max(0.0, end - time.monotonic()))
            kind, _, content = line.partition(b" ")
            if kind == b"inspected":
                return inspection_read(content)
            if kind != b"known":
                raise_error(kind, content)
            known.append(inspection_read(content))
            if len(known) == 1:
                options.begun(known[0])
    except Hung:
        if len(known) > 1:
            words = f"where positions end was not known within {options.timeout:g} s: give more with --timeout"
            late = NotJudged(shown, words)
            findings = (*known[-1].findings, *unjudged_findings([late], options.bound is not None))
            return replace(known[-1], stopped=words, not_judged=(*known[-1].not_judged, late), findings=findings)
        words = f"reading it takes longer than {options.timeout:g} s: give more with --timeout"
        raise BadInput(f"{shown}: {words}") from None
    except Ended as ended:
        raise BadInput(f"{shown}: the process that reads it {ended}") from None
    except ValueError as error:
        raise ToolFailed(f"{shown}: the process that reads it sent a message that no inspection sends") from error
