"""How to install what an extra of this package brings: words that work with and without a checkout."""

from __future__ import annotations

EXTRAS = {
    "plot": ("matplotlib>=3.9",),
    "weights": ("safetensors>=0.4",),
    "transformers": ("transformers>=5.0",),
    "openvino": ("openvino>=2026.4",),
    "tract": ("tract>=0.23",),
    "mnn": ("mnn>=3.6",),
    "browser": ("playwright>=1.50",),
    "cuda": ("onnxruntime-gpu[cuda,cudnn]>=1.23",),
}
"""The requirements of each extra, as pyproject.toml has them."""


def install_line(extra: str) -> str:
    """Return the command that installs what an extra brings."""
    return " ".join(["pip install", *(f"'{requirement}'" for requirement in EXTRAS[extra])])
