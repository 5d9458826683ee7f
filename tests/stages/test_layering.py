"""What the layers promise.

The pure half knows nothing of Ray, clocks or the pipeline; each library stands where it belongs; what
opens a dataset stays light; no module or function outgrows its cap.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAGES = sorted((ROOT / "stages").rglob("*.py"))
PRODUCT = [*STAGES, *sorted((ROOT / "pipeline").rglob("*.py"))]
OF_PRODUCT = set(PRODUCT)
ALL = [
    ROOT / "shardmill" / "__init__.py",
    *(
        path
        for name in ("stages", "pipeline", "tests", "examples")
        for path in (ROOT / name).rglob("*.py")
    ),
]

HOMES = {
    "torch": {"comparing", "continuing", "loading", "resize", "verify"},
    "sentencepiece": {"tokenizer"},
    "tokenizers": {"dedup", "tokenizer"},  # static embeddings are those of a tokenizer's pieces
    "sentencex": {"tokenizer"},
    "jinja2": {"chat"},
}
"""Libraries and the folders of stages that may import them."""

BETWEEN_SIBLINGS = {
    ("decontamination", "reading"): "the files of evaluation sets have the options of sources",
    ("comparing", "loading"): "models read what a trainer is given",
    ("comparing", "objectives"): "a model is asked in the way of its objective",
    ("comparing", "store"): "how many epochs stand on disk",
    ("comparing", "verify"): "the models are those of the learning check",
    ("comparing", "tokenizer"): "models of framed documents are asked of framed ones",
    ("continuing", "comparing"): "rows are cut to a budget as those of tiny models are",
    ("continuing", "loading"): "models read what a trainer is given",
    ("continuing", "objectives"): "labels are those of the objective",
    ("continuing", "store"): "a checkpoint's files, and what the manifest says of the ids",
    ("continuing", "verify"): "losses are those of the learning check",
    ("dedup", "store"): "what is left of a text is put together by the copy that lays out documents",
    ("export", "loading"): "what is exported is what the loader opens and gives",
    ("export", "objectives"): "rows have the columns of their objective",
    ("export", "store"): "files are known by their digests, documents put together by one copy",
    ("export", "stores"): "a tokenizer of a run in a store is brought first",
    ("export", "tokenizer"): "what an export says of the ids that frame documents",
    ("filtering", "cleaning"): "a text that a filter changed is cleaned again",
    ("filtering", "stores"): "a list of the user's machine is brought to other machines",
    ("reading", "chat"): "a record may hold a dialogue in place of a text",
    ("loading", "objectives"): "labels are no column on disk: the loader draws them from the rows",
    ("loading", "packing"): "documents are told from what frames their rows",
    ("loading", "store"): "the loader reads what the store wrote",
    ("loading", "stores"): "a dataset may lie in a bucket",
    ("objectives", "packing"): "some kinds lay documents into rows by rules of their own",
    ("objectives", "store"): "a kind says which columns are stored beside its rows",
    ("stores", "store"): "what is brought is held to its digest",
    ("verify", "loading"): "the tiny model attends by the masks that trainers are given",
    ("verify", "store"): "rows are put together again by the copy that laid them out",
    ("verify", "objectives"): "labels are held to the objective that made them",
}
"""Which folder of stages imports which other, and why."""

IMPURE = {
    "random",
    "secrets",
    "time",
    "datetime",
    "threading",
    "multiprocessing",
    "subprocess",
    "socket",
}
IMPURE_ALLOWED = {
    ("chat/config.py", "datetime"): "a day of the run file is read; no clock is",
    ("chat/jinja_environment.py", "datetime"): "likewise: templates get it as today",
    ("dedup/ranking.py", "datetime"): "dates of records are compared; no clock is read",
    ("kernel_cache.py", "multiprocessing"): "a worker is told from a program",
    ("loading/shared_number.py", "multiprocessing"): "memory by which running workers learn of an epoch",
    ("stores/bucket.py", "datetime"): "the client's waits are spans of time",
    ("stores/bucket.py", "time"): "waits between two attempts of a request",
    ("stores/credentials.py", "datetime"): "the client asks again in some minutes",
    ("stores/outages.py", "time"): "not every request that waits says so",
    ("stores/objects.py", "subprocess"): "a forked process asks a helper that was begun anew",
    ("stores/objects.py", "threading"): "threads share that helper",
    ("verify/learning.py", "time"): "the clock is an argument; this is its default",
    ("verify/resume.py", "time"): "likewise",
}
LISTING_ALLOWED = {
    "stages/store/folders.py": "walk",
    "pipeline/inputs/listing.py": "glob",  # of fsspec, which raises
}
ENVIRONMENT_ALLOWED = {
    "stores/bucket.py": "which server",
    "stores/credentials.py": "which credentials",
    "stores/cache.py": "the folder and the size of the cache",
    "stores/objects.py": "handed on to the helper",
    "kernel_cache.py": "processes that this one starts find its compiled code; it decides no byte",
}
GENERATORS_ALLOWED = {
    "dedup/minhash.py": "datasketch's parameters, drawn as it draws them",
    "verify/training.py": "keyed Philox made for one draw; nothing of it is in a shard",
    "verify/rows.py": "takes one of those",
    "verify/contrast.py": "takes one of those",
}

HEAVY = [
    "ray",
    "torch",
    "pyarrow",
    "numba",
    "sentencepiece",
    "sentencex",
    "tokenizers",
    "datasketch",
    "zstandard",
    "orjson",
    "pipeline",
]
"""What a trainer's environment need not have."""


@dataclass(frozen=True)
class Facts:
    """What the tests ask of a module; a thousand trees of syntax at a time would be slow to hold."""

    docstring: str | None
    statements: int
    """At its top."""
    imports: tuple[str, ...]
    """The dotted name of all that it imports, wherever in it."""
    attributes: tuple[tuple[str, str], ...]
    """Of the product: what attributes are of, where that is a name, else nothing; and their names."""
    functions: tuple[tuple[str, int], ...]
    """Each function with its lines."""
    named: tuple[str, ...]
    """The public classes and types that it defines."""


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node: the expressions in them are most of a tree."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for below in getattr(node, name, ()):
            yield below
            yield from statements_of(below)


@cache
def facts(path: Path) -> Facts:
    """Return what the tests ask of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported: list[str] = []
    attributes: list[tuple[str, str]] = []
    functions: list[tuple[str, int]] = []
    for node in ast.walk(tree) if path in OF_PRODUCT else statements_of(tree):
        if isinstance(node, ast.Import):
            imported += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            imported += (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            attributes.append((node.value.id if isinstance(node.value, ast.Name) else "", node.attr))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            functions.append((f"{path}:{node.lineno} {node.name}", lines))
    return Facts(
        docstring=ast.get_docstring(tree),
        statements=len(tree.body),
        imports=tuple(imported),
        attributes=tuple(attributes),
        functions=tuple(functions),
        named=tuple(_named(tree)),
    )


def imports(path: Path) -> tuple[str, ...]:
    """Return the dotted name of all that a file imports, wherever in it."""
    return facts(path).imports


def folder_of(path: Path) -> str:
    """Return the folder of stages that a file is in, or its own name at the top."""
    return path.relative_to(ROOT / "stages").parts[0].removesuffix(".py")


def test_the_files_are_found() -> None:
    assert len(STAGES) >= 40
    assert len(ALL) >= len(STAGES) + 20


@pytest.mark.parametrize("module", ["ray", "pipeline", "shardmill"])
def test_stages_import_nothing_that_moves_values(module: str) -> None:
    found = [str(path) for path in STAGES for name in imports(path) if name.split(".")[0] == module]
    assert not found


def test_stages_import_no_clock_process_or_stateful_generator() -> None:
    found = {
        (path.relative_to(ROOT / "stages").as_posix(), name.split(".")[0])
        for path in STAGES
        for name in imports(path)
        if name.split(".")[0] in IMPURE or name.startswith("numpy.random")
    }
    assert found == IMPURE_ALLOWED.keys()


def test_stages_use_no_stateful_generator_and_read_no_environment() -> None:
    attributes = [
        (path.relative_to(ROOT / "stages").as_posix(), of, name)
        for path in STAGES
        for of, name in facts(path).attributes
        if of
    ]
    assert len(attributes) > 1_000
    assert {file for file, *name in attributes if name == ["np", "random"]} == GENERATORS_ALLOWED.keys()
    reading = {file for file, *name in attributes if name in (["os", "environ"], ["os", "getenv"])}
    assert reading == ENVIRONMENT_ALLOWED.keys()


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_in_its_own_folders_alone(library: str) -> None:
    users = {
        folder_of(path) for path in STAGES for name in imports(path) if name.split(".")[0] == library
    }
    assert users
    assert users <= HOMES[library]


def test_what_may_not_be_listed_never_counts_as_empty() -> None:
    """`glob`, `rglob` and `walk` pass over such folders, so one module lists folders."""
    found = {
        path.relative_to(ROOT).as_posix(): name
        for path in PRODUCT
        for _, name in facts(path).attributes
        if name in ("glob", "rglob", "iglob", "walk")
    }
    assert found == LISTING_ALLOWED


def test_no_any_stands_in_stages() -> None:
    found = [str(path) for path in STAGES for name in imports(path) if name == "typing.Any"]
    dotted = [str(path) for path in STAGES if "typing.Any" in path.read_text(encoding="utf-8")]
    assert not found + dotted


def test_folders_of_stages_import_each_other_only_where_the_table_says_why() -> None:
    folders = {folder_of(path) for path in STAGES if path.parent.name != "stages"}
    found = {
        (folder_of(path), name.split(".")[1])
        for path in STAGES
        for name in imports(path)
        if name.startswith("stages.") and name.split(".")[1] in folders
    }
    found = {(user, used) for user, used in found if user != used}
    assert found == BETWEEN_SIBLINGS.keys()


def test_the_modules_between_the_folders_import_no_folder() -> None:
    folders = {folder_of(path) for path in STAGES if path.parent.name != "stages"}
    top = [path for path in STAGES if path.parent.name == "stages"]
    assert len(top) >= 6
    found = [
        f"{path}: {name}"
        for path in top
        for name in imports(path)
        if name.startswith("stages.") and name.split(".")[1] in folders
    ]
    assert not found


def test_opening_a_dataset_imports_the_base_dependencies_alone() -> None:
    program = (
        "import sys, json, shardmill; shardmill.open_dataset; print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    modules = json.loads(done.stdout)
    loaded = {name.split(".")[0] for name in modules}
    assert {"numpy", "xxhash", "pydantic", "stages"} <= loaded
    assert "stages.loading.dataset" in modules
    assert not loaded & set(HEAVY)


def test_an_init_file_holds_one_docstring() -> None:
    inits = [path for path in ALL if path.name == "__init__.py" and path.parent.name != "shardmill"]
    assert len(inits) >= 14
    for path in inits:
        assert facts(path).docstring, path
        assert facts(path).statements == 1, path


def test_tests_are_found_by_path_under_names_of_their_own() -> None:
    tests = [path for path in ALL if path.is_relative_to(ROOT / "tests")]
    names = [path.name for path in tests if path.name.startswith("test_")]
    assert len(names) >= 20
    assert len(names) == len(set(names))
    assert "__init__.py" not in {path.name for path in tests}


def _named(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes and types that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and not _is_type_variable(node.value):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from (name for name in names if name[0].isupper() and not name.isupper())


def _is_type_variable(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") == "TypeVar"


def test_a_name_of_a_class_has_one_meaning() -> None:
    homes: dict[str, list[str]] = {}
    for path in PRODUCT:
        for name in facts(path).named:
            homes.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert len(homes) > 300
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_every_module_says_what_it_is() -> None:
    for path in ALL:
        assert facts(path).docstring, path


def test_no_module_passes_400_lines() -> None:
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in ALL}
    assert {path: count for path, count in lines.items() if count > 400} == {}


def test_no_function_passes_60_lines() -> None:
    found = [function for path in ALL for function in facts(path).functions]
    assert len(found) > 300
    assert [(name, lines) for name, lines in found if lines > 60] == []
