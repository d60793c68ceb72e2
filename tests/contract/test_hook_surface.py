import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import taskmem_hookspecs
from taskmem_hookspecs import errors, specs, testing
from taskmem_hookspecs.specs import PROJECT

DOCS = Path(__file__).parents[2] / "docs"
ALLOWED = {
    "taskmem_hookspecs",
    "pluggy",
    "pydantic",
    # pydantic's own
    "annotated_types",
    "pydantic_core",
    "typing_extensions",
    "typing_inspection",
}
FOREIGN = """
import importlib, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    importlib.import_module(name)
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(tops - set(sys.stdlib_module_names)), sep="\\n")
"""


def hooks():
    for name, item in vars(specs).items():
        if hasattr(item, f"{PROJECT}_spec"):
            yield name, item, getattr(item, f"{PROJECT}_spec")


def line(name, spec, options):
    """A hook as it is written, with how its answers are combined."""
    annotations = inspect.get_annotations(spec)
    answer = annotations.pop("return")
    assert list(annotations) == list(inspect.signature(spec).parameters)
    arguments = ", ".join(f"{name}: {hint}" for name, hint in annotations.items())
    combined = "first" if options["firstresult"] else "all"
    return f"{combined:<5} {name}({arguments}) -> {answer}"


def find_imports(*modules):
    ran = subprocess.run(
        [sys.executable, "-c", FOREIGN, *modules], capture_output=True, text=True, check=True
    )
    found = set(ran.stdout.split())
    return {name for name in found if not name.startswith("_sysconfigdata")}


def modules():
    """Every module of the contract but those for tests."""
    found = pkgutil.iter_modules(taskmem_hookspecs.__path__, "taskmem_hookspecs.")
    return [module.name for module in found if not module.ispkg]


def list_public_names():
    """Every name of the contract that is imported without naming a module of it."""
    names = (name for name, item in vars(taskmem_hookspecs).items() if not inspect.ismodule(item))
    return sorted(name for name in names if not name.startswith("_"))


def test_the_hooks_are_what_plugins_were_written_against(text_snapshot):
    assert "".join(f"{line(*hook)}\n" for hook in hooks()) == text_snapshot


def test_the_public_names_are_what_plugins_were_written_against(text_snapshot):
    names = [f"CONTRACT = {taskmem_hookspecs.CONTRACT}", *list_public_names()]
    names.remove("CONTRACT")
    assert "".join(f"{name}\n" for name in names) == text_snapshot


def test_what_tests_of_plugins_may_import_stays(text_snapshot):
    assert "".join(f"{name}\n" for name in testing.__all__) == text_snapshot


def test_every_helper_for_tests_is_there():
    assert [name for name in testing.__all__ if not hasattr(testing, name)] == []


def test_every_error_that_authors_are_told_of_is_a_public_name():
    raised = {name for name, item in vars(errors).items() if isinstance(item, type)}
    sources = [inspect.getsource(importlib.import_module(name)) for name in modules()]
    told = {name for text in sources for name in re.findall(r"^ +(\w+): ", text, re.MULTILINE)}
    for page in ("hooks.md", "plugins.md"):
        told |= set(re.findall(r"`(\w+)[`(]", (DOCS / page).read_text("utf-8")))
    assert {"NotAllowed", "NoProvider"} <= told & raised
    assert told & raised <= set(list_public_names())


def test_a_name_that_is_not_there_is_missed_as_usual():
    with pytest.raises(AttributeError, match="no attribute 'SensorSuit'"):
        testing.SensorSuit  # noqa: B018


def test_every_hook_says_when_it_is_called():
    for name, spec, _ in hooks():
        assert (spec.__doc__ or "").startswith("Called "), name


def test_every_hook_is_of_one_of_the_three_kinds():
    for name, spec, options in hooks():
        answer = inspect.get_annotations(spec)["return"]
        if name.startswith("on_"):
            assert (answer, options["firstresult"]) == ("None", False), name
        elif name.startswith("build_"):
            assert options["firstresult"], name
        else:
            assert answer.endswith(" | None"), name


def test_the_contract_needs_only_pluggy_and_pydantic():
    assert find_imports(*modules()) <= ALLOWED


def test_plugin_testing_module_imports_no_pytest_before_use():
    assert find_imports("taskmem_hookspecs.testing") <= ALLOWED


@pytest.mark.parametrize("name", [name for name in testing.__all__ if name.endswith("Suite")])
def test_a_suite_is_found_when_it_is_asked_for(name):
    suite = getattr(importlib.import_module("taskmem_hookspecs.testing"), name)
    assert suite.__name__ == name
