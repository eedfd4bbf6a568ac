"""A process that has loaded torch, transformers and the commands, and forks itself for each command that tests play.

`posenc`, `posenc-export` and `python FILE` of a page take half the time so. Bundles are validated in the process of the
command, as in tests that are not marked `apart`, and what is imported already need not be imported by a page. The
README is played by processes of users.
"""

import atexit
import functools
import json
import os
import runpy
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

CLIENT = """#!{python} -ISE
import json, os, socket, sys

words = [sys.argv[0].rpartition("/")[2], *sys.argv[1:]]
if words[0] == "python" and (len(words) < 2 or words[1].startswith("-")):
    os.execv({python!r}, [{python!r}, *words[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(json.dumps([words, os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    os._exit(int(server.makefile().readline() or 70))
"""


@functools.cache
def command_folder() -> Path:
    """Start the process; return a folder of commands that it answers, to be first in PATH."""
    folder = Path(tempfile.mkdtemp(prefix="preloaded-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = folder / "socket"
    for name in ("posenc", "posenc-export", "python"):
        (folder / name).write_text(CLIENT.format(python=sys.executable, address=str(address)))
        (folder / name).chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return folder


def load() -> None:
    """Import what commands import, without a session of ONNX Runtime or a kernel of torch: no thread is started."""
    import onnxruntime  # noqa: F401
    import onnxscript  # noqa: F401
    import torch.onnx._internal.exporter._core  # noqa: F401
    import transformers.models.auto.modeling_auto  # noqa: F401

    import posenc_export.proof.exporter
    import posenc_export.proof.running.run
    import posenc_export.write.formats.onnx  # noqa: F401
    from posenc_export.cli import export, main
    from posenc_export.proof.apart import parent

    assert export
    assert main
    parent.validating = parent.in_process


def serve(address: str) -> None:
    """Answer commands until the tests end, and with them the standard input; a command may start others."""
    load()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            client, _ = server.accept()
            with client:
                _, given, _, _ = socket.recv_fds(client, 1, 3)
                request = json.loads(client.makefile().readline())
                if not os.fork():
                    server.close()
                    keep(client, given, *request)
                for descriptor in given:
                    os.close(descriptor)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def keep(
    client: socket.socket, given: list[int], words: list[str], folder: str, environment: dict[str, str]
) -> NoReturn:
    """Run a command in a child, and send its status: another command is answered meanwhile."""
    child = os.fork()
    if not child:
        client.close()
        atexit._clear()
        become(given, folder, environment)
        run(words)
    _, status = os.waitpid(child, 0)
    with suppress(OSError):
        client.sendall(f"{os.waitstatus_to_exitcode(status) % 256}\n".encode())
    os._exit(0)


def become(descriptors: list[int], folder: str, environment: dict[str, str]) -> None:
    """Take the streams, the folder and the environment of the process that asks."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


def run(words: list[str]) -> NoReturn:
    """Run a command to its end, with its threads and what it left for its exit, as a new process does."""
    name, *rest = words
    status: object = 0
    try:
        if name == "python":
            sys.argv = rest
            sys.path[0] = str(Path(rest[0]).parent.resolve())
            runpy.run_path(rest[0], run_name="__main__")
        else:
            from posenc_export import cli

            sys.argv = [name, *rest]
            (cli.export if name == "posenc-export" else cli.main)(prog_name=name)
    except SystemExit as end:
        status = end.code
    except BaseException:  # a traceback and status 1, as Python itself gives
        sys.excepthook(*sys.exc_info())
        status = 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(status or 0))  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)
    serve(sys.argv[1])
