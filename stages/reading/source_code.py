"""Source code: how the names of its files end, by language. Each file is read as a plain text.

The names of the languages are those that code corpora such as The Stack use, in lower case.
"""

from collections.abc import Mapping

CODE_ENDINGS: Mapping[str, tuple[str, ...]] = {
    "assembly": (".s", ".asm"),
    "c": (".c", ".h"),
    "cpp": (".cc", ".cpp", ".cxx", ".hh", ".hpp"),
    "clojure": (".clj",),
    "cmake": (".cmake",),
    "csharp": (".cs",),
    "css": (".css", ".scss"),
    "cuda": (".cu", ".cuh"),
    "cython": (".pyx", ".pxd"),
    "dart": (".dart",),
    "elixir": (".ex", ".exs"),
    "erlang": (".erl",),
    "fortran": (".f", ".f90", ".f95"),
    "go": (".go",),
    "groovy": (".groovy", ".gradle"),
    "haskell": (".hs",),
    "java": (".java",),
    "javascript": (".js", ".jsx", ".mjs"),
    "julia": (".jl",),
    "kotlin": (".kt", ".kts"),
    "lisp": (".lisp", ".el"),
    "lua": (".lua",),
    "nim": (".nim",),
    "ocaml": (".ml", ".mli"),
    "perl": (".pl", ".pm"),
    "php": (".php",),
    "powershell": (".ps1",),
    "protobuf": (".proto",),
    "python": (".py", ".pyi"),
    "r": (".r", ".R"),
    "ruby": (".rb",),
    "rust": (".rs",),
    "scala": (".scala",),
    "shell": (".sh", ".bash"),
    "solidity": (".sol",),
    "sql": (".sql",),
    "svelte": (".svelte",),
    "swift": (".swift",),
    "typescript": (".ts", ".tsx"),
    "verilog": (".v", ".sv"),
    "vue": (".vue",),
    "zig": (".zig",),
}
"""By language."""
ALL_CODE_ENDINGS = tuple(ending for endings in CODE_ENDINGS.values() for ending in endings)
"""Of all languages."""
_OTHER_NAMES = frozenset(
    {"c++", "c#", "c-sharp", "common lisp", "common-lisp", "emacs lisp", "emacs-lisp", "golang"}
    | {"jupyter notebook", "objective-c", "protocol buffer", "scss", "systemverilog", "tsx", "html"}
    | {"batchfile", "dockerfile", "makefile", "visual basic", "visual-basic", "f#", "vhdl", "tcl"}
)
"""Names of languages in The Stack, StarCoder and GitHub's data, in lower case, that no ending has."""


def is_code_language(name: str) -> bool:
    """Say whether a name is one of a programming language: "Python", "C++", "Jupyter Notebook"."""
    return name.lower() in CODE_ENDINGS or name.lower() in _OTHER_NAMES
