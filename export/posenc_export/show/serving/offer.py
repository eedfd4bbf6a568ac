"""What is offered to visitors of a bundle: its page with the proof in their browser, and every file that this takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path

from posenc.strict_json import parse
from posenc_export.bundle.folder import MANIFEST, Bundle, sha256
from posenc_export.bundle.schema import read_manifest
from posenc_export.common.errors import BadInput
from posenc_export.proof.judging.verdict import Basis
from posenc_export.proof.report.result import ValidateResult
from posenc_export.show.pages import content_of, page_of
from posenc_export.show.serving.library import Library
from posenc_export.show.serving.resources import Resource, resources_of
from posenc_export.show.serving.section import section_of

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


@dataclass(frozen=True)
class Offer:
    """A bundle's page and the files that it takes.

    Args:
        resources: All of them, by their paths below the page.
        policy: The Content-Security-Policy of the page.
    """

    resources: Mapping[str, Resource]
    policy: str


def offer_of(folder: Path, library: Library) -> Offer:
    """Return what is offered of a bundle; nothing of it is run here.

    Args:
        folder: The bundle.
        library: onnxruntime-web.

    Raises BadInput where the folder is no bundle, or has no ONNX file.
    """
    bundle, manifest = _opened(folder)
    graph = bundle.manifest.artifact("onnx")
    if graph is None:
        formats = ", ".join(artifact.format for artifact in bundle.manifest.artifacts) or "nothing"
        raise BadInput(f"{folder} has no ONNX file, which browsers run: it has {formats}; export it with -f onnx")
    # what the bundle's own report says is not believed, and nothing is validated here: the page has no verdicts
    result = ValidateResult(bundle.manifest, (), Basis(sha256(folder / MANIFEST)))
    page = page_of(content_of(result, bundle), section_of(bundle.manifest, graph, library))
    policy = POLICY.search(page)
    assert policy is not None
    return Offer(resources_of(bundle, manifest, library, page), unescape(policy[1]))


def _opened(folder: Path) -> tuple[Bundle, bytes]:
    """Return a bundle, and the bytes of the manifest that was validated."""
    # without a look into graphs: they are run in browsers alone, which find no file that is not served
    bundle = Bundle.read(folder)
    manifest = (folder / MANIFEST).read_bytes()
    if read_manifest(parse(manifest.decode("utf-8"))) != bundle.manifest:
        raise BadInput(f"{folder} is being changed: try again")
    return bundle, manifest
