"""A WebDriver client of one page: what the tests of the pages need of the W3C protocol, and Chromium's two extensions."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that names an element, fixed by the standard
ENTER = "\ue007"
TAB = "\ue004"


class Missing(Exception):
    """Chromium or its driver is not installed."""


class Browser:
    """Headless Chromium with a fresh profile; a context manager."""

    def __init__(self):
        driver = shutil.which("chromedriver")
        if not driver or not shutil.which("chromium"):
            raise Missing("`chromium` and `chromedriver` are needed: `apt-get install chromium chromium-driver`")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.address = f"http://127.0.0.1:{port}"
        self.session = ""
        try:
            wait(lambda: self.call("GET", "/status")["ready"], 20, "chromedriver to start")
            # Root cannot use the sandbox; containers have a small /dev/shm. Background traffic of the browser is off.
            arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"]
            answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "unhandledPromptBehavior": "ignore",  # a dialog must be seen by the test, not dismissed
                "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": arguments},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }}})
            self.session = f"/session/{answer['sessionId']}"
        except BaseException:
            self.driver.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)

    def call(self, method, path, body=None):
        data = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.address + self.session + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message']}") from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def url(self):
        return self.call("GET", "/url")

    def back(self):
        self.call("POST", "/back")

    def forward(self):
        self.call("POST", "/forward")

    def reload(self):
        self.call("POST", "/refresh")

    def run(self, script, *arguments):
        """Runs the body of a function in the page; it may return a promise."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click")

    def type(self, selector, text):
        element = self.find(selector)
        self.call("POST", f"/element/{element}/clear")
        self.call("POST", f"/element/{element}/value", {"text": text})

    def press(self, key):
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def visible(self, selector):
        return self.run("const e = document.querySelector(arguments[0]); return !!e && e.getClientRects().length > 0", selector)

    def dialog(self):
        """The text of an open dialog, or None."""
        try:
            return self.call("GET", "/alert/text")
        except RuntimeError as error:
            if "no such alert" in str(error):
                return None
            raise

    def log(self, kind):
        """Takes what was logged since the last call: `browser` (console) or `performance` (network events)."""
        return self.call("POST", "/se/log", {"type": kind})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width=1100, height=900, dark=False):
        """The window's size in CSS pixels, and the colour scheme."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def screenshot(self):
        """The window as base64 PNG."""
        return self.call("GET", "/screenshot")


def wait(condition, seconds, what):
    """Waits until `condition()` is true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except OSError:
            pass
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for {what}")
        time.sleep(0.03)
