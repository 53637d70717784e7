# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""A headless Chromium, driven by the DevTools protocol over two pipes: no packages but Python's own."""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time


def program():
    """The path of Chromium, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def high_pipe():
    """A pipe whose numbers do not collide with those that Chromium expects."""
    pair = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in pair]
    for fd in pair:
        os.close(fd)
    return high


class Browser:
    """One page. `problems` collects its errors."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="shardwise-browser-")
        theirs_in, ours_out = high_pipe()
        ours_in, theirs_out = high_pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir=" + self.folder]
        # Chromium reads from 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "$@" 3<&%d 4>&%d' % (theirs_in, theirs_out), "bash", program(), *options],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output, self.pending, self.number = ours_in, ours_out, b"", 0
        self.session, self.problems, self.loaded = None, [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, seconds=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        return self.until(lambda message: message.get("id") == self.number, seconds, method)

    def until(self, wanted, seconds, what):
        end = time.monotonic() + seconds
        while True:
            message = self.receive(end, what)
            event, details = message.get("method"), message.get("params", {})
            if event == "Runtime.exceptionThrown":
                self.problems.append(details["exceptionDetails"].get("exception", {}).get("description", str(details)))
            if event == "Log.entryAdded" and details["entry"]["level"] == "error":
                self.problems.append(details["entry"]["text"])
            self.loaded = self.loaded or event == "Page.loadEventFired"
            if wanted(message):
                if "error" in message:
                    raise RuntimeError("%s: %s" % (what, message["error"]))
                return message.get("result")

    def receive(self, end, what):
        while b"\0" not in self.pending:
            if not select.select([self.input], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(what)
            more = os.read(self.input, 1 << 20)
            if not more:
                raise RuntimeError("Chromium ended")
            self.pending += more
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def look(self, width, height=900, scale=1, dark=False):
        """The size of the window, and the preferred colors."""
        self.size = {"width": width, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", height=height, **self.size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, file, seconds=120):
        self.loaded = False
        self.call("Page.navigate", seconds, url=pathlib.Path(file).resolve().as_uri())
        if not self.loaded:
            self.until(lambda message: message.get("method") == "Page.loadEventFired", seconds, "opening " + str(file))
        self.frame()

    def run(self, script):
        """The value of an expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", script))
        return result["result"].get("value")

    def frame(self):
        """Waits until what is due is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type="mouse" + kind, x=x, y=y, **more)
        self.frame()

    def picture(self, file):
        """The whole page, as PNG or WebP."""
        height = self.run("Math.ceil(document.documentElement.getBoundingClientRect().height)")
        self.call("Emulation.setDeviceMetricsOverride", height=height, **self.size)
        self.frame()
        form = pathlib.Path(file).suffix[1:]
        data = self.call("Page.captureScreenshot", format=form, **({"quality": 80} if form == "webp" else {}))["data"]
        pathlib.Path(file).write_bytes(base64.b64decode(data))
