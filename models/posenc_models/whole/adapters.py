"""A LoRA that is merged into a model's weights before the model is exported."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from posenc_models.whole.contents import ADAPTER
from posenc_models.whole.files import header_of, plain_file, read_object

WEIGHTS = "adapter_model.safetensors"
UNMERGED = "does not fit the model: is it an adapter of this one?"


def look_at_adapter(folder: Path) -> dict[str, Any]:
    """Return what an adapter's config says; raise ValueError, in one line, where the folder holds no LoRA."""
    if not (folder / ADAPTER).exists():
        raise ValueError(f"{folder} has no {ADAPTER}: expected the folder of an adapter, as peft writes it")
    said = read_object(plain_file(folder, ADAPTER))
    if said.get("peft_type") != "LORA":
        kind = said.get("peft_type")
        raise ValueError(f"{folder}: an adapter of peft_type {kind} has no weights to merge: expected LORA")
    if not (folder / WEIGHTS).exists():
        raise ValueError(f"{folder} has no {WEIGHTS}: expected the folder of an adapter, as peft writes it")
    plain_file(folder, WEIGHTS, 0)
    return said


def merged(model: Any, folder: Path) -> tuple[Any, str]:
    """Return a model with a LoRA merged into its weights, and a line that says so.

    Raises ValueError, in one line, where peft is not here, and where the adapter is not one of this model.
    """
    try:
        import peft
    except ImportError:
        raise ValueError("--adapter takes peft: pip install peft") from None
    said = look_at_adapter(folder)
    # peft reads this folder alone, and nothing of it names code or another model
    kept = {key: value for key, value in said.items() if key not in ("auto_mapping", "base_model_name_or_path")}
    with tempfile.TemporaryDirectory(prefix="posenc-adapter-") as scratch:
        place = Path(scratch)
        (place / ADAPTER).write_text(json.dumps(kept), encoding="utf-8")
        (place / WEIGHTS).symlink_to((folder / WEIGHTS).resolve())
        try:
            whole = peft.PeftModel.from_pretrained(model, scratch)
        except Exception as error:  # peft raises what comes
            raise ValueError(f"{folder} {UNMERGED} ({str(error).strip().partition(chr(10))[0]})") from error
    # peft only warns of numbers that have no place, and of places that have none
    stored = {tensor.name for tensor in header_of(folder / WEIGHTS)}
    places = {name.replace(".default.", ".") for name, _ in whole.named_parameters() if ".lora_" in name}
    astray = sorted(stored ^ places)
    if astray or not stored:
        raise ValueError(f"{folder} {UNMERGED}{f' ({astray[0]} has no counterpart)' * bool(astray)}")
    return whole.merge_and_unload(), f"the adapter of {folder.name} is merged into the weights: {len(stored)} tensors"
