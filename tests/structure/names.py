"""List names of the product that name no thing, and docstrings that begin with a riddle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("openclaw_taskmem", "hookspecs", "plugins")


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


IRREGULAR = split_words("""
begun bought bound brought built caught chosen dealt done drawn driven dug eaten fallen fed felt
forbidden forgiven forgotten fought found frozen given gone gotten grown heard held hidden hung
kept known laid led left lent lit lost made meant met owed paid proven ridden risen rung said
seen sent shaken shown shrunk slept sold sought spent spoken spun stolen stood struck stuck sunk
sworn swept taken taught thought thrown told torn understood woken won worn wound written
""")
"""Participles without -ed; those that are plain verbs too (`cut`) are not here."""
NOUNS = split_words("""
beginning ending heading numbering seed setting string thing warning
digest interest manifest request rest test unit units statfs
""")
"""Nouns that look like a participle, a superlative, a negation or a plural."""
VERBS = split_words("""
anything bring cancelled cling embed exceed feed fling heed need nothing ping proceed ring seed shed
sing sling speed spring sting string succeed swing weed wring
""")
"""Verbs, and other words, that look like a participle; `cancelled` is a function of asyncio."""
ADJECTIVES = split_words("""
alike alternate broken busy clear common compatible confident correct damaged dark empty few
final foreign free fresh front full hesitant hostile implicit important invisible large late
lively long many mixed nameless narrow near nearby new numeric old opaque open optional other
partial plain private quick quiet readable ready recent repeatable resumable safe same scarce
short single slow small sparse special static straight strange sudden sure textless watchful
weak whole wide wild wordless wrong
deeper earlier later least less longer more most shorter smaller surer
""")
OTHER_WORDS = split_words("""
about again ahead all alone along always another any apart around aside at away back backwards
before behind beside between but by down each else elsewhere ever every first for from
here how in it last like meanwhile never next no nobody none not nothing now nowhere of off on
once others otherwise ours out over partly past soon still that then there thrice to together
twice up upto what when where whether which who why whys with yes yours
accept allow appears asks begin begins choose did does drop fails follows gather goes has hides
is leave listens loads needs paints prove reaches says see sends settles shows stands succeeds
takes tells
""")
"""Adverbs, pronouns, prepositions, and verbs that are no nouns."""
FIRST_WORDS = split_words("as at by for from go in of on to with")
"""Words with which no noun of several words begins: `OF_HOME`."""
LAST_WORDS = split_words("after at away back before of on once out to too")
"""Words with which none ends: `LOOKED_AT`."""
RIDDLES = ("It ", "Of ", "That ", "What ", "Whether ")
"""Beginnings of docstrings that do not say who does what."""


def is_lone_participle(name: str) -> bool:
    word = name.strip("_").lower()
    if "_" in word or word in NOUNS or word in VERBS:
        return False
    return word in IRREGULAR or word.endswith(("ed", "ing"))


def is_thing(name: str, value: ast.expr) -> bool:
    """Tell whether a constant is named as a thing.

    Of a name of several words, only the first and the last are looked at.
    The plural alone is no name for a number: it may be a limit, an interval or a size.
    """
    word = name.strip("_").lower()
    if "_" in word:
        first, *_, last = word.split("_")
        return first not in FIRST_WORDS and last not in LAST_WORDS
    if len(word) == 1 or word in NOUNS:
        return True
    if is_lone_participle(word) or word.endswith("est") or word.startswith("un"):
        return False
    if word in ADJECTIVES or word in OTHER_WORDS:
        return False
    return not (is_number(value) and word.endswith("s") and not word.endswith("ss"))


def is_number(value: ast.expr) -> bool:
    """Tell whether an expression is a number or a duration."""
    match value:
        case ast.Constant(bool()):
            return False
        case ast.Constant(int() | float()) | ast.Call(ast.Name("timedelta")):
            return True
        case ast.BinOp(left, _, right):
            return is_number(left) and is_number(right)
    return False


def list_constants(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the constants of a module and its classes, without the members of enums."""
    for node in body:
        match node:
            case ast.ClassDef() if not any(
                ast.unparse(base).endswith(("Enum", "Flag")) for base in node.bases
            ):
                yield from list_constants(node.body)
            case ast.If() | ast.Try():
                yield from list_constants(node.body)
            case ast.Assign(targets, value):
                for target in targets:
                    names = target.elts if isinstance(target, ast.Tuple) else [target]
                    yield from ((each.id, value) for each in names if isinstance(each, ast.Name))
            case ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                yield name, value


def has_description(statement: ast.stmt) -> bool:
    """Tell whether a statement is a field with a description, as in `Field(description="…")`."""
    return isinstance(statement, ast.AnnAssign) and any(
        isinstance(each, ast.keyword) and each.arg == "description" for each in ast.walk(statement)
    )


def list_file_faults(tree: ast.Module) -> Iterator[str]:
    """Yield riddles of a file: constants, locals and parameters, and beginnings of docstrings.

    Fields are left out: a name on the wire stays as it is. So are docstrings of classes whose
    fields have descriptions, for all of these are the text of a JSON schema.
    """
    for name, value in list_constants(tree.body):
        if name.isupper() and not is_thing(name, value):
            yield name
    fields = {
        each.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    }
    schema_texts = {
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(map(has_description, node.body))
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name("said", ast.Store()) if node not in fields:
                yield "said"
            case ast.arg("said") | ast.MatchAs(_, "said") | ast.MatchStar("said"):
                yield "said"
            case ast.Expr(ast.Constant(str(text))) if (
                text.startswith(RIDDLES) and node not in schema_texts
            ):
                yield " ".join(text.split()[:4])


def list_faults() -> list[str]:
    """List each name, or the first words of each docstring, that is to be mended, by its file."""
    files = sorted(path for root in PRODUCT for path in (ROOT / root).rglob("*.py"))
    return [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in files
        if "tests" not in path.relative_to(ROOT).parts
        for fault in list_file_faults(ast.parse(path.read_text("utf-8")))
    ]
