"""Roles: which ids of a tokenizer that was trained elsewhere close documents, pad rows, mask, divide.

    the file names itself         eos = </s> (SentencePiece: its eos, bos, pad and unk ids)
    the run file names            [tokenizer.special]   mask = "[MASK]"   or an id
    one well-known piece is there  <pad>, [CLS], <|endoftext|>, <extra_id_0> ...

What the run file says counts most, then the file. Where several well-known pieces could be meant, those
count that the file itself keeps from text. If these are several, none is taken, and whoever needs it is
asked to say which. Only pieces that a file sets apart from text are taken unasked.

What is named here, and what else the file sets apart, is never given by text, drawn or masked.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, count, takewhile

from stages.config import Config
from stages.errors import ConfigError
from stages.tokenizer.framing import FrameIds, Framing, Preset, framed_ids, nothing_said, unbegun_ids
from stages.tokenizer.proposals import proposed_pieces
from stages.tokenizer.special import special_ids

_WELL_KNOWN = {
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "bos": (
        *("<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<BOS_TOKEN>"),
        "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    ),
    "eos": (
        *("</s>", "<eos>", "[EOS]", "<|endoftext|>", "<|end_of_text|>", "<EOS_TOKEN>", "<EOT>"),
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    ),
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>", "<PAD>", "<\uff5c\u2581pad\u2581\uff5c>"),
    "cls": ("<cls>", "[CLS]", "<CLS>"),
    "sep": ("<sep>", "[SEP]", "<SEP>"),
    "mask": ("<mask>", "[MASK]", "<|mask|>", "<MASK_TOKEN>"),
    "fim_prefix": ("<fim_prefix>", "<|fim_prefix|>", "<fim-prefix>", "\u2581<PRE>"),
    "fim_middle": ("<fim_middle>", "<|fim_middle|>", "<fim-middle>", "\u2581<MID>"),
    "fim_suffix": ("<fim_suffix>", "<|fim_suffix|>", "<fim-suffix>", "\u2581<SUF>"),
    "mode_r": ("<mode_r>", "[NLU]"),
    "mode_x": ("<mode_x>", "[NLG]"),
    "mode_s": ("<mode_s>", "[S2S]"),
}
"""Pieces that mean a role wherever they are set apart; [NLU], [NLG] and [S2S] are UL2's own, and those
with full-width bars DeepSeek's."""
_SENTINELS = ("<sentinel_{}>", "<extra_id_{}>")
_MAY_BE_ONE = ({"bos", "cls"}, {"bos", "eos"}, {"eos", "sep"})
"""Roles that never stand where one could be taken for the other."""
_SHOWN = 8


class SpecialPieces(Config):
    """Ids of an existing tokenizer by what they are for: a piece as the file writes it, or a number.

    Only what is not found by itself need be said: docs/tokenizers.md.
    """

    unk: str | int | None = None
    """Stands for characters that have no piece."""
    bos: str | int | None = None
    """Begins the inputs of `bart`."""
    eos: str | int | None = None
    """The end of every document; every dataset needs it."""
    pad: str | int | None = None
    """Fills rows. If there is none, EOS does, for `clm` alone."""
    cls: str | int | None = None
    """Begins a pair of `nsp` or `sop`."""
    sep: str | int | None = None
    """Closes each half of a pair."""
    mask: str | int | None = None
    """Hides a token: `mlm`, `nsp`, `sop`, `bart`, and `electra` with a model."""
    fim_prefix: str | int | None = None
    """Before the prefix of `fim`."""
    fim_middle: str | int | None = None
    """Before the middle of `fim`."""
    fim_suffix: str | int | None = None
    """Before the suffix of `fim`."""
    mode_r: str | int | None = None
    """Names a denoiser of `ul2`, or the `mode_token` of others."""
    mode_x: str | int | None = None
    """Likewise."""
    mode_s: str | int | None = None
    """Likewise."""
    sentinels: str | None = None
    """Pieces of the sentinels with {} for their number, from 0 on, such as "<extra_id_{}>"."""


@dataclass(frozen=True)
class TokenizerDescription:
    """What a tokenizer file says of its ids."""

    size: int
    """Every id is below it."""
    pieces: Mapping[str, int]
    """All ids by their pieces."""
    marks: Mapping[str, int]
    """Pieces that are set apart from text in whatever way."""
    controls: frozenset[int]
    """Ids that the file itself keeps from text."""
    declared: Mapping[str, int]
    """Roles that the file names itself."""
    frame: Callable[[], FrameIds | None] = nothing_said
    """Reads what the file puts around a text."""


@dataclass(frozen=True)
class Roles:
    """The special ids of an existing tokenizer."""

    ids: dict[str, int]
    """By role, and as `reserved_ID` what else is kept from text."""
    unsure: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Roles for which several pieces could be meant."""
    found: TokenizerDescription | None = None
    """What they were found in."""

    @property
    def sentinels(self) -> int:
        """Sentinels, numbered from 0 without a gap."""
        names = (f"sentinel_{number}" for number in count())
        return sum(1 for _ in takewhile(self.ids.__contains__, names))


def find_roles(found: TokenizerDescription, special: SpecialPieces, *, name: str) -> Roles:
    """Return the special ids that a tokenizer has, as the run file, the file or their pieces name them.

    Raises:
        ConfigError: the run file names a piece or an id that is not in the vocabulary.
    """
    wanted = special.model_dump(exclude={"sentinels"}, exclude_none=True)
    ids = {role: _named(found, role, value, name=name) for role, value in wanted.items()}
    unsure, unknown = {}, found.declared.get("unk")
    for role, pieces in _WELL_KNOWN.items():
        if role not in ids and role in found.declared:
            ids[role] = found.declared[role]
        elif role not in ids:
            there = tuple(piece for piece in pieces if found.marks.get(piece, unknown) != unknown)
            kept = tuple(piece for piece in there if found.marks[piece] in found.controls)
            there = kept or there  # HTML's </s> is a piece of text where <eos> is kept from it
            if len(there) == 1:
                ids[role] = found.marks[there[0]]
            elif there:
                unsure[role] = there
    patterns = [pattern for pattern in _SENTINELS if pattern.format(0) in found.marks]
    if special.sentinels is not None:
        ids |= _sentinels(found.pieces, special.sentinels, taken=set(ids.values()))
        if "sentinel_0" not in ids:
            raise ConfigError(
                f"tokenizer.special.sentinels = {special.sentinels!r}: {name} has no piece"
                f" {special.sentinels.replace('{}', '0')!r}; write {{}} where its pieces have the number"
            )
    elif len(patterns) == 1:
        ids |= _sentinels(found.marks, patterns[0], taken=set(ids.values()))
    order = {role: place for place, role in enumerate(special_ids())}
    ids = dict(sorted(ids.items(), key=lambda item: order.get(item[0], item[1] + len(order))))
    rest = sorted(found.controls - set(ids.values()))
    return Roles(ids | {f"reserved_{number}": number for number in rest}, unsure, found)


def _proposals(roles: Roles, asked: Sequence[str]) -> dict[str, str]:
    """Return pieces that roles could have which are asked for, and were not found."""
    if roles.found is None:
        return {}
    marks, unknown = roles.found.marks, roles.found.declared.get("unk")
    ids = {role: number for role, number in roles.ids.items() if not role.startswith("reserved_")}
    never = {marks[piece] for pieces in roles.unsure.values() for piece in pieces}
    never |= set() if unknown is None else {unknown}
    taken = {
        role: {number for other, number in ids.items() if {role, other} not in _MAY_BE_ONE} | never
        for role in asked
    }
    return proposed_pieces(asked, marks, taken)


def framed_roles(found: TokenizerDescription, roles: Roles, framing: Framing, *, name: str) -> Roles:
    """Return the roles with the ids that begin and close every document, or every row.

    Args:
        found: what the file says of its ids.
        roles: as `find_roles` gives them.
        framing: what the run file wants.
        name: of the file, for messages.

    Raises:
        ConfigError: the file has no such id, or says nothing of what it puts around a text.
    """
    if framing.preset is Preset.TOKENIZER:
        frame = found.frame()
        if frame is None:
            raise ConfigError(
                f"framing.preset = 'tokenizer': {name} has no post-processor that says what stands"
                " around a text; name the preset of a model, or begin and end"
            )
        begin, end = frame
    else:
        names = framing.roles
        if names == (None, "eos"):
            return roles
        wanted = [role for role in names if role is not None]
        require_roles(roles, wanted, who="framing", name=name)
        begin, end = (None if role is None else roles.ids[role] for role in names)
    for side, number in (("before", begin), ("behind", end)):
        what = f"framing: the id {number} {side} each {framing.per}"
        _require_usable(found, number, what, name=name)
    if end is None:
        require_roles(roles, ["eos"], who="framing", name=name)
        end = roles.ids["eos"]
    ids = framed_ids(roles.ids, begin=begin, end=end)
    return replace(roles, ids=ids if framing.per == "document" else unbegun_ids(ids, framing))


def _require_usable(found: TokenizerDescription, number: int | None, what: str, *, name: str) -> None:
    """Refuse an id to frame documents with that is no id, or that texts may hold."""
    if number is None:
        return
    if not 0 <= number < found.size:
        raise ConfigError(f"{what}: {name} has the ids 0 to {found.size - 1:,}; mend its post-processor")
    if number == found.declared.get("unk"):
        raise ConfigError(
            f"{what}: is what {name} gives for unknown characters, which texts may hold; set"
            " framing.begin and framing.end to other special ids"
        )


def _named(found: TokenizerDescription, role: str, value: str | int, *, name: str) -> int:
    """Return the id that the run file means."""
    key = f"tokenizer.special.{role} = {value!r}"
    if isinstance(value, int):
        if not 0 <= value < found.size:
            raise ConfigError(f"{key}: {name} has the ids 0 to {found.size - 1:,}")
        number = value
    elif value in found.pieces:
        number = found.pieces[value]
    else:
        listed = list(found.marks)
        shown = ", ".join(map(repr, listed[:_SHOWN])) + (", ..." if len(listed) > _SHOWN else "")
        raise ConfigError(
            f"{key}: no such piece in {name}"
            + (f"; set apart from text are {shown}" if shown else "; it sets none apart from text")
        )
    unknown = found.declared.get("unk")
    if role != "unk" and number == unknown:
        raise ConfigError(f"{key}: is what {name} gives for unknown characters, which texts may hold")
    if role == "unk" and unknown not in (None, number):
        raise ConfigError(f"{key}: {name} gives {unknown:,} for unknown characters, whatever is named")
    return number


def _sentinels(pieces: Mapping[str, int], pattern: str, *, taken: Collection[int]) -> dict[str, int]:
    """Number the sentinels: "<extra_id_{}>" -> {"sentinel_0": id of <extra_id_0>, ...}.

    They end before an id that has another role.
    """
    if "{}" not in pattern:
        return {}
    free = {piece: number for piece, number in pieces.items() if number not in taken}
    names = takewhile(free.__contains__, (pattern.replace("{}", str(n)) for n in count()))
    return {f"sentinel_{n}": free[name] for n, name in enumerate(names)}


def require_roles(roles: Roles, names: Iterable[str], *, who: str, name: str) -> None:
    """Refuse a tokenizer that lacks an id which rows cannot do without, or has one for two.

    Args:
        roles: of the tokenizer.
        names: what is needed.
        who: needs it, for the message.
        name: of the file, likewise.

    Raises:
        ConfigError: says what is missing, and how it is named.
    """
    needed = list(dict.fromkeys(names))
    missing = {role: "sentinels" if role.startswith("sentinel") else role for role in needed}
    missing = {role: key for role, key in missing.items() if role not in roles.ids}
    proposed = _proposals(roles, [*dict.fromkeys(missing.values())])
    for role, key in missing.items():
        if role in roles.unsure:
            several = " and ".join(map(repr, roles.unsure[role]))
            way = f"has {several}; say which is meant"
            piece = roles.unsure[role][0]
        else:
            way = "has no piece known for it; name one, or its id"
            piece = proposed.get(key, "PIECE_{}" if key == "sentinels" else "PIECE")
        raise ConfigError(
            f"{who} needs the special id {key!r}, and {name} {way}:"
            f' [tokenizer.special] {key} = "{piece}" (with quick: --special {key}={piece}), or train a'
            " tokenizer, which has all"
        )
    for one, other in combinations(needed, 2):
        if roles.ids[one] == roles.ids[other] and {one, other} not in _MAY_BE_ONE:
            raise ConfigError(
                f"{who} needs {one!r} and {other!r} to be two ids, and both are {roles.ids[one]:,} in"
                f" {name}; name another in [tokenizer.special]"
            )
