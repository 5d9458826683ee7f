"""The labels by which a page itself names its charset: meta elements, and the declaration of XML.

    <meta name=a content="charset=b"><meta charset=c>                  -> c
    <meta http-equiv=Content-Type content="text/html; charset='d e'">  -> d e
    <?xml version="1.0" encoding="f"?>                                 -> f

A browser looks for them in the first 1,024 bytes, before it parses, and there it knows no scripts and
titles. If its parser meets a meta element with another label, the browser begins again with that one.

Source: WHATWG, HTML, 13.2.3.2 (prescan), 13.2.3.4 (changing the encoding), 4.2.5.3 (pragmas).
"""

import re
from collections.abc import Iterator

_HEAD = 1024
"""Bytes of a page that are looked at before it is parsed."""
_WHITE = rb"\t\n\f\r "
_TAG = re.compile(rb"<(?:(!--)|(/?[a-z][^%s>/]*+)|[!/?])" % _WHITE, re.IGNORECASE)
_ATTRIBUTE = re.compile(
    rb"[%s/]*+([^%s/>][^%s/>=]*+)(?:[%s]*+=[%s]*+(?:\"([^\"]*+)(?:\"|\Z)|'([^']*+)(?:'|\Z)|([^%s>\"'][^%s>]*+)|))?+"
    % ((_WHITE,) * 7)
)
_TAG_END = re.compile(rb"[%s/]*+>" % _WHITE)
_CHARSET = re.compile(
    rb"charset[%s]*+=[%s]*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\"'%s;][^%s;]*+))" % ((_WHITE,) * 4),
    re.IGNORECASE,
)
_XML = re.compile(
    rb"<\?xml[^>]*?encoding[\0-\x20]*=[\0-\x20]*(?:\"([^\"\0-\x20>]+)\"|'([^'\0-\x20>]+)')"
)
_RAW = (b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes")
"""Elements in which a parser sees no tags."""
_MAY_NAME_ONE = re.compile(rb"charset|encoding", re.IGNORECASE)


def labels_before_parsing(page: bytes) -> Iterator[str]:
    """Yield the labels that a browser meets before it parses, in the order in which it tries them."""
    head = page[:_HEAD]
    if not _MAY_NAME_ONE.search(head):
        return
    yield from _labels(head, is_parsed=False)


def label_of_xml(page: bytes) -> str | None:
    """Return the label in a declaration of XML, which browsers take where no meta element has one."""
    found = _XML.match(page, 0, _HEAD)
    return None if found is None else _said(found)


def labels_while_parsing(page: bytes) -> Iterator[str]:
    """Yield the labels of all meta elements of a page."""
    if _MAY_NAME_ONE.search(page):
        yield from _labels(page, is_parsed=True)


def _labels(page: bytes, *, is_parsed: bool) -> Iterator[str]:
    at = 0
    while tag := _TAG.search(page, at):
        name = (tag[2] or b"").lower()
        if tag[1]:  # a comment, and <!--> is a whole one
            end = page.find(b"-->", tag.start() + 2) + len(b"-->")
            at = end if end >= len(b"-->") else len(page)
            continue
        if not name:
            at = _behind(page, b">", tag.end())
            continue
        attributes, at = _attributes(page, tag.end())
        if name == b"meta":
            yield from _of_meta(attributes, is_parsed=is_parsed)
        if is_parsed and name in _RAW:
            end_tag = re.compile(rb"</%s(?=[%s/>])" % (name, _WHITE), re.IGNORECASE).search(page, at)
            at = end_tag.start() if end_tag else len(page)


def _behind(page: bytes, byte: bytes, at: int) -> int:
    found = page.find(byte, at)
    return len(page) if found < 0 else found + 1


def _attributes(page: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """Return the attributes of a tag, the first of each name, and its end; none if it is cut."""
    found: dict[bytes, bytes] = {}
    while one := _ATTRIBUTE.match(page, at):
        found.setdefault(one[1].lower(), one[2] or one[3] or one[4] or b"")
        at = one.end()
    end = _TAG_END.match(page, at)
    return (found, end.end()) if end else ({}, len(page))


def _of_meta(attributes: dict[bytes, bytes], *, is_parsed: bool) -> Iterator[str]:
    """Yield the label of a meta element; two of one that a parser meets and that has both forms."""
    if b"charset" in attributes:
        yield attributes[b"charset"].decode("latin-1")
        if not is_parsed:
            return
    if attributes.get(b"http-equiv", b"").lower() == b"content-type":
        found = _CHARSET.search(attributes.get(b"content", b""))
        if found is not None:
            yield _said(found)


def _said(found: re.Match[bytes]) -> str:
    return next(said for said in found.groups() if said is not None).decode("latin-1")
