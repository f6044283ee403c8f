"""Pages in headless Chromium, driven over a pipe: what they show, what they ask for, and what they complain of."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--no-first-run",
        "--force-color-profile=srgb",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync"),
)
PATIENCE = 60.0
"""Seconds for an answer; a page that needs them hangs."""


class Navigated(Exception):
    """The page was left for another one before it answered."""


class Browser:
    """A running Chromium; `open` gives a page of its own."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        theirs = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (read, write)]
        # Chromium reads from 3 and writes to 4.
        start = 'exec "$@" 3< /proc/self/fd/{} 4> /proc/self/fd/{}'.format(*theirs)
        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            ["sh", "-c", start, "sh", *command],
            pass_fds=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for one in (read, write, *theirs):
            os.close(one)
        self._number = 0
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """The answer to a command; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "navigated" in str(answer.get("error")):
                    raise Navigated(method)
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._from, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    @contextlib.contextmanager
    def open(self, address: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> Generator[Page]:
        """A loaded page that remembers nothing of others; at the end it must not have complained, nor asked for
        anything but itself.
        """
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        page = Page(self, session, address)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.prefer(dark=dark)
        page.send("Page.navigate", url=address)
        page.wait("document.readyState === 'complete' && location.href !== 'about:blank'")
        page.settle()
        try:
            yield page
            page.settle()
            assert (found := page.complaints()) == [], found
            assert page.requests() == []
        finally:
            self.send("Target.disposeBrowserContext", browserContextId=context)

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(AssertionError, OSError):
            self.send("Browser.close")
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)


class Page:
    """What a test does to a page, and asks of it."""

    def __init__(self, browser: Browser, session: str, address: str) -> None:
        self._browser = browser
        self._session = session
        self._address = address

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the debugging protocol."""
        return self._browser.send(method, self._session, **parameters)

    def value(self, expression: str) -> Any:
        """Of an expression in JavaScript."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, (expression, answer.get("exceptionDetails"))
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(Navigated):
                if self.value(f"Boolean({condition})"):
                    return
            time.sleep(0.01)
        raise AssertionError(condition)

    def settle(self) -> None:
        """Until what was asked for is drawn: two frames, of the next page if this one was left meanwhile."""
        frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        try:
            self.value(frames)
        except Navigated:
            self.value(frames)

    def prefer(self, *, dark: bool) -> None:
        """What the reader's system says of colors."""
        scheme = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of an element, which is scrolled to."""
        text = json.dumps(selector)
        self.value(f"document.querySelector({text}).scrollIntoView({{block: 'nearest'}})")
        box = self.value(
            f"(() => {{ const b = document.querySelector({text}).getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of an element."""
        self.click_at(*self.place(selector))

    def click_at(self, x: float, y: float) -> None:
        """With the mouse."""
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """With the left button held."""
        self.mouse("mousePressed", *start, button="left", clickCount=1)
        self.mouse("mouseMoved", *end, button="left", buttons=1)
        self.mouse("mouseReleased", *end, button="left", clickCount=1)
        self.settle()

    def wheel(self, x: float, y: float, steps: int) -> None:
        """Towards the reader where `steps` is positive."""
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=100 * steps)
        self.settle()

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """One event."""
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self.send("Input.insertText", text=text)
        self.settle()

    def press(self, key: str, text: str = "") -> None:
        """A key, as `Escape` or `ArrowDown`; `text` is what it types."""
        code = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}.get(key, ord(key[0].upper()))
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.send("Input.dispatchKeyEvent", **down, key=key, windowsVirtualKeyCode=code)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settle()

    def picture(self, path: Path) -> None:
        """What is seen, as PNG."""
        self.settle()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def first_paint(self) -> float:
        """Milliseconds from the start of loading to the first contents on the screen."""
        self.settle()
        paints = "performance.getEntriesByType('paint')"
        self.wait(f"{paints}.length")
        return self.value(f"{paints}.find(one => one.name === 'first-contentful-paint').startTime")

    def complaints(self) -> list[str]:
        """Of the console, of uncaught errors, and of the policy."""
        return [
            json.dumps(event["params"])
            for event in self._events()
            if event["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        ]

    def requests(self) -> list[str]:
        """Addresses beyond the page's own."""
        own = re.sub(r"[^/]*$", "", self._address)
        asked = [e["params"]["request"]["url"] for e in self._events() if e["method"] == "Network.requestWillBeSent"]
        return [one for one in asked if one != self._address and not (own.startswith("http") and one.startswith(own))]

    def _events(self) -> list[dict[str, Any]]:
        return [event for event in self._browser.events if event.get("sessionId") == self._session]


@contextlib.contextmanager
def browser() -> Generator[Browser]:
    """A Chromium with a folder of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = Browser(Path(folder))
        try:
            yield found
        finally:
            found.close()
