"""Faults drawn at random: small slips anywhere in the product, as mutants for `mutants.py`.

    drawn_faults.py --seed 1 --number 300 --reach .coverage LIST.jsonl
    mutants.py LIST.jsonl --results RESULTS.jsonl

A list of faults that is written by hand is kind to the tests that its author knows. Here every place in
`pipeline`, `stages` and `shardmill` at which a slip is possible is as likely as every other:

- an operator turned: of a comparison, of arithmetic, `and` and `or`, `not` left out
- a whole number that is one more, a truth value that is the other, `any` for `all`, `min` for `max`
- a condition turned round, or that of a comprehension left out
- a call left out whose value nobody takes

Named for a fault are the tests that run its line, the nearest and cheapest first, as `make reach` has
seen them: pytest-cov notes for each line of the product which tests run it. Lines of kernels run
compiled, and some lines only in other processes: there the tests that run any line of the module are
named.

Tools that do the same (mutmut, cosmic-ray) change code while it is imported or call a program for each
fault; with compiled kernels, Ray and a warm Python both cost more than drawing the faults ourselves.
"""

import argparse
import ast
import copy
import itertools
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reached_lines import ReachedLines

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("pipeline", "stages", "shardmill")
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
}
NAMED = {"any": "all", "all": "any", "min": "max", "max": "min"}


LEFT_OUT = {"annotation", "returns", "decorator_list", "bases"}
"""Fields of nodes that say nothing of what is computed."""


@dataclass(frozen=True)
class Slip:
    """A place in a module, and what stands there instead.

    Attributes:
        line: of the place, from 1.
        begin: offset of its first byte in the module.
        end: offset behind its last byte.
        new: the other code.
    """

    line: int
    begin: int
    end: int
    new: str


def slips(source: bytes) -> list[Slip]:
    """Return every slip that is possible in a module."""
    starts = [0, *itertools.accumulate(len(line) for line in source.splitlines(keepends=True))]
    found = []
    for place, new in (one for node in _code(ast.parse(source)) for one in _others(node)):
        assert place.end_lineno is not None
        assert place.end_col_offset is not None
        begin = starts[place.lineno - 1] + place.col_offset
        end = starts[place.end_lineno - 1] + place.end_col_offset
        found.append(Slip(place.lineno, begin, end, new))
    return found


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of what is computed; the places of values within an f-string are not known."""
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            if isinstance(child, ast.AST) and name not in LEFT_OUT and not guarded:
                yield from () if isinstance(child, ast.JoinedStr) else _code(child)


def _others(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield places in a node, each with what may stand there instead."""
    yield from _other_values(node)
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.comprehension(ifs=[_, *_] as conditions):
            yield from ((condition, "True") for condition in conditions)
        case ast.Expr(value=ast.Call()):
            yield node, "pass"


def _other_values(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield places in an expression."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARED:
            yield node, _changed(node, ops=[COMPARED[type(operator)]()])
        case ast.BinOp(op=operator) if type(operator) in COMPUTED:
            yield node, _changed(node, op=COMPUTED[type(operator)]())
        case ast.BoolOp(op=operator):
            yield node, _changed(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield node, f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool(value)):
            yield node, repr(not value)
        case ast.Constant(value=int(value)):
            yield node, str(value + 1)
        case ast.Call(func=ast.Name(id=name) as called) if name in NAMED:
            yield called, NAMED[name]


def _changed(node: ast.expr, **fields: object) -> str:
    """Return the code of an expression of which some fields are others."""
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return f"({ast.unparse(other)})"


def mutant_of(path: Path, slip: Slip, tests: Sequence[str]) -> dict[str, object]:
    """Return a line of a list: the code around the slip is as long as it must be to stand there once."""
    source = path.read_bytes()
    begin = source.rfind(b"\n", 0, slip.begin) + 1
    end = slip.end
    while source.count(source[begin:end]) > 1:
        if end < len(source) and source[end : end + 1] != b"\n":
            end = (source.find(b"\n", end) + 1 or len(source) + 1) - 1
        else:
            begin = source.rfind(b"\n", 0, begin - 1) + 1
    old = source[begin:end].decode()
    new = (source[begin : slip.begin] + slip.new.encode() + source[slip.end : end]).decode()
    name = path.relative_to(ROOT).as_posix()
    return {"file": name, "old": old, "new": new, "tests": list(tests), "equivalent": ""}


def draw(seed: int, number: int, folders: Sequence[str] = PRODUCT) -> list[tuple[Path, Slip]]:
    """Return that many slips of the product, the same for a seed and a state of the product."""
    modules = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    every = [(path, slip) for path in modules for slip in slips(path.read_bytes())]
    return random.Random(seed).sample(every, number)  # noqa: S311  # no secret


def main(given: Sequence[str] | None = None) -> int:
    """Write a list of drawn faults; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("list", type=Path, help="gets the faults, a JSON object a line")
    parser.add_argument("--seed", type=int, default=0, help="another seed draws others [default: 0]")
    parser.add_argument("--number", type=int, default=300, help="of faults [default: 300]")
    parser.add_argument("--reach", type=Path, required=True, help="what `make reach` has written")
    chosen = parser.parse_args(given)
    reached = ReachedLines.read(chosen.reach)
    with chosen.list.open("w", encoding="utf-8") as file:
        for path, slip in draw(chosen.seed, chosen.number):
            tests = reached.tests_of(path.relative_to(ROOT).as_posix(), slip.line)
            file.write(json.dumps(mutant_of(path, slip, tests)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
