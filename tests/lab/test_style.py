"""Contrast and colour-blind distance of the palette; the same picture is the same file."""

import io
import itertools

import matplotlib
import numpy as np
import pytest

from arl_mini.lab import curves, style

# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    code = np.array([int(colour[i:i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab_of(rgb):
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("paper", ["#ffffff", "#111111"])
def test_every_colour_reads_on_light_and_dark(paper):
    assert min(contrast(colour, paper) for colour in style.COLOURS) >= 3.0
    assert contrast(style.GREY, paper) >= 4.3


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_differ_for_colour_blind_eyes(sight):
    seen = [lab_of(np.array(SIGHT[sight]) @ linear(colour)) for colour in style.COLOURS]
    nearest = {n: min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen[:n], 2)) for n in (4, 5)}
    assert nearest[4] >= 16
    assert nearest[5] >= 10


def test_lines_differ_without_colour_too():
    assert len(set(style.DASHES)) == len(style.COLOURS)


def picture():
    ax = curves({"a": [{"step": i, "success": i / 9} for i in range(10)], "b": [{"step": 1, "success": 0.2}]})
    file = io.StringIO()
    with style.context():
        ax.figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    matplotlib.pyplot.close(ax.figure)
    return file.getvalue()


def test_same_data_gives_the_same_file_without_a_date():
    one = picture()
    assert one == picture()
    assert "dc:date" not in one
    assert ">success (share of episodes)<" in one  # text stays text


def test_context_leaves_settings_as_they_were():
    before = dict(matplotlib.rcParams)
    with style.context():
        assert matplotlib.rcParams["svg.hashsalt"] == "arl_mini"
    assert dict(matplotlib.rcParams) == before
