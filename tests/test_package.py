"""What importing costs, and that the package is whole when it is installed, as a wheel and in place."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import rcp_irx

ROOT = Path(__file__).parents[1]


def python(code, executable=sys.executable, **options):
    done = subprocess.run([str(executable), "-c", code], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.quick
def test_importing_loads_nothing_heavy_and_registers_the_measure():
    heavy = ["numpy", "scipy", "pandas", "ir_datasets", "pyterrier", "ranx", "mteb", "torch", "openai"]
    code = f"""
import json, sys
import rcp_irx
import ir_measures
print(json.dumps([[m for m in {heavy} if m in sys.modules], str(ir_measures.parse_measure("RCPnDCG@10"))]))
"""
    assert json.loads(python(code, cwd=ROOT)) == [[], "RCPnDCG@10"]


@pytest.mark.quick
@pytest.mark.parametrize("name", rcp_irx.__all__)
def test_every_public_name_is_there_and_documented(name):
    if name in ("RCPJudge", "RRFPool"):
        pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    value = getattr(rcp_irx, name)
    assert name == "__version__" or value.__doc__


@pytest.mark.quick
def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rcp_irx.nothing  # noqa: B018


@pytest.mark.quick
def test_a_missing_extra_names_the_line_that_installs_it():
    code = """
import sys
sys.modules["pyterrier"] = None
import rcp_irx
try:
    rcp_irx.RCPJudge
except ImportError as error:
    print(error)
"""
    assert python(code, cwd=ROOT) == "pyterrier is not installed; run: pip install 'rcp-irx[pyterrier]'"


INSTALLED = """
import rcp_irx, rcp_irx.demo, pathlib
from rcp_irx import Rubric
print(len(Rubric.load()), len(rcp_irx.demo.documents()), pathlib.Path(rcp_irx.__file__).parent)
"""


@pytest.mark.parametrize("how", ["wheel", "editable"])
def test_prompts_and_demo_are_there_once_installed(tmp_path, how):
    """Dependencies come from the running environment; the package itself only from the new one."""
    pytest.importorskip("build", reason="the package 'build' is not installed")
    builder = venv.EnvBuilder(with_pip=True, symlinks=True)
    builder.create(tmp_path / "env")
    executable = tmp_path / "env" / "bin" / "python"
    source = tmp_path / "source"
    source.mkdir()
    for name in ["rcp_irx", "prompts"]:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ["setup.cfg", "pyproject.toml", "README.md", "LICENSE"]:
        shutil.copy(ROOT / name, source)
    if how == "wheel":
        subprocess.run(
            [sys.executable, "-m", "build", "-q", "-w", "-o", str(tmp_path / "dist"), str(source)],
            check=True,
            capture_output=True,
        )
        what = [str(next((tmp_path / "dist").glob("*.whl")))]
    else:
        what = ["-e", str(source)]
    subprocess.run([str(executable), "-m", "pip", "install", "-q", "--no-deps", *what], check=True, capture_output=True)
    site = [path for path in sys.path if path.endswith("site-packages")]
    (
        tmp_path / "env" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "zz.pth"
    ).write_text("\n".join(site))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    criteria, documents, place = python(INSTALLED, executable, cwd=tmp_path, env=environment).split()
    assert (criteria, int(documents) >= 8 * 15) == ("5", True)
    assert Path(place).is_relative_to(source if how == "editable" else tmp_path / "env")


def test_every_package_is_installed():
    root = Path(rcp_irx.__file__).parent
    folders = {path.parent.relative_to(root.parent).as_posix().replace("/", ".") for path in root.rglob("__init__.py")}
    settings = configparser.ConfigParser()
    settings.read(root.parent / "setup.cfg")
    assert set(settings["options"]["packages"].split()) == {*folders, "rcp_irx.prompts"}
