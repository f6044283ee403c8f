"""Serve the page over HTTP with the standard library."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tpuc.api import TpucError, UsageError
from tpuc_driver.api.page import policy_of
from tpuc_pages import template

from tpuc_visual.page import Networks, render
from tpuc_visual.similarity import Alike


class Visual:
    """The networks, and their comparison once requested."""

    def __init__(self, networks: Networks, compare: Callable[[], dict[str, Alike]]) -> None:
        self._networks = networks
        self._compare = compare
        self._lock = threading.Lock()

    def run(self) -> None:
        """Compare the networks, once; raises TpucError."""
        with self._lock:
            if self._networks.alike is None:
                self._networks = replace(self._networks, alike=self._compare())

    def page(self) -> str:
        """The current page."""
        return render(self._networks)


def is_private(host: str) -> bool:
    """True if an address or name refers to this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, visual: Visual, host: str, port: int) -> None:
        self.visual = visual
        self.host = host
        self.policy = f"{policy_of(template('tpuc_visual'))}; frame-ancestors 'none'"
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = 60
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s"

    @property
    def _ours(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def do_GET(self) -> None:
        if not self._is_meant_for_us():
            return
        if self.path.partition("?")[0] in ("/", "/index.html"):
            self._answer(HTTPStatus.OK, self._ours.visual.page(), "text/html")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "Not found; the page is at /.", "text/plain")

    def do_POST(self) -> None:
        if not self._is_meant_for_us():
            return
        if not self._is_from_our_page():
            self._answer(HTTPStatus.FORBIDDEN, "Only this server's own page can request this.", "text/plain")
            return
        if self.path != "/run":
            self._answer(HTTPStatus.NOT_FOUND, "Not found; POST to /run.", "text/plain")
            return
        try:
            self._ours.visual.run()
        except TpucError as error:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, str(error), "text/plain")
            return
        self._answer(HTTPStatus.OK, "done", "text/plain")

    def _is_meant_for_us(self) -> bool:
        """True if the Host header names this machine; otherwise another site's name may point here (DNS rebinding)."""
        host_names = self.headers.get_all("Host") or []
        if len(host_names) == 1 and _is_own_name(host_names[0], self._ours.host):
            return True
        self._answer(
            HTTPStatus.FORBIDDEN, "Unknown host name; use the address that `tpuc visual` printed.", "text/plain"
        )
        return False

    def _is_from_our_page(self) -> bool:
        """True unless a browser states that another site's page sent the request; other programs state nothing."""
        origins = self.headers.get_all("Origin") or []
        site = self.headers.get("Sec-Fetch-Site", "same-origin")
        ours = f"http://{self.headers['Host']}"
        return all(origin == ours for origin in origins) and site in ("same-origin", "none")

    def _answer(self, status: HTTPStatus, text: str, kind: str) -> None:
        data = text.encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", self._ours.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # so named by its base
        """Log nothing: a line per request would hide remarks on stderr."""


def make_server(visual: Visual, host: str, port: int) -> ThreadingHTTPServer:
    """Return a listening server that does not serve yet; port 0 means any free one. Raises UsageError if the port is in
    use.
    """
    try:
        return _Server(visual, host, port)
    except OverflowError as error:
        raise UsageError(f"port {port} does not exist; choose --port between 1 and 65535.") from error
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "is in use" if taken else f"cannot be opened ({error.strerror})"
        raise UsageError(
            f"port {port} on {host} {why}; choose another with --port, or write a file with -o."
        ) from error


def _is_own_name(host_name: str, host: str) -> bool:
    """True if a Host header may name this server. Public servers also accept any address and the machine's names."""
    match = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](?::\d+)?|([\w.-]+)(?::\d+)?", host_name)
    if match is None:
        return False
    name = (match.group(1) or match.group(2)).lower()
    if is_private(name) or name == host.lower():
        return True
    if is_private(host):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in (socket.gethostname().lower(), socket.getfqdn().lower())
    return True
