"""Scripts run in this process as Python would run them."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import pytest

from whale.errors import PlanError, SetupError, Site
from whale.runtime import launch


def write(folder: pathlib.Path, text: str, name: str = "script.py") -> str:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return str(path)


def run(path: str, *arguments: str, is_module: bool = False) -> int | str | None:
    """The status a command ends with; None when it just ends."""
    with launch.preserved_interpreter():
        try:
            launch.run(launch.Command(path, arguments, is_module))
        except SystemExit as end:
            return end.code
    return None


FACTS = """
    import json, sys
    main = sys.modules["__main__"]
    print(json.dumps([
        sys.argv, sys.path[0], __file__, __name__, __package__, str(__spec__), __doc__, main.__dict__ is globals(),
        sorted(name for name in globals() if name.startswith("__")), __builtins__.__name__, __loader__.name,
    ]))
"""


def test_a_script_sees_what_python_shows_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, '"""A script."""' + textwrap.dedent(FACTS))
    monkeypatch.chdir(tmp_path)
    plain = subprocess.run(
        [sys.executable, "script.py", "--n", "3", "--", "-x"], capture_output=True, text=True, check=True
    )
    assert run("script.py", "--n", "3", "--", "-x") is None
    assert capsys.readouterr().out == plain.stdout


def test_a_module_sees_what_python_shows_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "import sys\nprint(sys.argv, sys.path[0], __name__, __spec__.name)", "some_module.py")
    monkeypatch.chdir(tmp_path)
    plain = subprocess.run([sys.executable, "-m", "some_module", "-a"], capture_output=True, text=True, check=True)
    assert run("some_module", "-a", is_module=True) is None
    assert capsys.readouterr().out == plain.stdout


@pytest.mark.parametrize("name", ["no_such_module", "no_such_package.module"])
def test_a_missing_module_is_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, is_module=True) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"whale: cannot run the module '{name}': ") and "No module named" in told and "fix: " in told


def test_a_module_that_imports_a_missing_one_shows_its_own_traceback(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "import no_such_module", "module_with_import.py")
    monkeypatch.chdir(tmp_path)
    assert run("module_with_import", is_module=True) == 1
    assert f'File "{path}", line 1, in <module>' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import sys; sys.exit()", None),
        ("import sys; sys.exit(0)", 0),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('reason')", "reason"),
        ("raise SystemExit(3)", 3),
        ("1 / 0", 1),
        ("raise KeyboardInterrupt", 130),
        ("x = 1", None),
    ],
)
def test_exit_status_is_the_scripts(tmp_path: pathlib.Path, text: str, status: int | str | None) -> None:
    assert run(write(tmp_path, text)) == status


@pytest.mark.parametrize(
    "text",
    [
        "def outer():\n    inner()\ndef inner():\n    raise ValueError('mine')\nouter()",
        "try:\n    {}['x']\nexcept KeyError as error:\n    raise RuntimeError('second') from error",
        "try:\n    1 / 0\nfinally:\n    [][1]",
        "x = (1,\n",
        "import json\njson.loads('{')",
    ],
)
def test_a_traceback_is_the_one_python_prints(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = write(tmp_path, text)
    plain = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert run(path) == 1 == plain.returncode
    assert capsys.readouterr().err == plain.stderr


def test_errors_of_whale_are_one_message_with_the_users_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "from whale.errors import PlanError\n\nraise PlanError('too large', fix='cut it')\n")
    assert run(path) == 2
    assert capsys.readouterr().err == f"whale: too large\n  at {path}:3\n  fix: cut it\n"


def test_an_error_with_a_place_keeps_it(capsys: pytest.CaptureFixture[str]) -> None:
    launch.print_error(PlanError("too large", site=Site("a.py", 1)), Site("b.py", 2))
    assert capsys.readouterr().err == "whale: too large\n  at a.py:1\n"


def test_a_script_does_not_inherit_our_future_imports(tmp_path: pathlib.Path) -> None:
    text = "def f(x: int): pass\nassert f.__annotations__ == {'x': int}\n"
    assert run(write(tmp_path, text)) is None


def test_a_missing_script_is_named() -> None:
    with pytest.raises(SetupError, match=r"no_such\.py"):
        launch.Command("no_such.py").source()
    assert run("no_such.py") == 2


def test_the_interpreter_is_restored(tmp_path: pathlib.Path) -> None:
    before = sys.argv[:], sys.path[:], sys.modules["__main__"]
    run(write(tmp_path, "import sys; sys.argv.append('x'); sys.path.insert(0, 'y')"))
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
