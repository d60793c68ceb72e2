"""The pages say what is so: each is compared with the code that it is about."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import click
import pytest

from openclaw_taskmem.cli.command_line import cli
from openclaw_taskmem.config import list_defaults, list_variables
from openclaw_taskmem.tools.catalog import TOOLS
from openclaw_taskmem.tools.forms import list_arguments
from taskmem_hookspecs.errors import TaskmemError

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README_BYTES = 6 * 1024
GLOSSARY_ENTRIES = 25
PAGES = (
    *ROOT.glob("*.md"),
    *DOCS.rglob("*.md"),
    ROOT / "bench" / "README.md",
    *ROOT.glob("plugins/*/README.md"),
)
LINES = re.MULTILINE | re.DOTALL
EXAMPLES = {"tests/test_nest.py", "tests/test_titles.py", "tests/test_wakefile.py"}
"""Files of the packages that the page on plug-ins makes."""
FOLDERS = ("openclaw_taskmem", "hookspecs", "plugins")


def read_file(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tables(text: str) -> Iterator[list[str]]:
    """Yield each row of the tables in a text, as its cells."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line[1:-1].split("|")]


# --- links and files --------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=LINES)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_the_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_file_that_the_pages_name_is_there() -> None:
    roots = "|".join((*FOLDERS, "bench", "docs", "tests", r"\.ci", r"\.github"))
    named = rf"`((?:{roots})/[\w./-]*)"
    gone = {
        f"{page.name}: {path}"
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for path in re.findall(named, page.read_text("utf-8"))
        if not (ROOT / path).exists() and path not in EXAMPLES
    }
    assert gone == set()


def test_every_module_that_a_package_names_is_in_it() -> None:
    readmes = ROOT.glob("plugins/*/README.md")
    gone = {
        f"{page.parent.name}: {name}"
        for page in readmes
        for name in re.findall(r"`(\w+\.py)`", page.read_text("utf-8"))
        if not [*page.parent.rglob(name)]
    }
    assert gone == set()


def test_the_page_on_hooks_names_modules_that_are_there() -> None:
    sentence = read_file("docs/hooks.md").partition("The values")[2].partition("\n\n")[0]
    names = re.findall(r"`(?:taskmem_hookspecs)?\.(\w+)`", sentence)
    folder = ROOT / "hookspecs/taskmem_hookspecs"
    assert len(names) > 5
    assert [name for name in names if not (folder / f"{name}.py").exists()] == []


def test_every_decision_is_listed() -> None:
    folder = DOCS / "decisions"
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())
    assert sorted(listed) == sorted(path.name for path in folder.glob("0*.md"))


def test_every_page_can_be_reached_from_the_readme() -> None:
    found, left = set[Path](), [ROOT / "README.md"]
    while left:
        page = left.pop().resolve()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))
        left += [page.parent / link for link in links]
    assert {*DOCS.rglob("*.md")} - found == set()


# --- the readme -------------------------------------------------------------------


def test_the_readme_is_short_with_a_diagram_and_two_pictures() -> None:
    text = read_file("README.md")
    assert len(text.encode()) <= README_BYTES
    assert (text.count("```mermaid"), text.count("![")) == (1, 2)


def test_no_block_of_the_readme_hurts_when_pasted_whole() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", read_file("README.md"), LINES)
    harm = re.compile(r"--remove|uninstall|rm -|\./check|daemon stop|sudo")
    assert blocks
    assert [block for block in blocks if harm.search(block)] == []


# --- settings, commands, tools ----------------------------------------------------


def as_text(default: object) -> str:
    """Return a default as the page has it."""
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        return ",".join(map(as_text, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_the_page_of_settings_has_each_setting_with_its_default() -> None:
    rows = {
        row[0].strip("`"): row[1].strip("`")
        for row in tables(read_file("docs/settings.md"))
        if row[0].startswith("`TASKMEM_")
    }
    assert rows.keys() == list_variables() - {"TASKMEM_HOST", "TASKMEM_SESSION_KEY"}

    in_words = {"TASKMEM_HOME", "TASKMEM_HOLD_BACK"}
    defaults = {
        f"TASKMEM_{name.upper()}": as_text(default)
        for name, default in list_defaults().items()
        if default not in ("", ())
    }
    known = {name: defaults[name] for name in defaults.keys() - in_words}
    assert {name: rows[name] for name in known} == known


@pytest.mark.usefixtures("own_commands")
def test_the_page_of_commands_has_each_command() -> None:
    named = re.findall(r"^\| `taskmem ([\w-]+)", read_file("docs/commands.md"), re.MULTILINE)
    assert sorted(named) == cli.list_commands(click.Context(cli))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_that_a_page_names_is_understood(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {*re.findall(r"`(taskmem [^`\n]+)`", text)}
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, LINES):
        named |= {*re.findall(r"^(?:\$ )?(taskmem .+)$", block, re.MULTILINE)}
    assert {each: why for each in named if (why := find_fault(each))} == {}


def find_fault(named: str) -> str | None:
    """Say what the program does not know of a command; None: it knows all of it."""
    command: click.Command = cli
    _, *words = shlex.split(named.replace("…", ""), comments=True)
    if words[:1] in (["is"], ["mcp:"]):
        return None  # a sentence, not a command
    # A word in capitals stands for what the reader puts there.
    while words and isinstance(command, click.Group) and words[0][0] != "-" and words[0].islower():
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return f"There is no {words[0]}."
        command, words = found, words[1:]
    given = words[: words.index("--")] if "--" in words else words
    own = {*command.get_help_option_names(click.Context(command))}
    own |= {name for each in command.params for name in each.opts}
    unknown = [each for each in given if each.startswith("-") and each.split("=")[0] not in own]
    return f"There is no {', '.join(unknown)}." if unknown else None


@cache
def sections() -> dict[str, str]:
    """Return what the page of tools says of each tool."""
    page = read_file("docs/tools.md")
    parts = re.split(r"^#{2,3} ", page, flags=re.MULTILINE)[1:]
    found = {part.partition("\n")[0]: part for part in parts}
    return {name: text for name, text in found.items() if "_" in name}


def test_the_page_of_tools_has_each_tool() -> None:
    assert [*sections()] == [tool.name for tool in TOOLS]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_page_of_tools_has_each_argument(tool) -> None:
    said = {
        row[0].strip("`"): row[1] for row in tables(sections()[tool.name]) if row[0].startswith("`")
    }
    schema, taken = tool.input_schema, list_arguments(tool.form)["properties"]
    wanted = {
        name: "required" if name in schema.get("required", []) else _default(taken[name])
        for name in schema["properties"]
    }
    assert said == wanted


def list_errors(base: type[TaskmemError]) -> list[type[TaskmemError]]:
    """Return an error and all that are derived from it."""
    return [base, *(each for sub in base.__subclasses__() for each in list_errors(sub))]


def _default(field: Mapping[str, object]) -> str:
    value = field.get("default")
    return "" if value is None else str(value).lower()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_page_of_tools_tells_answers_and_refusals(tool) -> None:
    _, _, told = sections()[tool.name].partition("**Answer**")
    _, _, refused = told.partition("**Refused**")
    known = {error.name for error in list_errors(TaskmemError)}
    named = set(re.findall(r"`(\w+_\w+)`", refused))
    others = {*tool.input_schema["properties"], "smart_wait"}
    assert told
    assert named - others <= known


# --- messages ---------------------------------------------------------------------


@cache
def list_printed() -> str:
    """Return every text in the code; what an f-string fills in is `…`."""
    found: list[str] = []
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
                found.append("".join(map(str, parts)))
    return "\n".join(found)


def test_the_page_of_trouble_quotes_what_is_printed() -> None:
    shown = [row[0] for row in tables(read_file("docs/trouble.md"))]
    quotes = [quote for cell in shown for quote in re.findall(r"`([^`]+)`", cell)]
    fragments = [part.strip(" .;:,") for quote in quotes for part in quote.split("…")]
    assert len(quotes) > 30
    assert [part for part in fragments if part not in list_printed()] == []


def test_the_glossary_keeps_to_what_is_ours() -> None:
    entries = re.findall(r"^\| \*\*", read_file("docs/glossary.md"), re.MULTILINE)
    assert 0 < len(entries) <= GLOSSARY_ENTRIES
