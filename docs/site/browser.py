"""Chromium without a window, for tests: opens a page of this machine, presses keys, clicks, and reads values.

Needs Python's standard library only. It speaks the Chrome DevTools Protocol over two pipes
(--remote-debugging-pipe): JSON messages, each ended by a zero byte, in on descriptor 3 and out on 4.
The network is off: names resolve to nothing, and all else goes to a proxy that nobody serves.
"""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    "--proxy-server=127.0.0.1:9",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
KEYS = {  # name -> (Windows virtual key, text)
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "End": (35, ""),
    "Home": (36, ""),
    "Tab": (9, ""),
    " ": (32, " "),
}


class BrowserError(Exception):
    """The browser did not do what it was asked to."""


class PageError(BrowserError):
    """The page is not as it should be: a script failed, an element is missing, something never came."""


def find():
    """The path of a browser, or None. CHROME in the environment comes first."""
    for name in (os.environ.get("CHROME"), *NAMES, MAC):
        path = name and shutil.which(name)
        if path:
            return path
    return None


class Browser:
    """A browser with one page. Use with `with`.

    size      width and height of the window in pixels
    reduced   tells the page that its reader wants no motion
    dark      tells the page that its reader likes dark pages
    """

    def __init__(self, program, size=(1400, 900), reduced=False, dark=False, patience=60.0):
        self.patience, self.next_id, self.session = patience, 0, None
        self.unread, self.events = b"", []
        self.profile = tempfile.mkdtemp(prefix="browser.")
        theirs_in, self.out = os.pipe()
        self.source, theirs_out = os.pipe()
        command = [program, *FLAGS, f"--user-data-dir={self.profile}"]
        if hasattr(os, "getuid") and os.getuid() == 0:
            command.append("--no-sandbox")  # Chromium's sandbox refuses root; the pages are our own
        # The shell puts the pipes where Chromium looks for them.
        self.log = open(pathlib.Path(self.profile, "log.txt"), "w+b")
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "sh", *command],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "HOME": self.profile, "TMPDIR": self.profile},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(domain + ".enable")
            width, height = size
            self.call(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=height,
                deviceScaleFactor=1,
                mobile=width < 768,
            )
            self.call(
                "Emulation.setEmulatedMedia",
                features=[
                    {
                        "name": "prefers-reduced-motion",
                        "value": "reduce" if reduced else "no-preference",
                    },
                    {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                ],
            )
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the browser."""
        for descriptor in (self.out, self.source):
            try:
                os.close(descriptor)
            except OSError:
                pass
        try:
            self.process.wait(timeout=5)  # it ends when its pipe does
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)  # it may still be writing

    # ------------------------------------------------------------ the protocol

    def message(self, deadline):
        """The next message of the browser."""
        while b"\0" not in self.unread:
            left = deadline - time.monotonic()
            ready = left > 0 and select.select([self.source], [], [], left)[0]
            chunk = os.read(self.source, 1 << 16) if ready else b""
            if not chunk:
                self.log.seek(0)
                said = self.log.read().decode("utf-8", "replace").strip().splitlines()
                raise BrowserError(
                    ("the browser ended" if ready else f"no answer within {self.patience:g} s")
                    + (": " + " / ".join(said[-3:]) if said else "")
                )
            self.unread += chunk
        text, self.unread = self.unread.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        """Calls a method of the protocol and returns its result."""
        self.next_id += 1
        request = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        deadline = time.monotonic() + self.patience
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    # ------------------------------------------------------------ what a reader does

    def open(self, path, anchor=""):
        """Opens a file and waits until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri() + anchor)
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def value(self, expression):
        """The value of an expression of JavaScript, as JSON has it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            said = details.get("exception", {}).get("description", details["text"])
            raise PageError(f"{expression}: {said}")
        return result["result"].get("value")

    def until(self, expression, seconds=None):
        """Waits until an expression is true."""
        deadline = time.monotonic() + (seconds or self.patience)
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise PageError(f"this never became true: {expression}")
            time.sleep(0.05)

    def press(self, key):
        """Presses a key."""
        code, text = KEYS[key]
        name = "Space" if key == " " else key
        common = {"key": key, "code": name, "windowsVirtualKeyCode": code}
        down = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector):
        """Clicks on the middle of an element, scrolled into view. What covers it gets the click."""
        where = self.value(
            f"""(() => {{
                const at = document.querySelector({json.dumps(selector)});
                if (!at) return null;
                at.scrollIntoView({{block: "center", inline: "center", behavior: "instant"}});
                const box = at.getBoundingClientRect();
                return [box.left + box.width / 2, box.top + box.height / 2, box.width * box.height];
            }})()"""
        )
        if not where or not where[2]:
            raise PageError(f"{selector} is not on the page, or cannot be seen")
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=where[0],
                y=where[1],
                button="left",
                clickCount=1,
            )

    def faults(self):
        """What went wrong in the page since it was opened: exceptions, errors, files not found."""
        self.value("0")  # what has happened by now has been reported
        found, requests = [], {}
        for event in self.events:
            name, params = event["method"], event["params"]
            if name == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif name == "Runtime.consoleAPICalled" and params["type"] == "error":
                found.append(" ".join(str(a.get("value", a)) for a in params["args"]))
            elif name == "Network.requestWillBeSent":
                requests[params["requestId"]] = params["request"]["url"]
            elif name == "Network.loadingFailed" and not params.get("canceled"):
                url = requests.get(params["requestId"], "something")
                found.append(f"{url}: {params['errorText']}")
        return found

    def screenshot(self, path, whole=False):
        """Writes what is seen, or the whole page, as a PNG file."""
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(image["data"]))
