"""Chromium without a window, for tests: opens a page of this machine, presses keys, clicks, and
reads values.

Selenium drives it. The network is off: names resolve to nothing, and everything else goes to a
proxy that does not exist.
"""

import os
import pathlib
import shutil
import tempfile

try:
    from selenium import webdriver
    from selenium.common.exceptions import (
        JavascriptException,
        NoSuchElementException,
        TimeoutException,
        WebDriverException,
    )
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
DRIVERS = ("chromedriver", "chromium.chromedriver")
INSTALL = "apt install python3-selenium chromium-driver"
FLAGS = (
    "--headless",
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
SECONDS = 60  # that a page may take for anything


class PageError(Exception):
    """The page is not as it should be: a script failed, an element is missing, something never
    came."""


class NoBrowser(Exception):
    """The browser could not be started or did not answer. Takes the place of Selenium's error where
    that is missing."""


BrowserError = WebDriverException if webdriver else NoBrowser


def first_of(names):
    """The path of the first of these programs that is installed, or None."""
    return next(filter(None, map(shutil.which, filter(None, names))), None)


def missing():
    """What this machine lacks, in words, or None when nothing is missing. CHROME and CHROMEDRIVER
    in the environment come first."""
    if webdriver is None:
        return f"this Python has no Selenium ({INSTALL})"
    if first_of((os.environ.get("CHROME"), *BROWSERS, MAC)) is None:
        return f"there is no Chromium ({INSTALL})"
    if first_of((os.environ.get("CHROMEDRIVER"), *DRIVERS)) is None:
        return f"there is no chromedriver ({INSTALL})"
    return None


class Browser:
    """A browser with one page. Use with `with`.

    size      width and height of the window in pixels
    reduced   tells the page that its reader wants no motion
    dark      tells the page that its reader likes dark pages
    """

    def __init__(self, size=(1400, 900), reduced=False, dark=False):
        self.profile = tempfile.mkdtemp(prefix="browser.")
        options = webdriver.ChromeOptions()
        options.binary_location = first_of((os.environ.get("CHROME"), *BROWSERS, MAC))
        for flag in FLAGS:
            options.add_argument(flag)
        if hasattr(os, "getuid") and os.getuid() == 0:
            options.add_argument(
                "--no-sandbox"
            )  # Chromium's sandbox refuses root; the pages are our own
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = Service(
            first_of((os.environ.get("CHROMEDRIVER"), *DRIVERS)),
            env={**os.environ, "HOME": self.profile, "TMPDIR": self.profile},
        )
        self.driver = None
        try:
            self.driver = webdriver.Chrome(service=service, options=options)
            self.driver.set_page_load_timeout(SECONDS)
            self.driver.set_script_timeout(5 * SECONDS)  # axe, on a machine that is busy
            self.size(*size)
            self.look(dark, reduced)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the browser."""
        if self.driver:
            self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)  # it may still be writing

    def size(self, width, height):
        """Gives the window this size in pixels; a narrow one is a phone's."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700},
        )

    def look(self, dark, reduced=False, paper=False):
        """Tells the page what its reader likes, and whether it is printed."""
        features = {
            "prefers-reduced-motion": "reduce" if reduced else "no-preference",
            "prefers-color-scheme": "dark" if dark else "light",
        }
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {
                "media": "print" if paper else "",
                "features": [{"name": name, "value": value} for name, value in features.items()],
            },
        )

    def open(self, path, anchor=""):
        """Opens a file and waits until it is loaded."""
        self.driver.get_log("browser")  # of the page before
        self.driver.get(pathlib.Path(path).resolve().as_uri() + anchor)

    def value(self, expression):
        """The value of an expression of JavaScript."""
        try:
            return self.driver.execute_script(f"return ({expression})")
        except JavascriptException as error:
            raise PageError(f"{expression}: {error.msg}") from error

    def until(self, expression, seconds=SECONDS):
        """Waits until an expression is true."""
        try:
            WebDriverWait(self.driver, seconds, 0.05).until(lambda _: self.value(expression))
        except TimeoutException as error:
            raise PageError(f"this never became true: {expression}") from error

    def press(self, key):
        """Presses a key: a character, or one by its name, as in ArrowLeft, Home, Tab."""
        names = {"ArrowLeft": "LEFT", "ArrowRight": "RIGHT", "ArrowUp": "UP", "ArrowDown": "DOWN"}
        code = key if len(key) == 1 else getattr(Keys, names.get(key, key.upper()))
        webdriver.ActionChains(self.driver).send_keys(code).perform()

    def click(self, selector):
        """Clicks on the middle of an element, scrolled into view. What covers it gets the click."""
        centre = '{block: "center", inline: "center", behavior: "instant"}'
        try:
            element = self.driver.find_element(By.CSS_SELECTOR, selector)
        except NoSuchElementException as error:
            raise PageError(f"{selector} is not on the page") from error
        self.driver.execute_script(f"arguments[0].scrollIntoView({centre})", element)
        if not element.size["width"] * element.size["height"]:
            raise PageError(f"{selector} cannot be seen")
        webdriver.ActionChains(self.driver, duration=0).move_to_element(element).click().perform()

    def faults(self):
        """What went wrong in the page since it was opened: exceptions, errors, files not found."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE"
        ]
