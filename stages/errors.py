"""Errors a user can meet.

    ShardmillError
    ├── ConfigError        the run file or the command line asks for what cannot be
    │   ├── NoRightError   a store does not let this user do what is asked
    │   └── VocabularySizeError  a tokenizer cannot have so many pieces, or so few
    ├── DataError          an input, or what was made of it, is not what it must be
    │   ├── ChangedInputError  an input file is no longer what it was when it was scanned
    │   ├── FormatError    a file on disk does not hold what its format promises
    │   └── TooFewLabelsError  there is too little to learn from to say anything
    ├── VerificationError  a check or a gate failed
    └── Stopped            the run stopped and can be run again to resume
        └── Interrupted    because someone pressed Ctrl-C

    ShardmillWarning       something goes on otherwise than was meant; work and results are the same

A message says what, where (file, row), the bound, and the way out. Bugs raise `AssertionError`.
"""

import errno

_OF_THE_FILE = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL)
"""What the system says of a file that is gone or no file; None is what a library says of content."""


class ShardmillError(Exception):
    """Any error that this program explains in one line."""


class ShardmillWarning(UserWarning):
    """What a user should know of a call that goes on."""


class ConfigError(ShardmillError):
    """The run file or the command line asks for what cannot be."""


class NoRightError(ConfigError):
    """A store does not let this user do what is asked."""


class VocabularySizeError(ConfigError):
    """A tokenizer cannot have so many pieces, or so few.

    Args:
        message: for people.
        possible: a number of pieces that the text allows.
    """

    def __init__(self, message: str, possible: int = 0) -> None:
        super().__init__(message, possible)

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0])

    @property
    def possible(self) -> int:
        """A number of pieces that the text allows."""
        return int(self.args[1])


class DataError(ShardmillError):
    """An input, or what was made of it, is not what it must be."""


class ChangedInputError(DataError):
    """An input file is no longer what it was when it was scanned.

    Args:
        message: for people.
        file: the file's name in messages; what is remembered of it is forgotten.
    """

    def __init__(self, message: str, file: str = "") -> None:
        super().__init__(message, file)

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0])

    @property
    def file(self) -> str:
        """The file's name in messages."""
        return str(self.args[1])


class FormatError(DataError):
    """A file on disk does not hold what its format promises."""


class TooFewLabelsError(DataError):
    """There is too little to learn from to say anything."""


class VerificationError(ShardmillError):
    """A check or a gate failed."""


class Stopped(ShardmillError):  # noqa: N818  # no error: the run can go on
    """The run stopped early; the same command resumes it."""


class Interrupted(Stopped):
    """Ctrl-C stopped the run; the same command resumes it."""


def lacks_temporary_folder(error: BaseException) -> bool:
    """Say whether Python could write neither to TMPDIR, nor /tmp, nor the current folder."""
    return "No usable temporary directory" in str(error)


def is_of_the_system(error: BaseException) -> bool:
    """Say whether the system refused, so that the file may be as whole as it should be.

    EIO, EMFILE, ESTALE, EACCES -> True; ENOENT, EISDIR, a library's "not a Parquet file" -> False
    """
    return isinstance(error, OSError) and error.errno not in _OF_THE_FILE
