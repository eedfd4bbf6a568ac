"""`python -m posenc_export`: the command `posenc`."""

from posenc_export.cli import main

if __name__ == "__main__":
    main(prog_name="python -m posenc_export")
