"""A real JupyterLab and a real Chromium for the widget tests; skipped with a word where one is missing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("ARL_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update"]


IDLE = """() => {
  const panel = window.jupyterapp?.shell?.currentWidget;
  return panel?.sessionContext?.session?.kernel?.status === 'idle';
}"""
# A cell that has been asked to run shows [*] until it is done.
QUIET = """() => [...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')]
  .every(prompt => !prompt.textContent.includes('*'))"""
SETTINGS = {"fetchNews": "false", "checkForUpdates": False}


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser tests")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no Chromium at {CHROMIUM}: no browser tests (install it, or set ARL_CHROMIUM)")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory):
    """Address and notebook folder of a JupyterLab of its own, with a copy of the built notebooks."""
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: no browser tests")
    base = tmp_path_factory.mktemp("lab")
    folder = base / "notebooks"
    folder.mkdir()
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(notebook, folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = base / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text(json.dumps(SETTINGS))
    log = (base / "server.log").open("w")
    server = subprocess.Popen(_command(port, folder), env=_environment(base), cwd=base, stdout=log,
                              stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_up(address, server, base / "server.log")
        yield address, folder
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


def _command(port: int, folder: Path) -> list[str]:
    return [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}", "--IdentityProvider.token=",
            "--ServerApp.disable_check_xsrf=True", "--LabApp.expose_app_in_browser=True",
            f"--LabApp.user_settings_dir={folder.parent / 'settings'}",
            f"--LabApp.workspaces_dir={folder.parent / 'workspaces'}"]


def _environment(base: Path) -> dict[str, str]:
    places = {f"JUPYTER_{kind}_DIR": str(base / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")}
    clear = {k: v for k, v in os.environ.items() if k not in ("ARL_STATIC", "ARL_BUDGET")}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**clear, **places, "IPYTHONDIR": str(base / "ipython"), "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1"}


def _wait_until_up(address: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(300):
        if server.poll() is not None:
            pytest.fail(f"JupyterLab ended with code {server.returncode}:\n{log.read_text()[-3000:]}")
        try:
            urllib.request.urlopen(f"{address}/api", timeout=1).read()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not answer in 60 s:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory):
    """Where the pictures go: ARL_SCREENSHOTS, or a temporary folder."""
    folder = Path(os.environ.get("ARL_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def open_notebook(browser, lab_server):
    """Open a notebook: `open_notebook("00_start_here.ipynb")`, or one made of `cells` under that name."""
    address, folder = lab_server
    pages = []

    def open_one(name: str, cells: list[str] | None = None, dark: bool = False) -> NotebookPage:
        if cells is not None:
            _write_notebook(folder / name, cells)
        pages.append(NotebookPage(browser, address, name, dark))
        return pages[-1]

    yield open_one
    for page in pages:
        page.close()


def _write_notebook(path: Path, cells: list[str]) -> None:
    """A notebook of code cells without outputs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)


class NotebookPage:
    """A page of `browser` showing `name` of the server at `address`; waits until its kernel is idle."""

    def __init__(self, browser: Any, address: str, name: str, dark: bool = False):
        self.page = browser.new_page(viewport={"width": 1100, "height": 1000})
        self.outside: list[str] = []
        self.page.on("request", lambda request: self._note(request.url, address))
        self.page.goto(f"{address}/lab/tree/{name}?reset")
        self.wait(IDLE, 60)
        # The theme is a setting of the server: each page asks for its own.
        self.command("apputils:change-theme", f"{{theme: 'JupyterLab {'Dark' if dark else 'Light'}'}}")
        self.wait(f"() => document.body.dataset.jpThemeLight === '{'false' if dark else 'true'}'", 15)
        self.command("application:toggle-left-area")

    def _note(self, url: str, address: str) -> None:
        inside = (address, address.replace("http", "ws", 1), "data:", "blob:")
        if not url.startswith(inside):
            self.outside.append(url)

    def wait(self, condition: str, seconds: float) -> None:
        """Wait until a JavaScript function returns true."""
        self.page.wait_for_function(condition, timeout=seconds * 1000)

    def command(self, name: str, args: str = "{}") -> None:
        """Run a JupyterLab command, without waiting for what it starts."""
        self.page.evaluate(f"() => {{ window.jupyterapp.commands.execute('{name}', {args}); }}")

    def run_all(self) -> None:
        """Run every cell; returns at once."""
        self.command("runmenu:run-all")

    def wait_until_done(self, seconds: float) -> None:
        """Wait until no cell is running or queued and the kernel is idle."""
        self.wait(QUIET, seconds)
        self.wait(IDLE, seconds)

    def interrupt(self) -> None:
        """Press the interrupt button of the kernel."""
        self.command("notebook:interrupt-kernel")

    def run_cell(self, index: int) -> None:
        """Run cell `index` (0 is the first) as a click and Ctrl-Enter would."""
        notebook = "window.jupyterapp.shell.currentWidget.content"
        self.page.evaluate(f"() => {{ {notebook}.activeCellIndex = {index}; }}")
        self.command("notebook:run-cell")

    def cell_text(self, index: int) -> str:
        """The text of a cell's outputs."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-OutputArea").inner_text()

    def save(self) -> None:
        """Save the notebook and wait for it."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")

    def until(self, read: Callable[[], Any], good: Callable[[Any], bool], seconds: float = 10) -> Any:
        """Read again and again until the value is good; return it. Fails with the last value in time."""
        for _ in range(int(seconds / 0.05)):
            value = read()
            if good(value):
                return value
            self.page.wait_for_timeout(50)
        raise AssertionError(f"still {value!r} after {seconds} s")

    def shot(self, path: Path, what: str) -> None:
        """Save a picture of the page with the element `what` (a CSS selector) at its top."""
        self.page.locator(what).first.evaluate("element => element.scrollIntoView({block: 'start'})")
        self.page.wait_for_timeout(100)
        self.page.screenshot(path=path)

    def close(self) -> None:
        """End the kernel and close the page."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.close()
