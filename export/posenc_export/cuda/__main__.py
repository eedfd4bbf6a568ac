"""`python -m posenc_export.cuda` is `posenc cuda`."""

from posenc_export.cli.proving import cuda

cuda(prog_name="python -m posenc_export.cuda")
