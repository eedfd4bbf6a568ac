"""The server of a bundle's page, asked by browsers, by strangers, and by clients that are no browsers at all."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from helpers.served import asked, connected, made_library, received, sent, serving
from posenc_export.show.serving import heads
from posenc_export.show.serving.connections import MOST
from posenc_export.show.serving.library import Library
from posenc_export.show.serving.server import Server

ISOLATED = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return made_library(tmp_path_factory.mktemp("npm") / "onnxruntime-web")


@pytest.fixture(scope="module")
def server(small_bundle: Path, library: Library) -> Iterator[Server]:
    """A server of the small bundle, which no test changes."""
    with serving(small_bundle, library) as running:
        yield running


def test_the_page_and_what_it_takes(server: Server, small_bundle: Path) -> None:
    types = {
        "": "text/html; charset=utf-8",
        "web/button.mjs": "text/javascript; charset=utf-8",
        "ort/ort.webgpu.min.mjs": "text/javascript; charset=utf-8",
        "ort/ort-wasm-simd-threaded.wasm": "application/wasm",
        "bundle/golden.npz": "application/octet-stream",
        "bundle/manifest.json": "application/json",
    }
    for path, type_ in types.items():
        answer = asked(server, path)
        assert (answer.status, answer.headers["Content-Type"]) == (200, type_)
        assert ISOLATED.items() <= answer.headers.items()
        assert not any("Access-Control" in name for name in answer.headers)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert not {"'unsafe-inline'", "'unsafe-eval'", "*"} & set(policy.split())
        assert int(answer.headers["Content-Length"]) == len(answer.body)
    for name in ("manifest.json", "golden.npz", "model.onnx"):
        assert asked(server, f"bundle/{name}").body == (small_bundle / name).read_bytes()
    # a program may ask by the other name, a browser on its own account
    assert asked(server, host=f"localhost:{server.server_port}", Sec_Fetch_Site="none").status == 200
    head = asked(server, "bundle/golden.npz", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["Content-Length"]) == (small_bundle / "golden.npz").stat().st_size


STRANGERS = {
    "the name of a stranger's domain that leads here": {"host": "evil.example"},
    "that name with our port": {"host": "evil.example:{port}"},
    "our name without a port": {"host": "127.0.0.1"},
    "another port": {"host": "127.0.0.1:1"},
    "a name that ends as ours": {"host": "evil.localhost:{port}"},
    "all addresses": {"host": "0.0.0.0:{port}"},
    "a stranger's page": {"Origin": "https://evil.example"},
    "another server of this machine": {"Origin": "http://127.0.0.1:1", "Sec_Fetch_Site": "same-site"},
    "a page without an origin": {"Origin": "null"},
    "a link of a stranger": {"Sec_Fetch_Site": "cross-site"},
    "a page of this machine": {"Sec_Fetch_Site": "same-site"},
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_gets_nothing(server: Server, name: str) -> None:
    words = {key: value.format(port=server.server_port) for key, value in STRANGERS[name].items()}
    answer = asked(server, **words)
    assert answer.status in (403, 421)
    assert server.door.token.encode() not in answer.body
    assert len(answer.body) < 100


def test_two_hosts_or_none_get_nothing(server: Server) -> None:
    root, host = server.door.root, f"Host: 127.0.0.1:{server.server_port}\r\n"
    assert sent(server, f"GET {root} HTTP/1.1\r\n\r\n".encode()).status == 421
    assert sent(server, f"GET {root} HTTP/1.1\r\n{host}{host}\r\n".encode()).status == 421
    assert sent(server, f"GET {root} HTTP/1.1\r\n{host}Host: evil.example\r\n\r\n".encode()).status == 421


PATHS = (
    "../manifest.json",
    "bundle/../bundle/manifest.json",
    "bundle/..%2f..%2f..%2fetc/passwd",
    "bundle/%2e%2e/manifest.json",
    "bundle/manifest%2ejson",
    "bundle//manifest.json",
    "bundle/./manifest.json",
    "bundle/manifest.json/",
    "bundle/manifest.json%00",
    "bundle/manifest.json?x",
    "bundle/manifest.json;x",
    "bundle\\manifest.json",
    "bundle/",
    "bundle",
    "bundle/report.json",  # the manifest does not list it
    "web/host.html",
    "web/page.mjs",
    "web/../cli/__init__.py",
    "ort/package.json",
    "ort/../package.json",
    "index.html",
    "/",
    "x" * 20_000,
)


def test_no_other_file_is_served(server: Server, small_bundle: Path) -> None:
    assert (small_bundle / "report.json").is_file()
    for path in PATHS:
        answer = asked(server, path)
        assert (answer.status, answer.body) == (404, b"there is no such page\n"), path[:80]
    port, token = server.server_port, server.door.token
    host = f"Host: 127.0.0.1:{port}\r\n"
    targets = (
        *("/", "/favicon.ico", "//", f"/{token[:-1]}/", f"/{token[:-1]}x/", f"/{token.swapcase()}/", f"//{token}/"),
        *(f"http://127.0.0.1:{port}/{token}/", f"/%2f{token}/", f"/{token}", "*"),
    )
    for target in targets:
        assert sent(server, f"GET {target} HTTP/1.1\r\n{host}\r\n".encode()).status == 404, target


def test_only_get_and_head(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get"):
        answer = asked(server, "bundle/manifest.json", method, Content_Length="5")
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_a_file_that_was_changed_or_leads_elsewhere_is_not_served(
    bundle: Path, library: Library, tmp_path: Path
) -> None:
    with serving(bundle, library) as server:
        _changed(server, bundle, tmp_path)


def _changed(server: Server, bundle: Path, tmp_path: Path) -> None:
    secret, model = tmp_path / "secret", bundle / "model.onnx"
    size = model.stat().st_size
    secret.write_bytes(b"s" * size)
    model.unlink()
    model.symlink_to(secret)
    assert asked(server, "bundle/model.onnx").status == 409
    model.unlink()
    assert asked(server, "bundle/model.onnx").status == 409
    model.write_bytes(b"s" * (size + 1))
    answer = asked(server, "bundle/model.onnx")
    assert answer.status == 409
    assert b"begin again" in answer.body
    model.unlink()
    os.mkfifo(model)  # to open it would be to wait for whoever writes
    assert asked(server, "bundle/model.onnx").status == 409
    assert asked(server).status == 200


GARBAGE = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1 more\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n",
    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    b"GET / HTTP/1.1\r\nno header at all\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


def test_what_is_no_request_is_answered_or_ends(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    for garbage in GARBAGE:
        answer = sent(server, garbage)
        assert answer.status not in range(200, 400), garbage[:20]
        assert garbage[:9] not in answer.body or len(garbage) < 9
    assert sent(server, b"GET / HTTP/1.1\r\nCookie: " + b"c" * 2**20).status in (431, 0)
    assert asked(server).status == 200
    assert capfd.readouterr().err == ""


def test_clients_that_send_nothing_do_not_block_a_page(server: Server) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(server)) for _ in range(2 * MOST)]
        for client in idle[::2]:
            client.sendall(b"GET /")
        assert asked(server, "bundle/manifest.json").status == 200
        assert len(server.connections.strangers) <= MOST
        # the oldest had to go
        assert received(idle[0]).status == 0


def test_a_client_that_takes_nothing_blocks_no_other(server: Server) -> None:
    with ExitStack() as stack:
        request = f"GET {server.door.root}bundle/golden.npz HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n"
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            client.connect(("127.0.0.1", server.server_port))
            client.sendall(request.encode())
        assert asked(server, "bundle/manifest.json").status == 200


def test_a_head_has_so_much_time_and_no_more() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(heads.NoHead, match=r"within 0\.05 seconds") as late:
            heads.read_head(ours, 0.05)
        assert late.value.status == 408


def test_only_this_machine_is_answered(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    others = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in (address for address in others if not address.startswith("127.")):
        with pytest.raises(OSError, match=r"refused|unreachable"):
            socket.create_connection((address, server.server_port), 5).close()


def test_each_server_has_a_token_of_its_own(server: Server) -> None:
    other = Server(0, {}, "")
    other.server_close()
    assert other.door.token != server.door.token
    assert len(other.door.token) > 40
