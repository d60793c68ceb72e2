"""The English in which a condition names text: what of it is understood.

Every pattern is for a whole clause, in lower case, in which `L` stands for a phrase or
a list of them. A word that no pattern has makes a clause one that nobody understands.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

QUOTED: Final = "\ue000"
PERCENT: Final = "\ue001"
LISTED: Final = "\ue002"
"""Each stands for one phrase in quotes, one percentage, one list of either."""


class Kind(Enum):
    """What a clause says of its phrases."""

    SHOWN = "shown"
    NAMED = "named"
    """Only that they are, without a verb: enough where it is all that is said."""
    REACHED = "reached"
    """Shown, and for a percentage: that, or more."""
    GONE = "gone"
    HIDDEN = "no longer shown"
    """As `GONE`; with "or", English leaves open which of them."""
    IN_TITLE = "in the title"
    NOT_IN_TITLE = "no longer in the title"
    CLOSED = "closed"
    """No phrase: the window itself is gone."""


_A: Final = r"(?:(?:the|a|an|any|this|that|its) )?"
_NOUN: Final = (
    r"(?:window|screen|dialog(?:ue)?|box|pop-?up|message|notification|toast|label|page"
    r"|text|button|banner|heading|line|words?|phrase|string)"
)
_NP: Final = rf"(?:{_A}{_NOUN}(?: {_NOUN}){{0,2}})"
_AT: Final = (
    rf"(?: (?:anywhere |somewhere )?(?:in|on|inside|of) {_NP}| on-?screen"
    r"| anywhere| somewhere| there)"
)
_THING: Final = rf"(?:{_NP}{_AT}{{0,2}}|it)"
_SHOW: Final = (
    r"(?:(?:now )?(?:shows?|says?|reads?|displays?|contains?|includes?|has)"
    r"|is (?:now )?(?:showing|displaying|saying)|to (?:show|say|display|contain|read))"
)
_TELLING: Final = r"(?:(?:that|which) (?:shows|says|reads|contains)|showing|saying"
_TELLING_L: Final = rf"(?:{_TELLING}|reading|containing|with) (?:{_A}text )?)"
_SEEN: Final = r"(?:visible|shown|displayed|there|present|on-?screen)"
_APPEAR: Final = (
    r"(?: (?:appears?|shows?(?: up)?|pops? up|comes? up|opens?|(?:is|are) (?:now )?"
    rf"{_SEEN}|(?:is|are)(?= (?:in|on|inside|somewhere|anywhere) )"
    r"|(?:has|have) appeared|becomes? visible|can be seen|to (?:appear|show up|open"
    r"|be (?:visible|shown|displayed)|become visible)))"
)
_GONE: Final = (
    r"(?: (?:disappears?|vanish(?:es)?|closes?|goes away|go away|(?:is|are) (?:now )?"
    r"(?:gone|closed|dismissed)|(?:has|have) (?:disappeared|vanished|closed|gone)"
    r"|to (?:disappear|vanish|close|go away|be (?:gone|closed))))"
)
_ANY_MORE: Final = r"any ?more"
_HIDDEN: Final = (
    rf"(?: (?:(?:is|are) no longer {_SEEN}|(?:is|are) not {_SEEN} {_ANY_MORE}"
    r"|no longer (?:appears?|shows?)|(?:is|are) no longer(?= (?:in|on|inside) )))"
)
_OF: Final = r"(?: (?:of|for) (?:the|this|that) (?:window|page|dialog))?"
_TITLE: Final = (
    r"(?:(?:the |its |a |this |that )?(?:window'?s? |page'?s? |dialog'?s? )?title"
    rf"(?: bar| text)?{_OF})"
)
_TITLED: Final = (
    r"(?:(?:now )?(?:contains|includes|shows|says|reads|has|displays|becomes|is|equals"
    r"|changes to|turns (?:in)?to)|is now|has (?:become|changed to)"
    r"|to (?:contain|show|say|become|be|change to))"
)
_PROGRESS: Final = (
    r"(?:(?:the )?(?:progress(?: (?:bar|indicator|percentage))?|percentage)"
    rf"{_AT}{{0,2}})"
)
_REACH: Final = r"(?:reaches|hits|gets to|to reach|has reached|is at|is now at)"
_BECOME: Final = r"(?:is|is now|becomes|changes to|turns (?:in)?to|has changed to)"

_CLAUSES: Final = tuple(
    (kind, re.compile(pattern.replace("L", LISTED)))
    for kind, pattern in (
        (Kind.IN_TITLE, rf"{_TITLE} {_TITLED} L"),
        (Kind.IN_TITLE, rf"L(?:{_APPEAR}| is| are)? in {_TITLE}"),
        (
            Kind.NOT_IN_TITLE,
            (
                rf"{_TITLE} (?:no longer (?:contains|includes|shows|says|reads|has"
                r"|displays|is)|is no longer|stops (?:containing|showing|saying|being))"
                " L"
            ),
        ),
        (
            Kind.NOT_IN_TITLE,
            rf"L(?:{_GONE} from| is no longer in| no longer appears in) {_TITLE}",
        ),
        (
            Kind.CLOSED,
            (
                rf"(?:it|(?:the |this |that )?(?:window|(?:dialog(?:ue)?|pop-?up)"
                rf"(?: box| window)?))(?:{_GONE}| is no longer (?:there|open))"
            ),
        ),
        (Kind.REACHED, rf"(?:(?:{_THING}|{_PROGRESS}) )?{_REACH} L"),
        (Kind.REACHED, rf"{_PROGRESS} (?:{_SHOW}|is) L"),
        (
            Kind.SHOWN,
            rf"(?:(?:i|you|we) (?:can )?)?see {_A}L(?: {_NOUN})?{_AT}{{0,2}}",
        ),
        (
            Kind.SHOWN,
            (
                rf"there (?:is|are) (?:now )?(?:{_NP} (?:{_TELLING_L})?)?(?:{_A})L"
                rf"(?: {_NOUN}){{0,2}}{_AT}{{0,2}}"
            ),
        ),
        (
            Kind.SHOWN,
            rf"(?:{_NP} {_TELLING_L}?|{_A})L(?: {_NOUN}){{0,2}}{_APPEAR}{_AT}{{0,2}}",
        ),
        (Kind.SHOWN, rf"(?:{_THING} )?{_SHOW} {_A}L(?: {_NOUN})?{_AT}{{0,2}}"),
        (
            Kind.SHOWN,
            (
                rf"(?:the |its )?(?:text|label|message|heading|banner|line)"
                rf"{_AT}{{0,2}} {_BECOME} L"
            ),
        ),
        (
            Kind.NAMED,
            rf"(?:{_NP} {_TELLING_L}?|{_A})L(?: {_NOUN}){{0,2}}{_AT}{{0,2}}",
        ),
        (
            Kind.GONE,
            (
                rf"(?:{_NP} {_TELLING_L}?|{_A})L(?: {_NOUN}){{0,2}}{_GONE}"
                rf"(?: from {_NP}|{_AT})?"
            ),
        ),
        (
            Kind.HIDDEN,
            rf"(?:{_NP} {_TELLING_L}?|{_A})L(?: {_NOUN}){{0,2}}{_HIDDEN}{_AT}{{0,2}}",
        ),
        (
            Kind.HIDDEN,
            (
                rf"{_THING} (?:no longer (?:shows|says|reads|displays|contains|has)"
                r"|stops (?:showing|displaying|saying)) L"
            ),
        ),
        (
            Kind.HIDDEN,
            (
                rf"{_THING} (?:does not|doesn't) (?:show|say|display|contain) L"
                rf" {_ANY_MORE}"
            ),
        ),
    )
)

_LEAD: Final = re.compile(
    r"(?:please )?(?:(?:wake|notify|tell|alert|ping)(?: me)?(?: up)? |wait )?"
    r"(?:(?:when|until|till|once|as soon as|if|for):? )?"
)
_ITEM: Final = (
    rf"(?:(?:the |a |an )?(?:text|words?|phrase|string|message|label):? )?"
    rf"[{QUOTED}{PERCENT}]"
)
_LIST: Final = re.compile(
    r"(?:\b(?P<lead>either of|either|both|any of|one of|all of) (?:(?:the|these) )?"
    r"(?:(?:texts|words|phrases|strings|messages):? )?)?"
    rf"{_ITEM}(?:(?:, ?(?:and |or )?| and | or | ?/ ?){_ITEM})*"
)
_JOINT: Final = re.compile(r",? (and|or) |, ")
_JOINING: Final = re.compile(r"\b(?:and|or)\b|/")
_ANY_OF: Final = frozenset({"any of", "one of", "either of"})
_LEADS: Final = {"either": {"or"}, "both": {"and"}, "all of": {"and"}}
_COLON: Final = re.compile(rf"(?<=\w): ?(?=[{QUOTED}{PERCENT}])")


def clauses(text: str) -> tuple[list[str], set[str], list[int]] | None:
    """Part a condition in which phrases are `QUOTED` or `PERCENT`.

    Returns:
        The clauses, in which `LISTED` stands for lists; what joins phrases and clauses
        ("and", "or"); how many phrases each list has. None: a list is not understood.
    """
    text = " ".join(text.lower().split()).rstrip(".! ")
    text = _COLON.sub(" ", text)
    if lead := _LEAD.match(text):
        text = text[lead.end() :]
    joints: set[str] = set()
    sizes: list[int] = []
    understood = True

    def listed(found: re.Match[str]) -> str:
        nonlocal understood
        size = len(re.findall(f"[{QUOTED}{PERCENT}]", found[0]))
        sizes.append(size)
        joint = _joint(found["lead"], found[0], size)
        understood = understood and joint is not None
        joints.update({joint} if joint else ())
        return LISTED

    text = _LIST.sub(listed, text)
    parts = _JOINT.split(text)
    between = {joint for joint in parts[1::2] if joint}
    if not understood or (len(parts) > 1 and not between):
        return None
    joints |= between
    return parts[::2], joints, sizes


def kind(clause: str) -> Kind | None:
    """Return what a clause says; None: it is not understood."""
    return next((is_a for is_a, form in _CLAUSES if form.fullmatch(clause)), None)


def _joint(lead: str | None, text: str, size: int) -> str | None:
    """Return what joins a list; an empty text: it is one phrase. None: unclear."""
    said = {"or" if each == "/" else each for each in _JOINING.findall(text)}
    if size == 1:
        return None if lead else ""
    if lead in _ANY_OF:
        return "or"
    if lead == "all of":
        said.add("and")
    fits = len(said) == 1 and said <= _LEADS.get(lead or "", {"and", "or"})
    return said.pop() if fits else None
