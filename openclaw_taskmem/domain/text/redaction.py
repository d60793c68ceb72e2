"""Remove credentials from text before it is stored or sent.

Only shapes that are hardly ever anything else are removed: a secret left in costs more than a lost
word, but a thread full of gaps helps nobody.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Final
from unicodedata import normalize

from pydantic import JsonValue

from openclaw_taskmem.domain.text.redaction_patterns import (
    mask_cut_keys,
    mask_key_tails,
    mask_shapes,
)
from taskmem_hookspecs import Change, Wake, WakeCause

MASK: Final = "[secret removed]"

_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r".*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_TOKEN: Final = re.compile(
    r"""\b(?:
      sk-[A-Za-z0-9_-]{16,}                    # OpenAI, Anthropic and their like
    | (?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{20,}
    | glpat-[A-Za-z0-9_-]{16,}
    | xox[a-eoprs]-[A-Za-z0-9%/+=-]{10,}          # Slack
    | (?:AKIA|ASIA)[A-Z0-9]{16}                # AWS
    | AIza[A-Za-z0-9_-]{30,}                   # Google
    | npm_[A-Za-z0-9]{30,}
    | pypi-[A-Za-z0-9_-]{40,}
    | hf_[A-Za-z0-9]{30,}
    | [sr]k_(?:live|test)_[A-Za-z0-9]{16,}     # Stripe
    | SG\.[\w-]{16,}\.[\w-]{16,}              # SendGrid
    | dop_v1_[a-f0-9]{40,}                     # DigitalOcean
    | \d{8,12}:AA[\w-]{30,}                   # Telegram
    | (?<=hooks\.slack\.com/services/)[\w/]{16,}
    | (?<![\w-])eyJ[\w-]{8,4000}+\.eyJ[\w-]{8,8000}+\.[\w-]{8,}       # JWT
    )""",
    re.VERBOSE,
)
_URL: Final = re.compile(r"(?<=://)([^\s/:@]{0,80}):([^\s/@]{1,200})(?=@)")
_USER: Final = re.compile(r"(?<=://)(?=[A-Za-z_-]{0,99}\d)[\w-]{20,200}(?=@)")
"""A long user name with digits in a URL, which may be a token."""
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+([A-Za-z0-9._~+/=-]{16,})")
_NAMES: Final = (
    r"(?:passw(?:or)?[dt]|passphrase|secret|(?:auth|access|refresh)[_-]?token"
    r"|(?:api|access|private|secret|signing|encryption|master|account|shared)[_-]?key)"
)
"""Names that are hardly ever followed by anything but a credential."""
_ENDED: Final = r"(?=\s{0,3}(?:$|[.,)\n]|appear|is\ gone|(?:and|or)\b))"
_PROMPTS: Final = "|".join(
    rf"(?<![^\s(\[:,]){quote}(?=\S)[^{quote}\n=:]{{0,80}}?(?i:{_NAMES})"
    rf"\s?:\s?{quote}{_ENDED}"
    for quote in "\"'"
)
"""A quoted prompt, such as "Password:", is not followed by a credential."""
_SET: Final = r"(?:\\{0,8}[\"']|%22)?\s{0,3}(?:[=:]|%3[ADad])\s{0,3}"
_ASSIGNED: Final = re.compile(
    rf"""
    ( (?i:{_NAMES}){_SET}
    | (?i:token|credentials?)\\{{0,8}}["']\s{{0,3}}:\s{{0,3}}(?=\\{{0,8}}["'])  # JSON
    | _(?:TOKEN|PASS|PWD|PAT)=(?!\$)                                # environments
    )
    ( "(?:[^"\\\n]|\\.)++
    | '(?:[^'\\\n]|\\.)++
    # JSON within a text: what ends it has as many backslashes as what opens it
    | (?P<two>\\{{1,8}}+)"(?:[^"\\]|\\++[^"\\]|(?P=two)\\++")++
    | (?P<one>\\{{1,8}}+)'(?:[^'\\]|\\++[^'\\]|(?P=one)\\++')++
    | [^\s"',;&]{{6,}}
    )
    | {_PROMPTS}
    """,
    re.VERBOSE,
)
_OPAQUE: Final = re.compile(
    rf"""
    ((?:token|(?<!session)(?<!session[_-])(?<!public)(?<!public[_-])key){_SET}
      \\{{0,8}}["']?)
    ( (?=[\w+/.~-]{{0,200}}\d) (?=[\w+/.~-]{{0,200}}[a-z])
      (?![.~]{{0,2}}/[\w.-]+/)                                          # a path
      [\w+/.~-]{{16,}}+ =*+ (?!:)
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""After less specific names: only values that do not look like words."""
_KNOWN: Final = r"""(?!["']?[\[<]|"?\$)"""
"""Not a variable, a placeholder or an earlier mask."""
_VALUE: Final = (
    rf"{_KNOWN}(?:"
    r"""\"(?:[^"\\\n]|\\.)++"?|'(?:[^'\\\n]|\\.)++'?|[^\s"'&;\\]{1,2000})"""
)
"""A word, or a whole quoted text."""
_LINE: Final = re.compile(
    rf"""
    ( (?i:\bauthorization["']?\s?[:=]\s?["']?(?:basic|bearer|token|apikey)\s+)
    | \b[A-Z0-9_]{{0,40}}PASSW(?:OR)?D=(?!["'])
    | (?<![\w-])--(?!no-)(?i:[a-z0-9]{{1,20}}[_-]){{0,4}}(?i:{_NAMES}|token)=
    | [?&](?:token|sig|signature)=(?!["'])
    | \bsshpass\s{{1,3}}(?:-v\s{{1,3}})?-p\s{{0,3}}
    )
    {_VALUE}
    """,
    re.VERBOSE,
)
"""Credentials in any command line."""
_PROGRAMS: Final = tuple(
    (
        re.compile(rf"\b{program}\b(?:(?!&&)(?:\\\n|[^\n|;]))*"),
        re.compile(
            rf"""(\s{flag}(["'])?{before})
            (?(2){_KNOWN}(?:(?!\2)[^\\\n]|\\.)++|{_VALUE})""",
            re.VERBOSE,
        ),
    )
    for program, flag, before in (
        ("curl", r"(?:-[uU]|--(?:proxy-)?user)[\s=]{0,3}", r"""[^\s:"']{0,80}:"""),
        (r"docker[ \t]{1,3}login", r"-p\s{0,3}", ""),
        (r"mysql\w{0,9}", r"-p(?!ort\b)", ""),
        ("redis-cli", r"-a\s{1,3}", ""),
    )
)
"""Command lines of programs, and their options that take a credential."""
_FLAG: Final = re.compile(
    rf"""
    ( (?<![\w-])--(?!no-)(?:[a-z0-9]{{1,20}}[_-]){{0,4}}(?:{_NAMES}|token)[ \t]{{1,3}} )
    ( "(?!\$)(?:[^"\\\n]|\\.)++ | '(?:[^'\\\n]|\\.)++
    | (?!(?:flag|option|argument|parameter|switch|value|file|is|was|are|to|and|or|for
        |from|in|with|on|of|as|the|a|an|works?|again|instead|needs?|must|can|when|if
        |it|that|which|by|has|does|not|at|then|because|takes?|expects?|requires?)\b)
      [^\s"'`$<>\[\](){{}},.;:|&\\-][^\s"'`;|&\\]{{0,2000}}
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""An option and its value; prose about options is mostly left alone."""
_FULL_WIDTH: Final = re.compile(r"[\uff01-\uff5e]+(?=\s?[!-~\uff01-\uff5e])")
"""Full-width forms of ASCII, as in Chinese and Japanese, but not at the end of a sentence."""
_OPENING: Final = re.compile(r"(?:\\{0,8}[\"'])?")
_HINTS: Final = (
    *("-----begin", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat"),
    *("glpat", "xox", "akia", "asia", "aiza", "npm_", "pypi-", "hf_", "eyj", "://"),
    *("bearer", "basic", "pass", "secret", "key", "token", "credential"),
    *("_pwd=", "_pat=", "authorization", "curl", "docker", "mysql", "redis-cli"),
    *("?sig", "&sig", "sk_live", "sk_test", "rk_live", "rk_test", "sg.", "dop_", ":aa"),
)
"""Every text with a credential has one of these, in lower case."""
_WORD: Final = re.compile(r"[\w./][\w./-]{0,80}")
"""A possible program name in a list of arguments."""
_SHORT: Final = re.compile(r"--?\w[\w-]{0,80}")
"""An option alone; the next argument may be its value."""
_KEYS: Final = re.compile(
    rf"(?i)(?:{_NAMES}|token|credentials?"
    r"|(?:^|[_-])(?:pass|pwd|authorization|cookie|bearer|otp))$"
)


def scrub(text: str) -> str:
    """Replace each credential in a text with `[secret removed]`.

    JSON is also searched by its keys. Full-width characters become ASCII if they spell a
    credential.
    """
    clean = _scrub_plain(text)
    narrow = _FULL_WIDTH.sub(_narrow_letter, clean)
    again = clean if narrow == clean else _scrub_plain(narrow)
    return clean if again == narrow else again


def _narrow_letter(wide: re.Match[str]) -> str:
    return normalize("NFKC", wide[0])


def _scrub_plain(text: str) -> str:
    text = mask_shapes(text, MASK)
    low = text.casefold()
    if not any(hint in low for hint in _HINTS):
        return text
    text = mask_key_tails(_BLOCK.sub(MASK, _scrub_json_text(text)), MASK)
    text = _TOKEN.sub(MASK, text)
    text = _USER.sub(MASK, _URL.sub(rf"\1:{MASK}", text))
    text = _LINE.sub(rf"\1{MASK}", text)
    for line, flag in _PROGRAMS:
        text = line.sub(partial(_mask_flags, flag), text)
    text = _FLAG.sub(_mask_value, text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _ASSIGNED.sub(_mask_value, text)
    return _OPAQUE.sub(_mask_value, text)


def scrub_cut(text: str) -> str:
    """Scrub a part of a longer text, which may begin within a private key."""
    return mask_cut_keys(scrub(text), MASK)


def _scrub_json_text(text: str) -> str:
    """Scrub a text by its keys if it is JSON; else return it unchanged."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = json.loads(text)
        clean = scrub_json(value)
    except (ValueError, RecursionError):
        return text
    # Keep escapes: a lone surrogate, for example, cannot be stored.
    return text if clean == value else json.dumps(clean)


def _mask_flags(flag: re.Pattern[str], line: re.Match[str]) -> str:
    return flag.sub(rf"\1{MASK}", line[0])


def _mask_value(match: re.Match[str]) -> str:
    if match[1] is None:  # a prompt
        return match[0]
    opening = _OPENING.match(match[2])
    quote = opening[0] if opening else ""
    if match[2].startswith(MASK[:7], len(quote)):
        return match[0]
    return f"{match[1]}{quote}{MASK}"


def scrub_json(value: JsonValue) -> JsonValue:
    """Replace every credential in the texts and keys of a JSON value.

    Each text under a key that is named like a credential is replaced as a whole. Keys that become
    equal are numbered, so that none is lost.
    """
    return _clean_value(value, scrub)


def _clean_value(value: JsonValue, clean_text: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        clean: dict[str, JsonValue] = {}
        for key, item in value.items():
            known = _mask_text if _KEYS.search(key) else clean_text
            name = scrub(key)
            name = _make_free_key(name, clean) if name in clean else name
            clean[name] = _clean_value(item, known)
        return clean
    if isinstance(value, Sequence):
        items = [_clean_value(item, clean_text) for item in value]
        return _mask_arguments(items) if items else items
    return value


def _mask_text(text: str) -> str:
    return MASK if text else text


def _mask_arguments(items: list[JsonValue]) -> list[JsonValue]:
    """Mask the credentials in a list that may be a program's arguments."""
    words = [item if isinstance(item, str) else "" for item in items]
    program = " ".join(takewhile(_WORD.fullmatch, words[:2]))
    clean, flag = [*items], ""
    for place, word in enumerate(words):
        shown = ""
        if word.startswith("-"):
            shown = f"{program} {word}"
        elif flag:
            shown = f"{program} {flag} {json.dumps(word)}"
        if shown and word and scrub(shown) != shown:
            clean[place] = MASK
        flag = word if _SHORT.fullmatch(word) and clean[place] == word else ""
    return clean


def _make_free_key(key: str, taken: Mapping[str, JsonValue]) -> str:
    number, name = 1, key
    while name in taken:
        number += 1
        name = f"{key} {number}"
    return name


def scrub_change(change: Change) -> Change:
    """Remove credentials from the texts that a change would store.

    Texts in its tasks, plan revisions, runs and checkpoints are left as they are: they were
    scrubbed when they were taken from a call's arguments or built.
    """
    return change.model_copy(
        update={
            "messages": tuple(
                message.model_copy(update={"content": scrub(message.content)})
                for message in change.messages
            ),
            "wakes": tuple(_scrub_wake(wake) for wake in change.wakes),
            "waits": tuple(
                wait.model_copy(update={"last_observation": scrub(wait.last_observation)})
                if wait.last_observation
                else wait
                for wait in change.waits
            ),
            "artifacts": tuple(
                made.model_copy(update={"detail": scrub(made.detail)}) for made in change.artifacts
            ),
            "ledger": tuple(
                entry.model_copy(
                    update={
                        "path": scrub(entry.path),
                        "why": scrub(entry.why) if entry.why else None,
                    }
                )
                for entry in change.ledger
            ),
            "folders": tuple(
                folder.model_copy(update={"path": scrub(folder.path)}) for folder in change.folders
            ),
            "events": tuple(
                event.model_copy(update={"data": scrub_json(dict(event.data))})
                for event in change.events
            ),
        }
    )


def _scrub_wake(wake: Wake) -> Wake:
    # The text of a stuck wake is JSON; it was scrubbed before it was serialised.
    text = wake.text if wake.cause is WakeCause.STUCK else scrub(wake.text)
    error = scrub(wake.last_error) if wake.last_error else None
    note = scrub(wake.note) if wake.note else None
    return wake.model_copy(update={"text": text, "last_error": error, "note": note})
