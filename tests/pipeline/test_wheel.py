"""What the wheel promises: these three names at its top level, a command and a loader that work."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_wheel_installed_elsewhere_runs_the_command_and_the_loader(
    reference: Path, tmp_path: Path
) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"shardmill.py", "stages", "pipeline"}
    assert "pipeline/report/report.html.j2" in names
    assert not [name for name in names if name.startswith("tests") or name.endswith(".toml")]
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    code = (
        "import sys, shardmill, stages; assert stages.__file__.startswith(sys.argv[2]), stages\n"
        "rows = shardmill.open_dataset(sys.argv[1])\n"
        "print(len(rows), rows[0]['labels'].dtype)"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    loaded = subprocess.run(
        [sys.executable, "-c", code, str(reference / "datasets" / "clm"), str(site)],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert loaded.stdout.split()[1] == "int64"
    command = subprocess.run(
        [sys.executable, str(site / "bin" / "shardmill"), "status", str(reference)],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "shard-clm" in command.stdout


def test_a_stranger_named_stages_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "__init__.py").write_text('"""Someone else\'s stages."""')
    (tmp_path / "shardmill.py").write_text((ROOT / "shardmill.py").read_text())
    result = subprocess.run(
        [sys.executable, "-c", "import shardmill"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "another package named 'stages' shadows Shardmill's" in result.stderr
