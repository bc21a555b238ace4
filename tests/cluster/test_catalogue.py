"""The hardware catalogue and files that extend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale.cluster.catalogue import CATALOGUE, doubtful
from whale.errors import ClusterError


def test_every_value_has_a_known_source() -> None:
    entries = [*CATALOGUE.devices.values(), *CATALOGUE.links.values()]
    used = {value.source for entry in entries for values in entry.figures.values() for value in values}
    assert used <= CATALOGUE.sources.keys()
    assert all(source.licence for source in CATALOGUE.sources.values())


def test_the_catalogue_spans_the_generations() -> None:
    needed = ("CPU", "K80", "P100", "V100", "A100", "H100", "H200", "GH200", "B200", "RTX-2080-Ti", "RTX-4090", "T4")
    assert all(name in CATALOGUE.devices for name in needed)
    v100 = CATALOGUE.device("V100")
    assert v100.number("fp32_flops") == 15.7e12
    assert v100.number("tf32_flops") is None
    assert v100.text("link") == "NVLink-2"


def test_devices_name_links_of_the_catalogue() -> None:
    named = {e.text(f) for e in CATALOGUE.devices.values() for f in ("link", "host_link")} - {""}
    assert named <= CATALOGUE.links.keys()


def test_a_link_reaches_less_than_its_peak() -> None:
    for entry in CATALOGUE.links.values():
        assert 0 < (entry.number("bytes_per_second") or 0) <= (entry.number("peak_bytes_per_second") or 0)


def test_newer_devices_of_a_line_are_faster() -> None:
    line = [CATALOGUE.device(name) for name in ("K80", "P100", "V100", "A100", "H100", "B200")]
    rates = [entry.number("memory_bytes_per_second") or 0 for entry in line]
    assert rates == sorted(rates)


def test_unchecked_values_are_told() -> None:
    assert "P4 fp32_flops" in doubtful(CATALOGUE.devices.values())
    assert "V100 fp32_flops" not in doubtful(CATALOGUE.devices.values())


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(ClusterError, match=r"unknown device model 'H10'\n  fix: did you mean 'H100'"):
        CATALOGUE.device("H10")
    with pytest.raises(ClusterError, match="'NVLink-2'"):
        CATALOGUE.link("NVLink2")


HEADER = "device,figure,value,source,confidence\n"


def extended(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_adds_devices_and_replaces_values(tmp_path: Path) -> None:
    text = HEADER + "X1,kind,GPU,me,read\nX1,fp32_flops,1e12,me,read\nV100,fp32_flops,14e12,me,read\n"
    found = CATALOGUE.extended(extended(tmp_path, text))
    assert found.device("X1").number("fp32_flops") == 1e12
    assert found.device("V100").number("fp32_flops") == 14e12
    assert found.device("V100").number("fp16_flops") == 125e12
    assert "X1" not in CATALOGUE.devices


def test_a_file_adds_links(tmp_path: Path) -> None:
    text = "link,figure,value,source,confidence\nmine,kind,network,me,read\nmine,bytes_per_second,1e9,me,read\n"
    assert CATALOGUE.extended(extended(tmp_path, text)).link("mine").number("bytes_per_second") == 1e9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "its first line must be device,figure,value,source,confidence"),
        (HEADER + "X,fp32_flop,1,me,read\n", "did you mean 'fp32_flops'"),
        (HEADER + "X,fp32_flops,many,me,read\n", "give a positive number"),
        (HEADER + "X,fp32_flops,-1,me,read\n", "give a positive number"),
        (HEADER + "X,fp32_flops,1,me,sure\n", "use one of memory, read"),
        (HEADER + "X,fp32_flops,1,me\n", "4 columns, not 5"),
        (HEADER + "X,fp32_flops,1,me,read\nX,fp32_flops,2,me,read\n", "given twice"),
    ],
)
def test_a_bad_file_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ClusterError, match=r"mine\.csv:") as caught:
        CATALOGUE.extended(extended(tmp_path, text))
    assert message in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot read the catalogue file"):
        CATALOGUE.extended(tmp_path / "none.csv")
