"""Find credentials by what stands before them: a name, an option, a call, a program.

Each rule is about a shape: a name, a separator and a value; the arguments of a call; an element; an
option of a command. First the roots of names are found, such as `pass` and `key`; only there is
anything matched, and no match is longer than a few thousand characters, so that the time grows with
the length of the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from openclaw_taskmem.domain.text.odd_words import MASK, find_roots, is_odd

_Span = tuple[int, int]

# --- names ------------------------------------------------------------------------------------

_ROOTS: Final = (
    *("pass", "pwd", "pw", "psk", "secret", "token", "key", "credential", "auth", "encrypt"),
    *("sig", "otp", "cookie", "bearer", "_pat", "identified", "securestring", "community"),
    *("salt", "seed", "appid", "response", "code"),
)
_CALL_ROOTS: Final = (
    *("login(", "connect", "credential", "pdo(", "mysqli(", "auth", "client(", "database("),
    *("jwt.", "hmac("),
)
_SUFFIX: Final = (
    r"(?i:[_-]?(?:key[_-]?)?(?:base|value|text|string|plain|data|hash)|[_\ -]?\d{1,2})?"
)
"""Endings of names, such as a number."""
_BEFORE_KEY: Final = (
    "api|access|private|secret|signing|encryption|master|account|shared|auth|app|license|storage"
)
_SURE_NAME: Final = re.compile(
    rf"(?i)(?:pass[_-]?(?:w(?:or)?[dt]s?|phrase|code)|(?<!existing)secret|(?<![a-z])psk|authtok"
    rf"|(?:auth|access|refresh|session|security)[_.-]?token|(?:{_BEFORE_KEY})[_.-]?keys?"
    r"|key[ ]?(?:content|material))"
    rf"{_SUFFIX}$"
)
"""Names that are hardly ever followed by anything but a credential."""
_PASS_NAME: Final = re.compile(r"(?i)(?:(?<!by)(?<!com)(?<!sur)(?<!tres)pass|pwd?|psk)\d?$")
"""Names of credentials that are also names of other things."""
_TOKEN_NAME: Final = re.compile(r"(?i)(?:token|credentials?|bearer|otp|cookie|authorization|_pat)$")
_KEY_NAME: Final = re.compile(
    r"(?i)(?:token|credentials?|(?<!session)(?<!session[_-])(?<!public)(?<!public[_-])"
    r"(?:unseal[ ])?key(?:[ ]\d)?|auth|encrypt|sig(?:nature)?|salt|seed|appid|response"
    r"|(?:^|[_-])code)$"
)
"""Names after which only what does not look like words is a credential."""
_URL_PARAMETER: Final = re.compile(r"(?i)(?:^|-)(?:token|sig|signature)$|^pass|^pwd?$")
"""Parameters of a URL, after `?` or `&`."""

# --- values -----------------------------------------------------------------------------------

_VALUE: Final = re.compile(
    r"""
    [bBNrRuU@]{0,2}
    (?: `([^`\s]{1,300})(?=`)
    | \"{3}((?:(?!\"{3}).){1,2000})                 # three quotes
    | "((?:[^"\\\n]|\\.)++)
    | '((?:[^'\\\n]|\\.|'')++)
    # JSON within a text: what ends it has as many backslashes as what opens it
    | (\\{1,8}+)"((?:[^"\\]|\\++[^"\\]|\5\\++")++)
    | (\\{1,8}+)'((?:[^'\\]|\\++[^'\\]|\7\\++')++)
    )
    | ( [a-z]{4}(?:[ ][a-z]{4}){3}(?![^\s"',;&])      # a password for one application
    | \{(?![^{}\n]{1,80}:\s)[^{}\n"']{1,200}\}(?=[;\s]|$)   # ODBC
    | (?:<(?![^<>\n]{1,80}>|/)[^\s"',;&<`]{5})?[^\s"',;&<`]{1,300}+
    )
    """,
    re.VERBOSE,
)
"""A value, without its quotes as its last group; the ninth is of one without quotes."""
_BARE_GROUP: Final = 9
_MORE_OF_VALUE: Final = re.compile(r"""[&;,](?![\w.-]*\s?[=:])[^\s"'`<]{1,300}""")
"""The rest of a bare value where it is no part of a URL, a command or a list of settings."""
_REST_OF_VALUE: Final = re.compile(r"""[^\s"',;&<`]*""")
_JUDGED_CHARS: Final = 300
"""Characters of a value that are looked at; a longer one is no word or sentence."""
_STOP_WORDS: Final = frozenset(
    (
        *("absent", "and", "any", "argument", "bool", "boolean", "bytes", "changed", "char"),
        *("correct", "created", "default", "deleted", "denied", "disabled", "empty", "enabled"),
        *("error", "expired", "failed", "false", "field", "flag", "for", "from", "get", "has"),
        *("hidden", "if", "in", "incorrect", "input", "int", "integer", "invalid", "is", "it"),
        *("mandatory", "masked", "missing", "must", "needed", "nil", "no", "none", "not", "null"),
        *("number", "object", "off", "ok", "on", "option", "optional", "or", "output"),
        *("parameter", "passed", "prompt", "read", "redacted", "removed", "required", "reset"),
        *("rotated", "secretstr", "see", "self", "set", "static", "str", "string", "success"),
        *("text", "the", "to", "true", "type", "undefined", "unknown", "unset", "updated"),
        *("valid", "value", "varchar", "was", "with", "write", "wrong", "yes"),
    )
)
"""Words that say something of a credential, or its type, where one would stand."""
_FIRST_WORD: Final = re.compile(r"([A-Za-z]+)(?:\?|!(?=\W*$))?(?![\w!@#%^&*+=$~-])")
_AFTER_WORD: Final = re.compile(
    r"[]|.,;:?!)}]*$|\|[\w|:,.=-]*$|[(\[{][\w ,.:|]*[)\]}]*[,;?]?$|=(?:None|[A-Z]\w*\(?)$"
)
"""The end, or what follows a type: its arguments, others, what it is set to."""
_ANY_NAME: Final = (
    r"(?i:passw(?:or)?d|pass|passphrase|secret|token|pwd"
    rf"|(?:(?:{_BEFORE_KEY})_?)?key)"
)
_TEMPLATE: Final = re.compile(
    rf"""
    \[secret\b | [(\[][A-Za-z_ -]*[)\]]?\W*$ | <[%\w][^<>]*>\W*$ | <%=[^<>]*$
    | (?:\${{1,2}}(?:[A-Z_][A-Z0-9_]*|\w*{_ANY_NAME}|this\b|\d)(?=$|[/:.,;)\]}}"\[-]))
    | \$(?:$ | \{{{{?(?!.*\}}\w) | \((?!.*\)\w)) | %\w+%$ | %[sd]$ | %\([A-Za-z_]+(?:\)[sd])?$
    | \{{\{{(?!.*\}}\w) | \{{\s?[A-Za-z_.]*(?:[!:]\w*)?\s?\}}{{0,2}}$
    | \#\{{(?:[^}}]*\}}|[A-Za-z_.]*[\[(]?$)
    | :[a-z_]+$ | [?*.\u2026|>]+-?$ | [*xX\u2022]{{3,}}$ | @Microsoft\.KeyVault | \w{{2,9}}://[\w./:@-]*$
    | !(?:Ref|Sub|GetAtt|ImportValue|vault|ENV|env|secret)(?=\s|$) | arn:aws | env:[A-Z_]+$
    | (?:vault|file|ssm):\.{{0,2}}[\w.-]*/[\w./:\#-]*$ | your[_-][\w-]*{_ANY_NAME}[a-z_-]*$
    | (?:~|\.{{1,2}}|/(?:app|dev|etc|home|keys|mnt|opt|proc|root|run|secrets|srv|tmp|usr|Users|var))
      (?:/[\w.-]+)+/?$
    | [A-Z]:\\{{1,2}}(?:[\w.-]+\\{{1,2}})+[\w.-]*$
    """,
    re.VERBOSE,
)
"""Variables, placeholders, paths and addresses, to their end."""
_WORD_OF_CODE: Final = r"[A-Za-z_]+(?:\d{1,2}(?=\W|_|$))?"
_ROOT_OF_CODE: Final = re.compile(
    r"(?:os\.(?:environ|getenv)|process\.env|getenv|env|ENV)[.(\[]"
    r"|(?:args|config|data|local|module|opts|options|request|self|settings|this|var)\.[A-Za-z_]++(?!\d)"
)
"""Beginnings of what is certainly code: attributes, and the environment."""
_CALL_VALUE: Final = re.compile(
    rf"{_WORD_OF_CODE}(?:(?:\.|->|::|\(\)\.){_WORD_OF_CODE})*!?(?:<\w*>)?[(\[](?!.*[)\]]\w)"
)
_ITEM_END: Final = re.compile(r"[)\]]*\s?(?:[,;}]|\|\|)")
_ARGUMENT_END: Final = re.compile(r",(?:\s|$)|\)")
_METHOD_CALL: Final = re.compile(
    r"\w*(?:[.:_]|->|[a-z][A-Z]|^(?i:env|getpass|getenv|input|prompt)\()"
)
"""A call that is no word with something in brackets."""
_VARIABLE: Final = re.compile(
    rf"(?:\w+(?:\.|->|::))*(?:\w*(?:_|(?<=[a-z])(?=[A-Z])))?{_ANY_NAME}[)\]}}!]*$"
)
"""A variable named like a credential."""
_CODE_VALUE: Final = re.compile(
    rf"""
    [a-z_]+\d?(?:(?:\.|->|::){_WORD_OF_CODE})+[!;)}}\]]*$           # an attribute
    | [A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+[)\]}}]*$                    # a constant
    """,
    re.VERBOSE,
)
_LABEL: Final = re.compile(
    rf"\s*$|(?=[A-Z][a-z]){_ANY_NAME}$|(?=[A-Z])[A-Za-z' ]*{_ANY_NAME}[a-z' ()]*[?:]\s*$"
    rf"|(?:(?:The|Your) )?{_ANY_NAME} (?:is|was|must|has|cannot|does|should)"
    r" (?:be|expired|incorrect|invalid|mandatory|missing|needed|not|required|too|wrong)\b"
    r"[a-z' ,]*[.!]?$"
)
_MIXED_VALUE: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{5,}|(?=.*[A-Za-z]).*[!@#$%^&*+=~?].*")
"""Letters with digits or other characters."""
_ALGORITHM: Final = re.compile(r"(?i)(?:sha|md|base|argon|bcrypt|utf|pbkdf|v)-?\d")


def is_label(value: str) -> bool:
    """Return whether a value is what a person reads: a prompt, a heading, a message."""
    return len(value) <= _JUDGED_CHARS and _LABEL.match(value) is not None


def is_reference(value: str) -> bool:
    """Return whether a value only stands for a credential: a variable, a type, a placeholder."""
    if len(value) > _JUDGED_CHARS:
        return value.startswith(MASK[:7])
    if _TEMPLATE.match(value):
        return True
    word = _FIRST_WORD.match(value)
    if word is None or word[1].lower() not in _STOP_WORDS:
        return False
    return _AFTER_WORD.match(value, word.end()) is not None


def is_secret_name(name: str) -> bool:
    """Return whether a key of JSON is named like a credential."""
    return any(kind.search(name) for kind in (_SURE_NAME, _PASS_NAME, _TOKEN_NAME))


_OPAQUE_VALUE: Final = re.compile(r"\{?[\w+/.~-]{16,300}={0,3}\}?")
_WORDS: Final = re.compile(r"(?:[A-Za-z]*\d{0,4}|\d*)$")
_CASE_CHANGE: Final = re.compile("[a-z][A-Z]")


def _is_opaque(value: str) -> bool:
    """Return whether a value does not consist of words, numbers and versions."""
    if not _OPAQUE_VALUE.fullmatch(value):
        return False
    parts = re.split(r"[-_./:~+={}]", value)
    return any(not _WORDS.match(part) or _is_chaotic(part) for part in parts)


def _is_chaotic(word: str) -> bool:
    """Return whether small and capital letters alternate more than in names."""
    least, share = 10, 4
    return len(word) >= least and len(_CASE_CHANGE.findall(word)) * share >= len(word)


# --- a name, a separator and a value ----------------------------------------------------------

_TYPE_AFTER_NAME: Final = (
    r"(?:\[\d{0,4}\])?(?:\s?:?\s?(?:str|string|String|&(?:'static\s)?str)(?=\s?=))?"
)
_NAME_PATTERN: Final = re.compile(
    rf"""
    (?: (?i:pass(?:[_-]?(?:w(?:or)?[dt]|phrase|code))?|pwd?|psk|secret|token|credentials?
        |key(?:s|[ ]?(?:content|material))?|auth(?:orization|tok)?|encrypt|sig(?:nature)?|otp
        |cookie|bearer|_pat|community|salt|seed|appid|response|code){_SUFFIX}
      | (?i:identified\s{{1,3}}by|securestring(?:\s{{1,3}}-string)?) )
    (?: (?P<set>
        (?:\\{{0,8}}["'`*]|%22)?\]?{_TYPE_AFTER_NAME}\s{{0,20}}
        (?:=>|:=|<-|!?={{1,3}}|:(?!:)|%3[ADad]|\|\||\?\?)\*{{0,2}}[ \t]{{0,9}})
    | (?P<call> \(\s{{0,3}}(?=[bru]?["'])|["']\s{{0,3}},\s{{0,3}}(?=[bru]?["']))
    | (?P<pair> ["']?(?:</\w{{1,20}}>)?[\s,;&]{{0,40}}(?:-\s|--?[a-zA-Z-]{{1,20}}\s)?
        (?:<(?:string|value)>|["']?\w{{0,20}}(?i:value)["']?\s{{0,3}}[=:][ \t]{{0,3}})
        | ["']\s{{0,3}}\{{[^{{}}]{{0,300}}?\bdefault\s{{0,3}}=\s{{0,3}})
    | (?P<element> ["']?(?:\s[^<>]{{0,99}})?>
        (?:\s{{0,40}}<(?i:value|string)>)?(?=[^<>]{{1,4000}}</))
    | (?P<space> ["']?[ \t]{{1,9}}
        |(?<=_TOKEN)\n(?=\w{{0,99}}[a-z])(?=\w{{8,200}}[ \r]?(?:\n|\Z))) )
    """,
    re.VERBOSE,
)
_ELEMENT: Final = re.compile(r"([^<>]+)")
_NAME_CHARS: Final = re.compile(r"[\w.-]{0,80}")
_SETTER_CALL: Final = re.compile(r"(?i)(?:^|[._>])(?:set|with|use|\w*\.)[\w]*$")
_SETTING_CALL: Final = re.compile(
    r"(?i)(?:set|put|define|add|env|config|propert|with|header|param|store)\w{0,30}\(\s{0,3}"
    r"[\"'][\w.-]{0,80}$"
)
"""A call that gives a name and a value."""
_NAME_BEFORE_QUOTE: Final = re.compile(
    r"(?i)(?:passw(?:or)?[dt]|passphrase|psk|pwd|\bby|securestring(?:\s{1,3}-string)?)$"
)
"""Names that a quoted credential may follow after a space."""
_USER_LINE: Final = re.compile(r"(?i)(?:^|\n)[ \t]*[\w.-]*user[\w.-]*[ \t]+\S+[ \t]*\n[ \t]*$")
"""A line that names a user, before that of the password."""
_SET_LINE: Final = re.compile(r"(?im)(?:^\s*|\b(?:setx?|export)\s+(?:-\w+\s+)?)[\w.-]*$")
_COMPOUND_PASS: Final = re.compile(
    r"(?i)\w[_.-](?:pass|pwd?)$|(?-i:[a-z](?:Pass|Pwd|PWD))$|^(?:--)?pwd?$|^--pass$"
)
"""Names that say whose password it is, or that mean nothing else."""
_COMPOUND_TOKEN: Final = re.compile(r"\w[_.-](?i:token)$|[a-z]Token$")
"""Names that say what the token is for."""
_APP_PASSWORD: Final = re.compile(r"[a-z]{4}(?: [a-z]{4}){3}")
_LOOSE_NAME: Final = re.compile(r"(?i)passw|secret|community$|by$|auth$|tion-key$")
"""Names after which also a word with a digit, or words that are joined, are a credential."""
_PASS_END: Final = re.compile(r"(?i)(?:passphrase|psk|pass|pwd?)$")
_WEAK_PASSWORD: Final = re.compile(r"(?=.*\d)[A-Za-z][\w.!#$%^&*-]{5,40}")
_STATEMENT_END: Final = re.compile(r"[\"'][ \t]*;?[ \t]*(?:[\r\n]|$)")
"""The end of a line of settings, from the quote that closes its value."""
_NO_VALUE_END: Final = re.compile(r"[ ]\|[ ][A-Z]|(?<=[a-z]=)[\"']\S")
"""The text after a value that is a type or the name of an attribute."""
_STARTS_LINE: Final = re.compile(r"(?:^|\n)[ \t]*$")
_LINE_END: Final = re.compile(r"[ \t]*(?:[\r\n]|$)")
_PROMPT_END: Final = re.compile(
    r"""\s?:\s?["'](?=\s{0,3}(?:$|[.,)\n]|[A-Z_]+\s*$|appear|is\ gone|(?:and|or)\b))"""
)
_LEAST_CHARS: Final = 6
"""Characters of a credential without quotes, at least."""
_LEAST_PASS_CHARS: Final = 4
_CLAUSE_END: Final = re.compile(r"""["']|["']?\s{0,2}(?:$|[\n,;&}\])#]|--)""")
_CONTEXT_CHARS: Final = 120
"""Characters before a name that are looked at."""


class _NamedValue(NamedTuple):
    """A name in a text, and a value that may be a credential."""

    text: str
    name_start: int
    name_end: int
    kind: str
    """The kind of separator: a group of `_NAME_PATTERN`."""
    separator: str
    start: int
    end: int
    is_bare: bool
    """True if the value has no quotes, nor any element around it."""

    @property
    def name(self) -> str:
        return self.text[self.name_start : self.name_end]

    @property
    def value(self) -> str:
        return self.text[self.start : self.end]

    @property
    def is_tight(self) -> bool:
        """True if `=` alone is between them."""
        return self.separator == "="

    @property
    def before(self) -> str:
        """The text before the name."""
        return self.text[max(0, self.name_start - _CONTEXT_CHARS) : self.name_start]


def mask_named(text: str) -> str:
    """Replace each credential that follows a name; the names stay."""
    pieces: list[str] = []
    done = 0
    for at in find_roots(text, _ROOTS):
        is_mask = at > 0 and text.startswith(MASK, at - 1)
        if at >= done and not is_mask and (span := _find_named(text, at)):
            pieces += (text[done : span[0]], MASK)
            done = span[1]
    return _mask_calls("".join((*pieces, text[done:])))


def _find_named(text: str, at: int) -> _Span | None:
    """Return where the value of the name at a place is, if it is a credential."""
    match = _NAME_PATTERN.match(text, at)
    if match is None:
        return None
    kind = match.lastgroup or ""
    value = (_ELEMENT if kind == "element" else _VALUE).match(text, match.end())
    if value is None or not value.lastindex:
        return None
    before = _NAME_CHARS.match(text[max(0, at - 80) : at][::-1])
    start, end = value.span(value.lastindex)
    is_bare = value.lastindex == _BARE_GROUP
    if match[kind] != "=" and (more := _MORE_OF_VALUE.match(text, end)):
        end = more.end()
    if is_bare and text[start] != "{":
        end = start + len(text[start:end].rstrip(")]}.|"))
    name_start = at - (before.end() if before else 0)
    place = (name_start, match.start(kind), kind, match[kind])
    candidate = _NamedValue(text, *place, start, end, is_bare)
    if start == end or _is_named_only(candidate) or not _JUDGES[kind](candidate):
        return None
    rest = _REST_OF_VALUE.match(text, end) if end - start >= _JUDGED_CHARS else None
    return start, rest.end() if rest else end


def _is_named_only(pair: _NamedValue) -> bool:
    """Return whether a value only stands for a credential.

    In `NAME=value`, a word such as `required` is itself the credential.
    """
    is_variable = pair.is_tight and pair.name.isupper() and len(pair.value) >= _LEAST_CHARS
    return is_reference(pair.value) and not (is_variable and pair.value.lower() in _STOP_WORDS)


def _is_sure(name: str) -> bool:
    return bool(_SURE_NAME.search(name) or _PASS_NAME.search(name))


def _is_set_secret(pair: _NamedValue) -> bool:
    """Return whether a value that a name is set to is a credential."""
    is_prompt = _PROMPT_END.match(pair.text, pair.name_end)
    is_path = pair.separator == ":" and re.search(r"[a-z\d]:$", pair.before)
    is_short = pair.end - pair.start == 1
    is_type = pair.is_bare and _NO_VALUE_END.match(pair.text, pair.end)
    if is_prompt or is_path or is_short or is_type:
        return False
    if _is_code(pair) if pair.is_bare else is_label(pair.value):
        return False
    if pair.before.endswith(("?", "&", "#")) and _URL_PARAMETER.search(pair.name):
        return True
    if _SURE_NAME.search(pair.name):
        return not pair.is_bare or pair.is_tight or _stands_alone(pair)
    is_pass = _PASS_NAME.search(pair.name) is not None and _is_pass(pair)
    is_key = _KEY_NAME.search(pair.name) is not None and _is_opaque(pair.value)
    return is_pass or is_key or _is_token(pair)


def _is_code(pair: _NamedValue) -> bool:
    """Return whether a bare value is an expression of code.

    In `NAME=value`, only a read of the environment or of a well-known attribute is. Where blanks
    are around `=`, or in a call or an object, a lone attribute, constant or variable is, too.
    """
    value, mark = pair.value, pair.separator.strip(" \t\n\"'`*\\")
    if mark.endswith("==") or mark == "!=":
        return not _MIXED_VALUE.match(value)
    is_call = _CALL_VALUE.match(value) is not None
    is_expression = is_call or _VARIABLE.match(value) is not None
    is_in_call = pair.before.rfind("(") > pair.before.rfind(")")
    if value == pair.name and _ARGUMENT_END.match(pair.text, pair.end):
        return True
    if pair.is_tight and not is_in_call:
        return _ROOT_OF_CODE.match(value) is not None
    if _ROOT_OF_CODE.match(value):
        return True
    if mark != ":":
        return is_expression or _CODE_VALUE.match(value) is not None
    is_item = _ITEM_END.match(pair.text, pair.end) is not None
    return is_expression and (is_item or is_call)


def _stands_alone(pair: _NamedValue) -> bool:
    """Return whether a bare value is no word of a sentence."""
    is_word = pair.value.replace("-", "").isalpha() and not _CLAUSE_END.match(pair.text, pair.end)
    return len(pair.value) >= _LEAST_CHARS and not is_word


def _is_pass(pair: _NamedValue) -> bool:
    """Return whether the value of `pass` or `pwd` is a credential, and no count."""
    value = pair.value
    is_compound = _COMPOUND_PASS.search(pair.name) is not None
    if len(value) < _LEAST_PASS_CHARS or (value.isdigit() and not is_compound):
        return False
    if not pair.is_bare:
        return is_compound or " " not in value or _APP_PASSWORD.fullmatch(value) is not None
    if is_compound or _STARTS_LINE.search(pair.before):
        return pair.is_tight or _stands_alone(pair)
    in_list = pair.is_tight and pair.before.rstrip().endswith((";", "&", "?"))
    return in_list or _MIXED_VALUE.match(value) is not None


def _is_token(pair: _NamedValue) -> bool:
    """Return whether the value of a token is certainly one."""
    if re.search(r"_(?:TOKEN|PAT|AUTH)$", pair.name):
        return pair.is_tight or not pair.is_bare or _MIXED_VALUE.match(pair.value) is not None
    if pair.name.startswith("--") and pair.name.endswith("token"):
        return pair.is_tight
    if _COMPOUND_TOKEN.search(pair.name) and _MIXED_VALUE.match(pair.value):
        return True
    has_quotes = not pair.is_bare and pair.separator.lstrip("\\")[0] in "\"'"
    return has_quotes and _TOKEN_NAME.search(pair.name) is not None


def _is_argument(pair: _NamedValue) -> bool:
    """Return whether a call sets the name to the value."""
    if not (_is_opaque(pair.value) or is_secret_name(pair.name)) or pair.name.endswith("getpass"):
        return False
    if pair.separator[0] == "(":
        is_alone = pair.text[pair.end + 1 : pair.end + 2] != ","
        return is_alone and _SETTER_CALL.search(pair.name) is not None
    return _SETTING_CALL.search(pair.before + pair.name) is not None


def _is_content(pair: _NamedValue) -> bool:
    """Return whether a value is that of an element with that name, or of a pair."""
    ends = '<:"' if pair.kind == "element" else "\"'=:>"
    if is_label(pair.value) or not pair.before.rstrip().endswith((*ends, "'")):
        return False
    return _is_sure(pair.name) or _is_opaque(pair.value)


def _is_spaced_secret(pair: _NamedValue) -> bool:
    """Return whether what follows a name after a space is a credential."""
    if pair.name.startswith("--"):
        return _is_option_value(pair)
    is_compound = re.search("[_-]", pair.name) and is_secret_name(pair.name)
    is_loose = bool(is_compound or _LOOSE_NAME.search(pair.name))
    is_named = is_loose or pair.name == "key" or _is_sure(pair.name)
    is_random = _is_sure(pair.name) and _is_opaque(pair.value)
    if is_random or (is_named and is_odd(pair.value, or_joined=is_loose)):
        return True
    if pair.is_bare:
        return _is_bare_word(pair, is_loose=is_loose)
    if _STATEMENT_END.match(pair.text, pair.end):
        return _is_sure(pair.name) or _MIXED_VALUE.match(pair.value) is not None
    has_name = _NAME_BEFORE_QUOTE.search(pair.text[max(0, pair.name_end - 30) : pair.name_end])
    return has_name is not None and pair.text[pair.start - 1] in "\"'"


def _is_bare_word(pair: _NamedValue, *, is_loose: bool) -> bool:
    """Return whether a word after a name and a space is a credential."""
    value = pair.value
    ends_line = _LINE_END.match(pair.text, pair.end) is not None
    if ends_line and (
        (pair.name == "PASS" and "/" not in value and _STARTS_LINE.search(pair.before))
        or (_is_sure(pair.name) and _USER_LINE.search(pair.before))
    ):
        return True
    if not _MIXED_VALUE.match(value) or _ALGORITHM.match(value):
        return False
    if is_loose and _WEAK_PASSWORD.fullmatch(value):
        return True
    is_set = _SET_LINE.search(pair.before + pair.name) is not None
    return ends_line and is_set and _PASS_END.search(pair.name) is not None


def _is_option_value(pair: _NamedValue) -> bool:
    if pair.name.startswith("--no-") or not (
        _SURE_NAME.search(pair.name)
        or _TOKEN_NAME.search(pair.name)
        or _COMPOUND_PASS.search(pair.name)
    ):
        return False
    is_prose = pair.value.lower() in _OPTION_PROSE or _METAVARIABLE.fullmatch(pair.value)
    return not (is_prose or pair.value[0] in "-\\(|")


_OPTION_PROSE: Final = frozenset(
    (
        *("switch", "are", "of", "as", "an", "works", "again", "instead", "needs", "can", "when"),
        *("that", "which", "by", "does", "at", "then", "because", "takes", "file", "expects"),
        *("requires", "use", "pass", "options"),
    )
)
_METAVARIABLE: Final = re.compile(r"[A-Z_]{2,16}\]{0,2}")
_JUDGES: Final[Mapping[str, Callable[[_NamedValue], bool]]] = {
    "set": _is_set_secret,
    "call": _is_argument,
    "pair": _is_content,
    "element": _is_content,
    "space": _is_spaced_secret,
}


# --- the arguments of a call ------------------------------------------------------------------

_CALL: Final = re.compile(
    r"(?i:(?P<login>login|credentials?(?:impl)?|auth\w{0,12})|(?P<client>client)"
    r"|(?P<open>connect(?:ion)?|pdo|mysqli|database)|(?P<sign>jwt\.\w{1,20}|hmac))\s?=?\s?\("
)
_ARGUMENT: Final = re.compile(
    r"""\s{0,9}(?:[bru]?(?:"((?:[^"\\\n]|\\.){0,400})"|'((?:[^'\\\n]|\\.){0,400})')
    |[^,"'()]{0,200}(?:\([^()]{0,200}\))?[^,"'()]{0,200})(?:\.\w{1,30}\(\))?\s{0,9}([,)])""",
    re.VERBOSE,
)
_MOST_ARGUMENTS: Final = 6


def _mask_calls(text: str) -> str:
    """Mask the credentials among the arguments of calls that log in or connect."""
    pieces: list[str] = []
    done = 0
    for at in find_roots(text, _CALL_ROOTS):
        call = _CALL.match(text, at) if at >= done else None
        for begin, end in _find_credentials(text, call) if call else ():
            pieces += (text[done:begin], MASK)
            done = end
    return "".join((*pieces, text[done:]))


def _find_credentials(text: str, call: re.Match[str]) -> Iterator[_Span]:
    """Yield where credentials are among the arguments of a call.

    Those are the second argument and what follows of a login, of credentials and of a client, but
    the third and what follows of a connection, which must begin with a host, and of a login that
    begins with a URL. An odd word is one wherever it stands.
    """
    spans: list[_Span | None] = []
    at = call.end()
    for _ in range(_MOST_ARGUMENTS):
        argument = _ARGUMENT.match(text, at)
        if argument is None:
            break
        group = 1 if argument[1] is not None else 2
        spans.append(argument.span(group) if argument[group] is not None else None)
        at = argument.end()
        if argument[3] == ")":
            break
    first = text[slice(*spans[0])] if spans and spans[0] else None
    has_user = len(spans) > 2 and "://" in (first or "")  # noqa: PLR2004
    first_place = 2 if call.lastgroup == "open" or has_user else 1
    if call.lastgroup == "open" and first is not None and not re.search("[.:/]|localhost", first):
        first_place = len(spans)
    for place, span in enumerate(spans):
        value = text[slice(*span)] if span else ""
        if span and is_odd(value):
            yield span
            continue
        if span is None or place < first_place or call.lastgroup == "sign":
            continue
        is_long = call.lastgroup != "client" or _is_opaque(value)
        if value and is_long and not value.isdigit() and not is_reference(value):
            yield span


# --- options of programs ----------------------------------------------------------------------

_NOT_A_VARIABLE: Final = r"""(?!["']?[\[<]|"?\$)"""
_OPTION_VALUE: Final = (
    rf"{_NOT_A_VARIABLE}(?:"
    r"""\"((?:[^"\\\n]|\\.)++)|'((?:[^'\\\n]|\\.)++)|([^\s"'&;\\]{1,2000}))"""
)
_PROGRAMS: Final = tuple(
    (
        hint,
        re.compile(
            rf"(?<![\w.-]){program}\b(?:(?!&&)(?:\\\n|[^\n|;'\"]|'[^'\n]*'?|\"[^\"\n]*\"?))*"
        ),
        re.compile(
            rf"""(\s{flag}(["'])?{before})
            (?(2)((?!\$)(?:(?!\2)[^\\\n]|\\.)++)|{_OPTION_VALUE})""",
            re.VERBOSE,
        ),
    )
    for hint, program, flag, before in (
        ("curl", "curl", r"(?:-[uU]|--(?:proxy-)?user)[\s=]{0,3}", r"""[^\s:"']{0,80}:"""),
        ("curl", "curl", r"(?:-b|--cookie)[\s=]{0,3}", r"""[^\s=;"']{1,80}="""),
        ("http", r"https?(?=[ ])", r"(?:-a|--auth)[\s=]{0,3}", r"""[^\s:"']{1,80}:"""),
        ("login", r"[\w.-]{1,20}[ \t](?:registry[ \t])?login", r"-p\s{0,3}", ""),
        ("mysql", r"mysql\w{0,9}", r"-p(?!ort\b)(?!\s)", ""),
        ("mongo", r"mongo\w{0,9}", r"-p\s{0,3}", ""),
        ("redis-cli", "redis-cli", r"-a\s{1,3}", ""),
        ("sshpass", "sshpass", r"(?<=sshpass\s)(?:-v\s{1,3})?-p\s{0,3}", ""),
        ("mosquitto", r"mosquitto_\w{3}", r"-P\s{1,3}", ""),
        ("oathtool", "oathtool", r"(?:-b|--base32)\s(?:-\S+\s)?", ""),
        ("zip", r"(?:un)?zip", r"-P\s{0,3}", ""),
        ("ssh-keygen", "ssh-keygen", r"-[NP]\s{1,3}", ""),
        ("ldap", r"ldap[a-z]{1,10}", r"-w\s{1,3}", ""),
        ("snmp", r"snmp[a-z]{1,10}", r"-[AX]\s{1,3}", ""),
        ("users", "elasticsearch-users", r"-p\s{1,3}", ""),
        ("7z", r"7z[ar]?[ ]\w", r"-p(?!\s)", ""),
        ("rar ", r"(?:un)?rar[ ]\w", r"-h?p(?!\s)", ""),
        ("openssl", r"openssl (?:enc|aes|des)[\w-]{0,20}", r"-k\s{1,3}", ""),
        ("pass", r"openssl", r"-pass(?:in|out)?[ ]", "pass:"),
        ("pass", r"(?:keytool|jarsigner)", r"-(?:store|key)pass\s{1,3}", ""),
    )
)
"""Programs, and their options that take a credential."""
_MIXED_WORD: Final = r"(?=[\"']?[^\s\"']{0,80}[A-Za-z])(?=[\"']?[^\s\"']{0,80}[\d!@#$%^*+=~?])"
_AFTER_USER: Final = (
    r"(?<!\S)(?:-[uUD]\s{0,3}|--user(?:name)?[\s=]{1,3}|/u:)(?!-)[\w.@\\,=-]{1,80}\s{1,3}"
    r"(?:-\S{1,40}\s{1,3}(?:[^\s-]\S{0,80}\s{1,3})?){0,3}?"
    r"(?:-(?:[pPw]|pw|-pass)[\s=]{1,3}(?!=)|/p:)[\"']?(?!\d[\d.]*[:-])"
    rf"{_MIXED_WORD}"
)
"""The option of a user and that of a password, beside each other; no port, level or path."""
_AFTER_COMMAND: Final = (
    r"(?:\b(?:(?:add|create|set|change|reset)[_-]?(?:user|password)|user[:_-]?(?:add|create|password))"
    r"\s{1,3}[\w.@-]{1,80}|user\s{1,3}(?:\w{1,20}\s{1,3})?[\w.+-]{1,80}@[\w.-]{1,80})\s{1,3}"
    rf"(?!-){_MIXED_WORD}"
)
"""A command that creates a user or sets a password, and the user."""
_AFTER_LOGIN: Final = r"\b(?:login|authtoken)\s{1,3}(?=[\w.~+/=-]{20})(?=[^\s\d]{0,19}\d)(?!-)"
_FLAGS: Final = r"\s{1,3}(?:-\w{1,9}\s{1,3}){0,3}?"
_POSITIONS: Final = tuple(
    (
        hint,
        re.compile(
            rf"({before})(?!\[secret){_NOT_A_VARIABLE}[\"']?([^\s\"'`;&|/][^\s\"'`]{{3,400}})"
        ),
    )
    for hint, before in (
        *((hint, _AFTER_USER) for hint in (" -p", " -P", " --pass", " /p:")),
        ("auth-pass", r"\bauth-pass\s{1,3}[\w.-]{1,80}\s{1,3}"),
        (
            "rabbitmqctl",
            r"\brabbitmqctl[ ][^\n|;]{0,80}?(?:_user|_password)[ ]{1,3}[\w.@-]{1,80}[ ]{1,3}(?!-)",
        ),
        *((hint, _AFTER_COMMAND) for hint in ("user", "passw")),
        (
            "htpasswd",
            rf"\bhtpasswd{_FLAGS}-\w{{0,5}}b\w{{0,5}}{_FLAGS}\S{{1,200}}\s{{1,3}}\S{{1,80}}\s{{1,3}}",
        ),
        ("unseal", r"\boperator unseal\s{1,3}(?!-)"),
        ("--secret", r"\bconfig set\s[^\n|;]{0,80}?--secret\s{1,3}[\w:.-]{1,80}\s{1,3}(?!-)"),
        ("net user", r"(?i:\bnet user)\s{1,3}[\w.-]{1,80}\s{1,3}(?=\S*[\d!@#$%^&*])(?!/|\*)"),
        (
            "alias set",
            r"\bmc(?:li)? alias set\s{1,3}\S{1,80}\s{1,3}\S{1,200}\s{1,3}\S{1,80}\s{1,3}",
        ),
        *((hint, _AFTER_LOGIN) for hint in ("login", "authtoken")),
        ("enable ", r"\benable (?:password|secret) \d "),
        ("stats auth", r"\bstats auth\s{1,3}[^\s:]{1,80}:"),
        ("login=", r"\blogin=[^\s:&=]{1,80}:"),
        ("login=", r"-D[\w.]{0,80}\.login=(?=\S{20})"),
        ("-u ", r"\s-u\s{1,3}[\w.@-]{1,80},(?=[A-Za-z])"),
        ("rtmp", r"\brtmps?://[^\s/]{1,200}/\w{1,40}/"),
        (" PASS ", rf"\sPASS\s[^\s:]{{1,80}}:{_MIXED_WORD}"),
        (
            "hook",
            (
                r"https?://[^\s\"'<>]{0,80}?hooks?[\w.]{0,30}/(?:[a-z]{1,19}/){0,5}+"
                r"(?=(?:\w{1,19}/){0,3}[\w@-]{20})(?![a-z]{3,19}-)"
                r"(?=(?:[\w@/-]{0,60}?\d[A-Za-z]){2})"
            ),
        ),
        ("WIFI:", r"WIFI:[^\n]{0,200}?;P:"),
        (" : ", r"\s:\s(?:PSK|EAP|XAUTH|NTLM)\s{1,3}"),
        ("-y ", r"\s-y\s{1,3}(?:hmac-[\w-]{1,20}:)?+[\w.-]{1,80}:"),
        ("USERPWD", r"USERPWD,\s{0,3}\"[^\s:\"]{1,80}:"),
        ("IDENTIFY", r"(?i:\bnickserv\b)\s{0,3}:?IDENTIFY\s{1,3}"),
        ("\t", r"\t(?:TRUE|FALSE)\t\d{1,12}\t[^\t\n]{1,200}\t"),
        ("REG_SZ", r"(?i:passw\w{0,9}\s[^\n|&]{0,60}/d\s{1,3})"),
        (" * ", rf"(?m:^)[\w\"@.*-]{{1,80}}[ \t]{{1,9}}\*[ \t]{{1,9}}\"?{_MIXED_WORD}"),
        (" -", rf"\s--?(?:auth|user(?:name)?)[\s=]{{1,3}}[\"']?[^\s:\"'/]{{1,80}}:{_MIXED_WORD}"),
        ("%", r"\s-U\s{0,3}[\"']?[^\s%\"']{1,80}%"),
        ("New value:", r"(?i:password)[^\n]{0,100}\n{1,2}New value:\s{1,3}"),
        (" --", r"(?i:secret|passw|token)[^\n|;]{0,200}\s--(?:value|body)[\s=]{1,3}"),
        ("<<<", r"(?i:secret|passw|token|env add)[^\n|<]{0,100}<<<\s{0,3}"),
        ("]:", r"(?m:^)\[[\w.-]{3,80}\]:\d{2,5}\s{1,9}[^\s:@]{1,80}@[^\s:]{1,80}:"),
    )
)
"""Lines in which a credential has a place of its own, without a name."""
_TRANSLATIONS: Final = (
    *("mot de passe", "contraseña", "contrasena", "senha", "wachtwoord", "hasło", "lösenord"),
    *("пароль", "密码", "密碼", "パスワード", "비밀번호"),
)
"""`Password` in other languages."""
_PHRASES: Final = (
    (
        ("phrase", "mnemonic", "words"),
        re.compile(
            r"(?i)(\b(?:(?:seed|recovery|backup)[ _](?:phrase|words)|mnemonic)[\"']?\s{0,3}[:=]"
            r"\s{0,3}[\"']?)[a-z]{3,8}(?: [a-z]{3,8}){11,23}\b"
        ),
    ),
    (
        ("pin",),
        re.compile(
            r"((?:(?<!\w)PIN\b[^\n.]{0,40}?(?:\bis|[:=])\s{0,3}"
            r"|(?:--pin|\b(?i:set|change|reset)[_ -]?(?i:pin))[\s=:(]{1,3}[\"']?))\d{4,8}\b"
        ),
    ),
    (
        _TRANSLATIONS,
        re.compile(
            rf"(?i)((?:{'|'.join(_TRANSLATIONS)})[\"'`]?\s{{0,3}}[:=：＝]\s{{0,3}}[\"'`]?)"
            r"(?=[^\s\"'`]{0,80}\d)(?=[^\s\"'`]{0,80}[A-Za-z])[^\s\"'`,;]{5,200}"
        ),
    ),
)
"""The words of a wallet; after `password` in other languages, what has letters and digits."""


def mask_options(text: str) -> str:
    """Replace the credentials that are given to well-known programs."""
    for hint, line, flag in _PROGRAMS:
        if hint in text:
            text = line.sub(partial(_mask_flags, flag), text)
    for hint, place in _POSITIONS:
        if hint in text:
            text = place.sub(_mask_last, text)
    low = text.casefold()
    for hints, place in _PHRASES:
        if any(map(low.__contains__, hints)):
            text = place.sub(rf"\1{MASK}", text)
    return text


def _mask_flags(flag: re.Pattern[str], line: re.Match[str]) -> str:
    return flag.sub(_mask_last, line[0])


def _mask_last(match: re.Match[str]) -> str:
    begin, end = match.span(match.lastindex or 0)
    start = match.start()
    return f"{match[0][: begin - start]}{MASK}{match[0][end - start :]}"
