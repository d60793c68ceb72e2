"""Which steps a message says are done.

A message is read clause by clause, and a clause counts only when the whole of
it is one of a few known phrases. What is not understood marks nothing: a false
mark costs more than a missed one.

Source: requirement A4; ruling "marks".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# A reference to steps becomes one private character for each step, so that the
# phrases need not know how numbers are written.
_BASE: Final = 0xF0000
_EVERY: Final = 10_000
_PRIVATE: Final = re.compile("[\U000f0000-\U000fffff]")
_REF: Final = "[\U000f0000-\U000fffff]++"
# A search that began again inside of a long reference would be quadratic.
_HEAD: Final = rf"(?<![\U000f0000-\U000fffff]){_REF}"

_WORDS: Final[tuple[str, ...]] = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
    *("seventeen", "eighteen", "nineteen", "twenty"),
)
_NUMBER: Final = rf"(?:[0-9]{{1,4}}+|(?:{'|'.join(_WORDS)})(?![a-z]))"
_TO: Final = "(?: ?[-–] ?| to | through | thru )"
_AND: Final = "(?:, ?(?:and )?| and | ?& ?)"
_ITEM: Final = rf"{_NUMBER}(?:{_TO}{_NUMBER})?"
_SPAN: Final = re.compile(rf"({_NUMBER})(?:{_TO}({_NUMBER}))?")
# What would part `2–3`, `2(b)` and `2|3` into two clauses.
_END: Final = r"(?![–—|;(][0-9]|\([a-z]\))"
_REFERENCE: Final = re.compile(
    rf"(?:step[ -]?(?:#|no\.? ?|number )?(?P<one>{_NUMBER})"
    rf"(?:(?: ?/ ?| (?:out )?of )(?P<total>{_NUMBER}))?{_END}"
    rf"|(?:all (?:of )?(?:the )?)?steps (?P<many>{_ITEM}(?:{_AND}{_ITEM})*+){_END}"
    rf"|(?:all (?:of )?(?:the )?(?:(?P<count>{_NUMBER}) )?(?:planned )?steps"
    r"|every (?:single )?step)"
    r")(?: (?:of|in|from|on) (?:the|this|my|our) (?:plan|task|checklist|list)\b)?"
)

_TICK: Final = r"(?:[✅☑✔✓]\ufe0f?|\[x\])"
_DONE: Final = rf"(?:(?:done|completed?|finished|accomplished)\b|{_TICK})"
_BULLET: Final = r"(?:[-+•#]+ )*+"
_OPENER: Final = rf"(?:{_TICK} )?(?:(?:and|but|so|now|also|finally) )?"
_BE: Final = "(?: (?:is|are|was|were|has|have)(?: been)?| got)"
_ADVERB: Final = (
    "(?: (?:now|already|also|all|both|fully|just|finally|successfully|completely"
    f"|{_TICK})){{0,3}}"
)
_TAIL: Final = (
    r"(?: (?:now|already|today|too|as well|successfully|cleanly|as planned"
    r"|with(?:out(?: any)?| no) (?:errors|issues|problems)|[🎉🚀👍🥳]"
    rf"|in [0-9.]++ ?(?:m?s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?)\b|{_TICK}))*+"
)
_SUBJECT: Final = re.compile(rf"{_OPENER}{_REF}{_BE}?{_ADVERB} {_DONE}{_TAIL}")
_OBJECT: Final = re.compile(
    rf"{_OPENER}(?P<who>(?:i|we)(?:'ve| have)? |(?:i'm|i am|we're|we are|have) )?"
    r"(?:(?:just|now|already|also|successfully|finally) )*+"
    r"(?:(?:done|finished)(?: with| up)?|completed|wrapped up) "
    rf"{_REF}{_TAIL}"
)
_TICKED: Final = re.compile(rf"{_TICK} {_REF}")

_LABEL: Final = re.compile(
    rf"{_BULLET}(?:(?:(?:status|progress|quick) )?"
    r"(?:update|status|progress|summary): )?"
)
_TITLE: Final = re.compile(
    rf"({_HEAD})(?: ?: ([^:;,—\U000f0000-\U000fffff]{{1,120}}?)"
    rf" (?:[—–]|-{{1,2}}) (?={_DONE})| \(([^()\U000f0000-\U000fffff]{{1,120}})\) ?)"
)
_EQUALS: Final = re.compile(rf"({_HEAD}) ?(?:[:=—–→]|-{{1,2}}) ?(?={_DONE})")
_LISTED: Final = re.compile(
    rf"((?:{_TICK} )?(?:done|completed|finished)) ?: ?(?={_REF})"
)
_TOGETHER: Final = re.compile(
    rf"(?<![\U000f0000-\U000fffff], ){_HEAD}(?:, {_REF})*+,? (?:and|&) {_REF}"
    rf"(?= (?:are|were|have|all|both)\b| {_DONE}| ?[.!:;,(—]| -|$)"
)
_CLAUSE: Final = re.compile(r", | ?[—–;|()] ?| -{1,2} |(?= (?:and|but) |: )")
_SENTENCE: Final = re.compile(r"(?<=[.!?…]) |\n")

# Whatever follows these is supposed, wished, asked for or said by others.
_DOUBT: Final = re.compile(
    r"%|'(?:ll|d)\b|\b(?:if|unless|until|till|once|when(?:ever)?|whether|assum\w+"
    r"|suppos\w+|provided|before|after|according|should|would|could|might|may|must"
    r"|can|cannot|will|shall|need\w*|want\w*|lets?|try|tries|trying|going|hop(?:e|es"
    r"|ing|efully)|maybe|perhaps|probably|possibly|presumably|allegedly|apparently"
    r"|ideal\w*|likely|seem\w*|looks?|appears?|think\w*|thought|believe\w*|guess"
    r"|doubt\w*|expect\w*|claim\w*|say|says|said|saying|reads?|logs?|logged|outputs?"
    r"|prints?|printed|reports?|reported|told|that|wish|pretend\w*|imagine\w*"
    r"|unsure|uncertain|unclear|wonder\w*|goals?|todo|next|target|examples?"
    r"|remaining|pending|ensure|sure|true|tomorrow|tonight|soon|later|eventually"
    r"|almost|nearly|half|mostly|partly|partially|please|get|by|in progress|ongoing"
    r"|wip|given|theor\w*|criteri\w+|definition|requires?|prerequisit\w+"
    r"|(?:pre)?conditions?|depends?)\b"
)
_DENIAL: Final = re.compile(
    r"n't\b|[❌✗✘]|\b(?:not|never|neither|nor|nothing|none|cannot|unable|un(?:done"
    r"|finished|completed?)|incomplete|redo\w*|re-?open\w*|revert\w*|fail\w*"
    r"|broken?|block\w*|skip\w*|abort\w*|stuck|rework)\b"
)
# Said after a mark, these take it back ...
_CONDITION: Final = re.compile(
    r"(?:: |(?:and|but|or) )?(?:(?:if|unless|until|till|once|when|provided|assuming"
    r"|pending|except|apart|save|minus|hopefully|maybe|perhaps|probably|possibly"
    r"|presumably|apparently|almost|nearly|mostly|partly|partially|tomorrow|soon"
    r"|later|by|as soon|kind of|sort of|more or less|in theory|subject to|or|false"
    r"|(?:i|we) (?:think|hope|guess|believe|suppose|assume))\b"
    r"|[❌✗✘]|[0-9.]++ ?%$|.*?\b(?:says|said|claims?|claimed|according)\b)"
)
# ... and these do unless they go on about another step ...
_OBJECTION: Final = re.compile(
    r"(?:: )?(?:but|though|although|however|yet|not|never|still|only|no wait|wait"
    r"|actually|oops|scratch that|fail\w*|skip\w*|block\w*|abort\w*|revert\w*"
    r"|redo\w*|broken|undone|incomplete|unfinished|unable|cannot|\w+n't)\b"
)
# ... and these when the mark was but the name of a field, or a title,
_VALUE: Final = re.compile(
    r": (?:no|0|started|starting|begun|in progress|ongoing|running|waiting|todo|tbd"
    r"|next|ready|open)"
)
# ... and these as a sentence of their own.
_RECANTED: Final = re.compile(
    r"(?:oops|nope|sorry|correction|scratch that|just kidding"
    r"|(?:no|wait|actually),? (?:no|not|wait|that|it)\b"
    r"|(?:not(?: really| yet)?|hopefully|maybe|probably|almost"
    r"|i (?:think|hope|guess))$)"
)

_CURLY: Final = str.maketrans("“”„«»‘’", '"""""\'\'')
_QUOTED: Final = re.compile(
    r"```(?:(?!```)[\s\S])*+(?:```)?"
    r"|`[^`]*+`?"
    r'|"[^"]*+"?'
    r"|(?<!\w)'(?:[^']|(?<=\w)'(?=\w))*+'?"
    r"|^[ \t]*+>.*+",
    re.MULTILINE,
)
# A line that breaks off in mid-sentence goes on in the next one.
_WRAPPED: Final = re.compile(
    r"(?<![\n.!?:;)\]✅☑✔✓])(?<!done)(?<!complete)(?<!completed)(?<!finished)"
    r"(?<!failed)\n(?=[a-z]|I\b)"
)
_LAYOUT: Final = (
    (_PRIVATE, " "),
    (_QUOTED, '"'),
    (re.compile(r"https?://\S++"), '"'),
    (re.compile(r"\*+|__+"), ""),
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r" ?\n ?"), "\n"),
    (re.compile(r"(?<=:)\n+"), "\n"),
    (re.compile(r"\n\n+"), "\n\n"),
    (_WRAPPED, " "),
)


def marks(message: str, steps: int) -> frozenset[int]:
    """Find the steps that a message says are done.

    Args:
        message: What an agent wrote, in English.
        steps: How many steps the plan has; numbers beyond it are ignored.

    Returns:
        The steps, counted from 0. A step that the same message also calls
        failed or not done is not among them.
    """
    if "step" not in message.replace("*", "").replace("__", "").lower():
        return frozenset()
    text = _referenced(_plain(message), steps)
    # Who speaks of step 0 counts from 0, and means another step by each number.
    if chr(_BASE) in text:
        return frozenset()
    told: set[int] = set()
    denied: set[int] = set()
    for sentence in _statements(text):
        clauses = _clauses(sentence)
        if _RECANTED.match(sentence.rstrip(".!…")):
            told.clear()
        told |= _told(clauses)
        denied.update(*(_named(clause) for clause in clauses if _DENIAL.search(clause)))
    plan = set(range(1, steps + 1))
    counted = plan if _EVERY in told - denied else plan & told
    return frozenset(number - 1 for number in counted - denied)


def _plain(message: str) -> str:
    text = message.strip().translate(_CURLY)
    for layout, instead in _LAYOUT:
        text = layout.sub(instead, text)
    return text.lower()


def _referenced(text: str, steps: int) -> str:
    def written(match: re.Match[str]) -> str:
        one, total, many, count = match.group("one", "total", "many", "count")
        if any(size and _number(size) != steps for size in (total, count)):
            return match[0]
        if one:
            return chr(_BASE + _number(one))
        if not many:
            return chr(_BASE + _EVERY)
        spans = [
            (_number(first), _number(last or first))
            for first, last in _SPAN.findall(many)
        ]
        if any(first > last for first, last in spans):
            return match[0]
        return "".join(
            chr(_BASE + number)
            for first, last in spans
            for number in range(first, max(first, min(last, steps)) + 1)
        )

    return _REFERENCE.sub(written, text)


def _number(written: str) -> int:
    return int(written) if written.isdigit() else _WORDS.index(written)


def _statements(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        for sentence in _SENTENCE.split(paragraph):
            if sentence.endswith(":") and _doubtful(sentence):
                break
            if "?" not in sentence:
                yield sentence


def _clauses(sentence: str) -> list[str]:
    text = _LABEL.sub("", sentence, count=1)
    text = _TITLE.sub(_untitled, text)
    text = _LISTED.sub(r"\1 ", _EQUALS.sub(r"\1 ", text), count=1)
    text = _TOGETHER.sub(lambda match: "".join(_PRIVATE.findall(match[0])), text)
    return [clause.strip(" .!…") for clause in _CLAUSE.split(text)]


def _untitled(match: re.Match[str]) -> str:
    title = match[2] or match[3]
    if not _doubtful(title):
        return f"{match[1]} "
    return match[0] if match[2] else f"{match[1]}: {title}, "


def _doubtful(text: str) -> bool:
    return any(
        (_DOUBT.search(text), _DENIAL.search(text), _VALUE.fullmatch(f": {text}"))
    )


def _told(clauses: list[str]) -> set[int]:
    told: set[int] = set()
    doubted = denied = marked = False
    for clause in clauses:
        named = _named(clause)
        if (
            _CONDITION.match(clause)
            or _VALUE.fullmatch(clause)
            or (_OBJECTION.match(clause) and (not named or named & told))
        ):
            told.clear()
        doubted = doubted or bool(_DOUBT.search(clause))
        denied = denied or bool(_DENIAL.search(clause))
        marked = not doubted and _marks(clause, denied=denied, marked=marked)
        if marked:
            told |= named
    return told


def _marks(clause: str, *, denied: bool, marked: bool) -> bool:
    if found := _OBJECT.fullmatch(clause):
        # "Nothing pushed, finished step 2" may deny both.
        return not denied or bool(found["who"])
    # "Push it and step 2 is done" is a promise.
    return (marked or not clause.startswith("and ")) and bool(
        _SUBJECT.fullmatch(clause) or _TICKED.fullmatch(clause)
    )


def _named(clause: str) -> set[int]:
    return {ord(char) - _BASE for char in _PRIVATE.findall(clause)}
