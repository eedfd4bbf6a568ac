"""Foreign files read as `posenc inspect` reads them, held against their configs, and scored."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers.foreign.files import foreign_files
from helpers.foreign.scored import Score, score
from helpers.foreign.towers import TINY
from helpers.foreign.truth import Truth
from posenc_export.read.examine import Examining, examine
from posenc_export.read.facts import facts_of
from posenc_export.read.graph.read import read_graph
from posenc_export.read.inspection import Finding, Inspection

SECONDS = 120.0
FAULTY, BEFORE = "two-thetas", "two-thetas.plain-old.onnx"
"""The model of faulty files that are held against the right one, and that one."""


def scored(path: Path, truth: Truth) -> Score:
    """Return the score of a file, with the findings of its config, or of the file that it was made of."""
    begun = time.process_time()
    inspection = inspected(path)
    seconds = time.process_time() - begun
    findings = (*inspection.findings, *compared(path, truth, inspection))
    return replace(score(truth, replace(inspection, findings=findings)), seconds=seconds)


def inspected(path: Path) -> Inspection:
    """Return what is found in a file."""
    graph = read_graph(path)
    return examine(graph, facts_of(graph, path.name), Examining(path.name, None, SECONDS, lambda _: None))


@cache
def config(model: str) -> str:
    """Return the config.json of a model; nothing where no reader of configs knows it."""
    from helpers.foreign.built import config_of
    from posenc_export.read.comparing.expected import expected_of

    if model not in TINY or TINY[model].kind == "steps":
        return ""  # the config of diffusers
    content = json.dumps(config_of(TINY[model]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(content, encoding="utf-8")
        try:
            expected_of(path)
        except ValueError:
            return ""
    return content


def compared(path: Path, truth: Truth, inspection: Inspection) -> tuple[Finding, ...]:
    """Return what a config, or the file before, says of an inspection."""
    from posenc_export.read.comparing.against import compare_files
    from posenc_export.read.comparing.config import compare_config

    if truth.model == FAULTY and "Fusion" not in truth.optimizer:
        return ()  # it was not made of that file
    if truth.model == FAULTY:
        # a file is there until the next one is asked for
        before = next(inspected(path) for path, right in foreign_files([FAULTY]) if right.file == BEFORE)
        return compare_files(inspection, before)
    content = config(truth.model)
    if not content:
        return ()
    beside = path.with_suffix(".json")
    beside.write_text(content, encoding="utf-8")
    return compare_config(inspection, beside)[0]
