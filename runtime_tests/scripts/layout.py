"""What lies where: the folders and files of the product by the first lines of their docstrings, as docs/layout.md.

python runtime_tests/scripts/layout.py > docs/layout.md
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
LAYERS = [layer.split(" : ") for contract in CONTRACTS for layer in reversed(contract.get("layers", ()))]
ROOMS = tuple(room for layer in LAYERS for room in reversed(layer) if room != "__main__")
"""The rooms of posenc_export, as import-linter holds them: a room imports only rooms before it."""
HEAD = """# What lies where

Every file of the product by its first line. Inside `posenc_export` a room imports only rooms above it in the list.
"""
PACKAGES = {"posenc": (), "export/posenc_export": ROOMS, "models/posenc_models": ()}
"""The folders of packages, and the order of what lies in them, where it is not that of names."""


def first_line(file: Path) -> str:
    """Return the first line of a file's docstring."""
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def section(folder: Path, order: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the lines of a folder: its files and folders in a table, then the sections of its folders."""
    parts = {
        path.stem: path for path in sorted(folder.iterdir()) if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    names = order or tuple(sorted(parts, key=lambda name: (parts[name].is_file(), name)))
    yield from (
        f"## {folder.relative_to(ROOT)}/",
        "",
        first_line(folder / "__init__.py"),
        "",
        "| part | what it is |",
        "|---|---|",
    )
    for path in (parts[name] for name in names if not name.startswith("__")):
        text = first_line(path / "__init__.py" if path.is_dir() else path)
        yield f"| `{path.name}{'/' * path.is_dir()}` | {text} |"
    yield ""
    for path in (parts[name] for name in names):
        if path.is_dir() and len(list(path.glob("*.py"))) > 1:
            yield from section(path)


def layout() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for package, order in PACKAGES.items() for line in section(ROOT / package, order))])


if __name__ == "__main__":
    print(layout(), end="")
