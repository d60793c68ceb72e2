"""What a clause is about: names, and the kinds of work that programs report on."""

from __future__ import annotations

import re
from typing import Final

_DOMAINS: Final[dict[str, re.Pattern[str]]] = {
    name: re.compile(rf"\b(?:{words})\b")
    for name, words in {
        "test": r"(?:\w+-)?(?:unit ?)?tests?|suites?|specs?|testing|pytest|unittest|"
        r"jest|vitest|mocha|rspec|phpunit|ctest|testsuite|tox|nox|e2e|junit",
        "build": r"(?:re)?builds?|building|built|compil\w+|make|cmake|ninja|gradlew?|"
        r"maven|mvn|webpack|bundl\w+|rustc|gcc|linking|transpil\w+|vite build|esbuild",
        "install": r"install\w*|setup|packages?|dependenc\w+|npm ci|pip|apt(?:-get)?|"
        r"brew|yarn|pnpm|requirements",
        "download": r"downloads?|downloading|downloaded|wget|curl|fetch\w*|pulls?|"
        r"pulling|pulled",
        "upload": r"uploads?|uploading|uploaded|push(?:es|ed|ing)?|publish\w*",
        "clone": r"clon(?:e|es|ed|ing)|checkout|git",
        "image": r"docker build|images?|buildx|container build",
        "deploy": r"deploy\w*|rollouts?|rolled out|terraform|helm|apply|provision\w*|"
        r"ansible|playbook|release",
        "check": r"lint\w*|eslint|ruff|flake8|mypy|pyright|tsc|type ?-?checks?|"
        r"typecheck\w*|type checking|static analysis|prettier|clippy|black|pylint",
        "transfer": r"cop(?:y|ies|ied|ying)|rsync|scp|transfer\w*|sync\w*|backups?|"
        r"restore\w*|archiv\w+|extract\w*|unpack\w*|unzip|tar",
        "migrate": r"migrat\w+|alembic|schema",
        "train": r"train\w*|fit|epochs?|fine-?tun\w+",
    }.items()
}

_GROUPS: Final = {
    "web": re.compile(
        r"\b(?:servers?|services?|app(?:lication)?|api|backend|frontend|web\w*|site"
        r"|http\w*"
        r"|flask|django|vite|next|node|express|rails|uvicorn|gunicorn|tomcat|spring)\b"
    ),
    "data": re.compile(
        r"\b(?:databases?|db|postgres\w*|mysql\w*|mariadb|redis|mongo\w*|sqlite)\b"
    ),
    "work": re.compile(
        r"\b(?:workers?|queues?|brokers?|consumers?|kafka|rabbitmq|celery)\b"
    ),
}

# Words that name nothing that a line of output would have to repeat.
_COMMON_WORDS: Final = """
    a an the this that these those it its they their there i me my we our you your he
    of in on at to from by for with within into onto over as via per about out up down
    is are was were be been being has have had do does did will would can could should
    may might must gets get got become becomes became turns goes go going comes come
    again first last next new newly whole entire complete full fully completely all
    any some every each other another more most same own such no not none now then
    once when while until after before just finally successfully success successful
    eventually actually already ever also too either so if but yet and or than command
    commands process processes program programs script scripts job jobs task run runs
    running execution operation action work thing things something anything output
    outputs terminal screen console shell session window pane tab log logs stdout
    stderr line lines text message messages notification dialog dialogue box banner
    prompt report status state result results summary end ending start starts started
    server servers service services app application daemon api web
    reports report finds find found matching either through green breaks break
    broke broken went ran prints gets got lint dev development local localhost http
    https website site url address instance host
    error errors failure failures failed fails fail exception exceptions warning
    warnings problem problems issue issues occurs occur happen happens appears appear
    shown shows show printed prints print displayed displays display seen see visible
    reported finish finishes finished finishing completes completed completion done
    exits exit exited ends ended terminates terminated stops stopped returns return
    returned succeeds succeed succeeded passes pass passed passing ok okay good fine
    well clean cleanly normally properly correctly ready listening available online
    live healthy active alive reachable serving accepting accept connections
    connection requests incoming traffic port able begin begins began reaches reach
    reached hits hit least crash crashes crashed abort aborts aborted kill kills
    killed reject rejects rejected cancel cancelled canceled changes changed restart
    restarts restarted established take takes receive handle due etc tell tells wait
    percent percentage progress bar counter count number total value current currently
    time minute minutes second seconds code zero non nonzero nothing output's install
    installs installed installing installation download downloads downloaded
    downloading upload uploads uploaded uploading build builds built building test
    tests tested testing suite compile compiles compiled compiling compilation file
    files package packages dependencies dependency
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())
VARIANTS: Final = frozenset(
    {"production", "prod", "staging", "release", "debug", "canary", "nightly", "remote"}
)
"""What a thing may be one of: who names one does not speak of another."""
_SHORTEST: Final = 4
"""What is left of a word at least when its ending is taken off."""
_TOKEN: Final = re.compile(r"[\w@+~-][\w.@/:+~-]*")


def domains(clause: str) -> frozenset[str]:
    """Return the kinds of work that a clause names."""
    return frozenset(name for name, words in _DOMAINS.items() if words.search(clause))


def names(clause: str, extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the words of a clause that could stand in a line about it."""
    found = [
        token.rstrip(".:/").removesuffix("'s")
        for token in _TOKEN.findall(clause)
        if token.rstrip(".:/") not in _COMMON
    ]
    return tuple(dict.fromkeys([*extra, *(name for name in found if len(name) > 1)]))[
        :6
    ]


def groups(text: str) -> frozenset[str]:
    """Return what sorts of services a text speaks of."""
    found = frozenset(name for name, words in _GROUPS.items() if words.search(text))
    return found - {"web"} or found


def stem(word: str) -> str:
    """Return what the forms of a word have in common, roughly."""
    word = word.lower()
    if word.startswith("destr"):
        return "destr"
    for ending in ("ations", "ation", "ings", "ing", "ions", "ion", "ies", "es", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word[:-1] if len(word) > _SHORTEST and word[-1] in "sey" else word
