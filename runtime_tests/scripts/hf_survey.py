"""Which model types of transformers `--from-hf` reads, and what the others lack: run by hand, not by pytest.

python runtime_tests/scripts/hf_survey.py           prints every model type, with the schemes or the reason
python runtime_tests/scripts/hf_survey.py --write   puts the counts into docs/from-hf.md

A default configuration of each model type is read. What nothing is read of is looked for in the model's code.
"""

import importlib
import importlib.util
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "from-hf.md"
BEGIN, END = "<!-- counted -->\n", "<!-- /counted -->\n"
LOOKS = {
    "rotary": r"Rotary|rotary_pos_emb|rope_theta",
    "a learned table": r"nn\.Embedding\([^)\n]*pos|pos\w* = nn\.(Embedding|Parameter)",
    "sines and cosines": r"[Ss]inusoid|SinePosition|get_timestep_embedding",
    "a bias on scores": r"alibi|relative_position_bias|relative_attention_bias|rel_pos_h",
    "relative positions": r"RelPosition|relative_position|rel_pos",
    "a convolution": r"[Pp]ositionalConv|pos_conv",
}
"""What a model's code may show of positions, and how."""


@dataclass(frozen=True)
class Finding:
    """A model type: the schemes that it is read as, or why it is not, and what its code shows."""

    name: str
    schemes: tuple[str, ...]
    reason: str = ""
    shows: str = ""


def default_config(name: str) -> dict[str, Any] | None:
    """Return a default configuration as JSON; None where there is none without a choice."""
    from transformers import AutoConfig

    try:
        content: dict[str, Any] = json.loads(json.dumps(AutoConfig.for_model(name).to_dict(), default=str))
    except Exception:
        return None
    return content


def schemes_of(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a config is read as: every part of it, and the rotary encoding of its text."""
    from posenc.hf.parts import is_rotary, parts_of
    from posenc.hf.rotary import text_part
    from posenc.hf.settings import Settings

    parts = parts_of(Settings(content), str(content.get("model_type")))
    schemes = [part.scheme for part in parts if part.row is None or not part.row.lacks]
    return tuple(dict.fromkeys((["rotary"] if is_rotary(text_part(content).content) else []) + schemes))


def survey() -> Iterator[Finding]:
    """Yield what comes of each model type."""
    auto = importlib.import_module("transformers.models.auto.configuration_auto")
    for name, config_class in auto.CONFIG_MAPPING_NAMES.items():
        content = default_config(name)
        if content is None:
            yield Finding(name, (), "has no default configuration")
            continue
        schemes = schemes_of(content)
        yield Finding(name, schemes, "" if schemes else reason_of(content), "" if schemes else shown(config_class))


def reason_of(content: Mapping[str, Any]) -> str:
    """Return why nothing is read."""
    from posenc.hf import ModelConfig

    try:
        ModelConfig.of(content)
    except ValueError as error:
        return str(error).rpartition("): ")[2] or str(error)
    return "is read"


def shown(config_class: str) -> str:
    """Return what the code of a model shows of positions."""
    import transformers

    module = getattr(transformers, config_class).__module__.replace("configuration_", "modeling_")
    found = importlib.util.find_spec(module) if importlib.util.find_spec(module.rpartition(".")[0]) else None
    if found is None or found.origin is None:
        return "no code"
    text = Path(found.origin).read_text(encoding="utf-8")
    return ", ".join(what for what, pattern in LOOKS.items() if re.search(pattern, text)) or "nothing"


def summary(findings: list[Finding]) -> str:
    """Return the counts as the page has them."""
    import transformers

    read = [f for f in findings if f.schemes]
    by_scheme = Counter(scheme for f in read for scheme in f.schemes)
    others = [f.shows or "no configuration by default" for f in findings if not f.schemes]
    by_code = Counter(what for shows in others for what in shows.split(", "))
    counts = ", ".join(f"{scheme} {count}" for scheme, count in by_scheme.most_common())
    lacks = ", ".join(f"{what} {count}" for what, count in by_code.most_common())
    first = (
        f"Of {len(findings)} model types of transformers {transformers.__version__}, {len(read)} are read: {counts}."
    )
    last = f"The code of the other {len(others)} shows, of which a model may have several: {lacks}."
    return f"{first}\n\n{last}\n"


def main() -> None:
    """Print the survey, or put its counts into the page."""
    warnings.filterwarnings("ignore")
    findings = list(survey())
    if "--write" in sys.argv:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{summary(findings)}{END}{rest.partition(END)[2]}", encoding="utf-8")
        return
    for finding in findings:
        print(f"{finding.name}: {', '.join(finding.schemes) or f'{finding.reason}; its code shows {finding.shows}'}")
    print(summary(findings))


if __name__ == "__main__":
    main()
