"""A real browser for the tests of the report, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium with a fresh profile; the test is skipped where there is none."""
    browser = next((path for name in NAMES if (path := shutil.which(name))), None)
    driver_path = shutil.which("chromedriver")
    if browser is None or driver_path is None:
        pytest.skip(
            "no browser: install Chromium and its driver (Debian: apt-get install chromium chromium-driver) "
            "to test the report in one"
        )
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    try:
        yield driver
    finally:
        driver.quit()
