"""The page over HTTP, with the standard library alone."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tpuc.api import TpucError, UsageError

from tpuc_visual.page import Networks, render
from tpuc_visual.similarity import Alike


class Visual:
    """The networks, and their comparison once it has been asked for."""

    def __init__(self, networks: Networks, compare: Callable[[], dict[str, Alike]]) -> None:
        self._networks = networks
        self._compare = compare
        self._lock = threading.Lock()

    def run(self) -> None:
        """Compare the networks unless that has been done; raises TpucError."""
        with self._lock:
            if self._networks.alike is None:
                self._networks = replace(self._networks, alike=self._compare())

    def page(self) -> str:
        """The page as it is now."""
        return render(self._networks)


def make_server(visual: Visual, host: str, port: int) -> ThreadingHTTPServer:
    """A server that listens, not yet serving; port 0 is any free one. Raises UsageError when the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] in ("/", "/index.html"):
                self._answer(HTTPStatus.OK, visual.page(), "text/html")
            else:
                self._answer(HTTPStatus.NOT_FOUND, "There is only the page at /.", "text/plain")

        def do_POST(self) -> None:
            if self.path != "/run":
                self._answer(HTTPStatus.NOT_FOUND, "There is only /run.", "text/plain")
                return
            try:
                visual.run()
            except TpucError as error:
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, str(error), "text/plain")
                return
            self._answer(HTTPStatus.OK, "done", "text/plain")

        def _answer(self, status: HTTPStatus, text: str, kind: str) -> None:
            data = text.encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # so named by its base
            """Nothing: every request on stderr would bury remarks."""

    try:
        return ThreadingHTTPServer((host, port), Handler)
    except OverflowError as error:
        raise UsageError(f"port {port} does not exist; choose --port between 1 and 65535.") from error
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "is in use" if taken else f"cannot be opened ({error.strerror})"
        raise UsageError(
            f"port {port} on {host} {why}; choose another with --port, or write a file with -o."
        ) from error
