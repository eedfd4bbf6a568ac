"""The output folder: artifacts, a manifest, golden data, a report. Written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from posenc.scheme import Port, Tolerance
from posenc_export.arrays import FLOATS, Array, from_stored, numpy_dtype, to_stored
from posenc_export.errors import BadInput
from posenc_export.validation.plan import Case, Recorded, long_axis, spread

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
GOLDEN = "golden.npz"
NO_TOLERANCE = Tolerance()


@dataclass(frozen=True)
class Artifact:
    """One file in the bundle; weights that lie beside a graph are an artifact of their own, format "FORMAT.data".

    parity: how much farther this file may be from the eager module than the cases say.
    """

    format: str
    file: str
    bytes: int
    sha256: str
    parity: Tolerance | None = None


@dataclass(frozen=True)
class TrialSpec:
    """A case as the manifest keeps it: with what its outputs may be off by."""

    case: Case
    parity: Tolerance = NO_TOLERANCE
    error: Tolerance = NO_TOLERANCE


@dataclass(frozen=True)
class Manifest:
    """What a bundle says of itself; `origin` tells of parameters that were read from a file, where from."""

    scheme: str
    params: Mapping[str, Any]
    mode: str
    method: str | None
    positions: str | None
    max_len: int
    dtype: str
    opset: int
    ir_version: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    artifacts: tuple[Artifact, ...]
    trials: tuple[TrialSpec, ...]
    trace: Mapping[str, int]
    truth: str
    versions: Mapping[str, str]
    rotary_op: str = "decomposed"
    origin: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values."""
        data = {"schema_version": self.schema_version, **asdict(self)}
        data["cases"] = [{**t.case.to_json(), **_tolerances(t)} for t in self.trials]
        del data["trials"]
        return data

    @classmethod
    def from_json(cls, data: Any) -> Manifest:
        """Read a manifest; raise BadInput, in one line, where it is not one or a newer one."""
        version = data.get("schema_version") if isinstance(data, dict) else None
        if not isinstance(version, int):
            raise BadInput("manifest.json has no schema_version: it does not describe a bundle")
        if version > SCHEMA_VERSION:
            raise BadInput(
                f"the bundle has schema version {version}, this posenc-export reads up to {SCHEMA_VERSION}: upgrade it"
            )
        try:
            return cls._read(dict(data))
        except (KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"manifest.json is damaged: {type(error).__name__}: {error}") from error

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Manifest:
        trials = tuple(
            TrialSpec(
                Case(c["name"], c["sizes"], c["first"], c["refused"]),
                Tolerance(**c["parity"]),
                Tolerance(**c["error"]),
            )
            for c in data.pop("cases")
        )
        for ports in ("inputs", "outputs"):
            data[ports] = tuple(Port(p["name"], tuple(p["axes"]), p["dtype"], p["below"]) for p in data[ports])
        data["artifacts"] = tuple(_artifact(a) for a in data["artifacts"])
        return cls(trials=trials, **data)


def _artifact(data: dict[str, Any]) -> Artifact:
    parity = data.get("parity")
    return Artifact(**{**data, "parity": None if parity is None else Tolerance(**parity)})


def _tolerances(trial: TrialSpec) -> dict[str, Any]:
    return {"parity": asdict(trial.parity), "error": asdict(trial.error)}


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk."""

    folder: Path
    manifest: Manifest
    _golden: list[Any] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def open(cls, folder: Path) -> Bundle:
        """Open a bundle; raise BadInput, in one line, where it is none, or names files outside itself."""
        path = folder / MANIFEST
        if not path.is_file():
            raise BadInput(f"{folder} is not a bundle: it has no {MANIFEST}; posenc-export makes one")
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise BadInput(f"{path} is not JSON: {error}") from error
        manifest = Manifest.from_json(data)
        for artifact in manifest.artifacts:
            _check_inside(folder, artifact.file)
        if not (folder / GOLDEN).is_file():
            raise BadInput(f"{folder} has no {GOLDEN}: there is nothing to compare with")
        return cls(folder, manifest)

    def path(self, artifact: Artifact) -> Path:
        """The file of an artifact."""
        return self.folder / artifact.file

    def recorded(self) -> Iterator[tuple[TrialSpec, Recorded]]:
        """Yield every case with its recorded data, one at a time."""
        try:
            with np.load(self.folder / GOLDEN, allow_pickle=False) as golden:
                for trial in self.manifest.trials:
                    yield trial, self._read(golden, trial.case)
        except (OSError, KeyError, ValueError, EOFError) as error:
            raise BadInput(f"{self.folder / GOLDEN} is damaged: {error}") from error

    def _read(self, golden: Any, case: Case) -> Recorded:
        feeds = {}
        for port in self.manifest.inputs:
            key, shape = f"{case.name}/{port.name}", case.shape(port)
            if key not in golden and port.dtype in FLOATS:
                feeds[port.name] = np.zeros(shape, numpy_dtype(port.dtype))
                continue
            kept = from_stored(golden[key], port.dtype)
            at = golden.get(f"{key}.rows")
            feeds[port.name] = kept if at is None else spread(kept, at, shape, long_axis(port, shape))
        if case.refused:
            return Recorded(case, feeds)
        outputs = [(port, f"{case.name}/{port.name}") for port in self.manifest.outputs]
        return Recorded(
            case,
            feeds,
            {p.name: from_stored(golden[k], p.dtype) for p, k in outputs},
            {p.name: golden[f"{k}.truth"] for p, k in outputs if f"{k}.truth" in golden},
            {p.name: golden[f"{k}.rows"] for p, k in outputs if f"{k}.rows" in golden},
        )


def _check_inside(folder: Path, name: str) -> None:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or (folder / name).is_symlink():
        raise BadInput(f"the manifest names {name!r}, which is not a file of the bundle itself")
    if not (folder / name).is_file():
        raise BadInput(f"the bundle has no {name}, which its manifest names")


def write_golden(folder: Path, recorded: list[Recorded]) -> None:
    """Write the recorded cases: keys CASE/PORT, CASE/OUTPUT, CASE/OUTPUT.truth, and .rows where it was sampled."""
    arrays: dict[str, Array] = {}
    for one in recorded:
        name = one.case.name
        arrays |= {f"{name}/{k}": to_stored(v) for k, v in {**one.feeds, **one.eager}.items()}
        arrays |= {f"{name}/{k}.truth": v for k, v in one.truth.items()}
        arrays |= {f"{name}/{k}.rows": v for k, v in one.rows.items()}
    np.savez(folder / GOLDEN, **arrays)  # type: ignore[arg-type]


def write_json(path: Path, data: Any) -> None:
    """Write JSON for people and programs: sorted by nobody, indented, ending in a newline, NaN as null."""
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_target(target: Path) -> None:
    """Raise BadInput where a bundle cannot be put at `target`, before any work is done."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise BadInput(f"{target} is not a folder: give another with -o")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise BadInput(f"{target} holds something that is not a bundle, and is left alone: give another with -o")
    parent = target.resolve().parent
    above = next(p for p in (parent, *parent.parents) if p.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise BadInput(f"cannot write into {above}: give a folder that can be written with -o")


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield a scratch folder beside `target`; it is removed at the end unless `install` moved it."""
    try:
        target.resolve().parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.resolve().parent))
    except OSError as error:
        raise BadInput(f"cannot write beside {target}: {error.strerror}; give another folder with -o") from error
    try:
        scratch.chmod(0o755)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def install(scratch: Path, target: Path) -> None:
    """Rename a finished folder to its place; a bundle that was there goes only once the new one is in place."""
    old = Path(f"{scratch}.old")
    if target.exists():
        target.rename(old)
    try:
        scratch.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
