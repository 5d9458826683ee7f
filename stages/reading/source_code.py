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
