"""What the images and the compose file promise.

Both images are built from this repository's files and its constraints and do not run as root. The
compose file shares one folder under one path, lets nobody in from outside, and holds no secret.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # PyYAML ships no types

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
COMPOSE = DOCKER / "compose.yaml"
IMAGES = sorted(DOCKER.glob("Dockerfile*"))
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
TEXTS = [path for path in sorted(DOCKER.rglob("*")) if path.is_file()]

image = pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.name)
service = pytest.mark.parametrize("name", SERVICES)


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile: lines joined, comments left out."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines) if name]


def found(path: Path, name: str) -> list[str]:
    """Return what follows each instruction of this name."""
    return [rest for instruction, rest in instructions(path) if instruction == name]


def tool(*arguments: str | Path) -> str:
    """Run a tool of this environment over files; give what it says if it is not content."""
    command = [str(argument) for argument in arguments]
    command[0] = str(Path(sys.executable).parent / command[0])
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = done.stdout + done.stderr
    assert (done.returncode != 0) or not done.stderr, said
    return said if done.returncode else ""


def lint(path: Path) -> str:
    """Return what hadolint says of a Dockerfile, or yamllint and the schema of a compose file."""
    if path.suffix != ".yaml":
        return tool("hadolint", path)
    schema = ("check-jsonschema", "--builtin-schema", "vendor.compose-spec")
    return tool("yamllint", "--strict", path) + tool(*schema, path)


def test_there_is_an_image_for_cpu_and_one_for_gpu() -> None:
    assert [path.name for path in IMAGES] == ["Dockerfile", "Dockerfile.gpu"]
    assert set(SERVICES) == {"head", "worker", "gpu-worker", "run"}


@pytest.mark.parametrize("path", [*IMAGES, COMPOSE], ids=lambda path: path.name)
def test_the_linters_find_nothing(path: Path) -> None:
    assert lint(path) == ""


@pytest.mark.parametrize(
    ("path", "right", "wrong", "named"),
    [
        (IMAGES[0], "USER 10001:10001", "USER root", "DL3002"),
        (IMAGES[0], "WORKDIR /src", "WORKDIR src", "DL3000"),
        (COMPOSE, "mem_limit:", "mem_limits:", "mem_limits"),
        (COMPOSE, "---\n", "", "document start"),
    ],
)
def test_the_linters_find_what_is_wrong(
    path: Path, right: str, wrong: str, named: str, tmp_path: Path
) -> None:
    text = path.read_text(encoding="utf-8")
    assert right in text
    changed = tmp_path / path.name
    changed.write_text(text.replace(right, wrong), encoding="utf-8")
    assert named in lint(changed)


@image
def test_what_an_image_copies_is_in_the_repository_and_let_through(path: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    sources = [
        source
        for rest in found(path, "COPY")
        if not rest.startswith("--from=")
        for source in rest.split()[:-1]
    ]
    assert {"constraints.txt", "pyproject.toml", "pipeline", "stages"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source


@image
def test_every_package_of_an_image_comes_under_the_constraints(path: Path) -> None:
    installs = [
        command for run in found(path, "RUN") for command in run.split("&&") if "pip install" in command
    ]
    assert len(installs) == 2
    assert all("--constraint constraints.txt" in install for install in installs)
    assert installs[-1].strip().endswith("'.[run]' 'ray[default]'")  # KubeRay asks for its dashboard


@image
def test_an_image_runs_the_program_as_a_fixed_user_who_is_not_root(path: Path) -> None:
    stage = [index for index, (name, _) in enumerate(instructions(path)) if name == "FROM"][-1]
    last = instructions(path)[stage:]
    assert [rest for name, rest in last if name == "USER"] == ["10001:10001"]
    assert "--uid 10001 --gid 10001" in "".join(rest for name, rest in last if name == "RUN")
    assert ("ENTRYPOINT", '["shardmill"]') in last
    assert "NUMBA_CACHE_DIR=/tmp/" in "".join(rest for name, rest in last if name == "ENV")


def test_versions_agree_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    rays = [constraints]
    pythons = set()
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        rays.append(text)
        pythons |= set(re.findall(r"python:(\S+?)[\s`]", text))
    versions = [
        v for text in rays for v in re.findall(r"\bray(?:==| )(\d+\.\d+\.\d+)", text, re.IGNORECASE)
    ]
    assert len(versions) > 1
    assert len(set(versions)) == 1
    assert pythons == {"3.11-slim-bookworm"}
    labels = [label for path in IMAGES for label in found(path, "LABEL")]
    assert len(labels) == len(IMAGES)
    assert all(f'image.version="{project["version"]}"' in label for label in labels)


@service
def test_nothing_is_published_beyond_this_machine(name: str) -> None:
    ports = SERVICES[name].get("ports", [])
    assert all(str(port).startswith("127.0.0.1:") for port in ports)
    assert "network_mode" not in SERVICES[name]
    assert SERVICES[name]["networks"] == ["cluster"]
    networks = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["networks"]
    assert networks["cluster"]["internal"] is True


@service
def test_every_node_sees_the_shared_folder_under_one_path(name: str) -> None:
    (volume,) = SERVICES[name]["volumes"]
    assert volume == SERVICES["head"]["volumes"][0]
    assert volume["target"] == "/data"


@service
def test_every_node_asks_for_the_token_and_reads_it_from_the_secret(name: str) -> None:
    environment = SERVICES[name]["environment"]
    assert environment["RAY_AUTH_MODE"] == "token"
    assert SERVICES[name]["secrets"] == ["ray_token"]
    assert environment["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray_token"  # noqa: S105  # a path


@service
def test_every_node_has_bounds_and_no_privileges(name: str) -> None:
    node = SERVICES[name]
    assert node["cap_drop"] == ["ALL"]
    assert node["security_opt"] == ["no-new-privileges:true"]
    assert node["init"] is True
    assert node["pull_policy"] == "never"
    assert re.search(r":-10001\}:.*:-10001\}", node["user"])
    for key in ("mem_limit", "shm_size", "cpus"):
        assert key in node


def test_commands_can_be_pasted_and_prepare_the_folder_of_a_run(tmp_path: Path) -> None:
    page = (DOCKER / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = re.sub(r"^(?:\$| ) ", "", "".join(blocks), flags=re.MULTILINE)
    assert len(blocks) >= 4
    assert "..." not in script
    subprocess.run(["/bin/bash", "-nc", script], check=True)
    for name in re.findall(r"docker/[\w.]+|examples/[\w./]+", script):
        assert (ROOT / name).exists(), name
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    prepare = next(line for line in script.splitlines() if line.startswith("mkdir"))
    subprocess.run(["/bin/bash", "-euc", f"{prepare}; {prepare}"], cwd=tmp_path, check=True)
    run = tomllib.loads((tmp_path / "data" / "run.toml").read_text(encoding="utf-8"))
    for pattern in [path for source in run["sources"] for path in source["paths"]]:
        assert list((tmp_path / "data").glob(pattern)), pattern


def test_no_secret_stands_in_a_file() -> None:
    secrets = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["secrets"]
    assert secrets == {"ray_token": {"file": secrets["ray_token"]["file"]}}
    assert secrets["ray_token"]["file"].startswith("${SHARDMILL_TOKEN_FILE:?")
    assert len(TEXTS) >= 4
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bRAY_AUTH_TOKEN\s*[:=]", text), path
        assert not re.search(r"\b[0-9a-f]{32,}\b", text), path
