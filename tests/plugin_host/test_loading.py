import logging
import sys
import threading
from dataclasses import dataclass

import pytest

from openclaw_taskmem.plugin_host import plugin_host as manager
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import hookimpl
from tests.plugin_host.made import COMPUTE, FACTS, Good, entry, make_answering_plugin, plugin, row

GOOD = """
from taskmem_hookspecs import hookimpl
heard = []
@hookimpl
def on_task_registered(task):
    heard.append(task.name)
"""


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    """Writes modules that can be imported, and forgets them afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        names.append(name)
        return entry(name, name, f"dist-{name}")

    yield write
    for name in names:
        sys.modules.pop(name, None)


def test_the_built_ins_are_found_by_their_entry_points():
    plugin_host = PluginHost()
    assert {"openclaw", "sqlmodel"} <= {plugin.name for plugin in plugin_host.plugins}
    assert row(plugin_host, "sqlmodel").hooks == ("health_checks", "task_store")
    assert row(plugin_host, "sqlmodel").distribution.startswith("openclaw-taskmem ")


def test_a_plugin_knows_where_it_came_from_and_what_it_answers(write_module):
    plugin_host = PluginHost(entries=[write_module("made_good", GOOD)])
    (found,) = plugin_host.plugins
    assert (found.state, found.last_error) == ("on", None)
    assert found.distribution == "dist-made_good 1.0"
    assert found.hooks == ("on_task_registered",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere_at_all", "No module named 'nowhere_at_all'"),
        ("raise ValueError('boom')", "ValueError: boom"),
        ("raise SystemExit(3)", "SystemExit(3)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt()"),
        ("def broken(:", "SyntaxError"),
        ("", "no function marked @hookimpl"),
        (GOOD.replace("on_task_reg", "on_tsk_reg"), "no hook 'on_tsk_registered'"),
        (GOOD.replace("(task)", "(tsk)"), "'tsk'"),
        (GOOD.replace("def on", "async def on"), "'on_task_registered' is async"),
        (GOOD + "    yield", "'on_task_registered' yields"),
        (GOOD.replace("def on", "async def on") + "    yield", "'on_task_registered' is async"),
        (GOOD.replace("@hookimpl", "@hookimpl(wrapper=True)"), "not a generator"),
    ],
    ids=[
        *("imports nothing", "raises", "exits", "interrupts", "no Python", "empty"),
        *("misspelt hook", "misspelt argument", "async", "yields", "async yields"),
        "wraps nothing",
    ],
)
def test_unloadable_plugin_is_named_and_costs_no_other_plugin(write_module, caplog, text, said):
    entries = [
        write_module("made_bad", text),
        write_module("made_good", GOOD),
        entry("made_gone", "made_gone"),
    ]
    plugin_host = PluginHost(entries=entries)
    bad = row(plugin_host, "made_bad")
    assert bad.state == "failed"
    assert bad.hooks == ()
    assert "loading: " in bad.last_error
    assert said in bad.last_error
    assert "\n" not in bad.last_error
    assert f"plug-in made_bad failed; {bad.last_error}" in caplog.messages
    assert row(plugin_host, "made_gone").state == "failed"

    from taskmem_hookspecs.testing import a_task

    plugin_host.call_hook("on_task_registered", task=a_task(name="told"))
    assert sys.modules["made_good"].heard == ["told"]


def test_a_plugin_that_hangs_while_it_is_imported_is_left_behind(write_module, monkeypatch):
    monkeypatch.setattr(manager, "LOAD_SECONDS", 0.2)
    release = threading.Event()
    monkeypatch.setattr(threading, "made_release", release, raising=False)
    hanging = write_module("made_bad", "import threading; threading.made_release.wait()")
    plugin_host = PluginHost(
        entries=[hanging], extra=[("good", make_answering_plugin("wait_judge", None))]
    )
    assert row(plugin_host, "made_bad").state == "failed"
    assert "no answer within 0.2 s" in row(plugin_host, "made_bad").last_error
    assert row(plugin_host, "good").state == "on"
    release.set()
    for thread in threading.enumerate():
        if thread.name == "made_bad.loading":
            thread.join(30)


def test_of_two_with_one_name_the_first_stays():
    first, second = Good("wait_judge"), Good("wait_judge")
    plugin_host = PluginHost(entries=[], extra=[("a", first.module), ("a", second.module)])
    assert [plugin.state for plugin in plugin_host.plugins] == ["on", "failed"]
    assert "has the same name" in plugin_host.plugins[1].last_error
    assert first.has_contributed(plugin_host)
    assert not second.has_contributed(plugin_host)


def test_one_module_under_two_names_is_one_plugin():
    good = Good("wait_judge")
    plugin_host = PluginHost(entries=[], extra=[("a", good.module), ("b", good.module)])
    assert [plugin.state for plugin in plugin_host.plugins] == ["on", "failed"]
    assert good.has_contributed(plugin_host)


def test_a_plugin_may_have_any_name_even_the_cores():
    good = Good("wait_judge")
    names = ["core", "_Core", "openclaw_taskmem"]
    extra = [(name, make_answering_plugin("wait_judge", None)) for name in names]
    plugin_host = PluginHost(entries=[], extra=[*extra, ("good", good.module)])
    assert {plugin.state for plugin in plugin_host.plugins} == {"on"}
    assert plugin_host.build_resume_packet(FACTS).task_id == "task_1"


def test_a_plugin_without_a_hash_costs_no_other():
    @dataclass
    class Unhashable:
        field: int = 0

        @hookimpl
        def wait_judge(self):
            return None

    good = Good("wait_judge")
    plugin_host = PluginHost(entries=[], extra=[("bad", Unhashable()), ("good", good.module)])
    assert "unhashable" in row(plugin_host, "bad").last_error
    assert good.has_contributed(plugin_host)


def test_an_entry_point_that_names_nothing_fails():
    plugin_host = PluginHost(entries=[], extra=[("nothing", None)])
    assert row(plugin_host, "nothing").state == "failed"


def test_a_class_may_be_a_plugin():
    class Plugin:
        @staticmethod
        @hookimpl
        def build_resume_packet(facts):
            raise ValueError("boom")

    plugin_host = PluginHost(entries=[], extra=[("classy", Plugin)])
    plugin_host.build_resume_packet(FACTS)
    assert row(plugin_host, "classy").last_error == f"{COMPUTE}: ValueError: boom"


def test_a_hook_of_another_version_may_be_optional():
    tomorrow = hookimpl(lambda: None, optionalhook=True)
    module = plugin(on_tomorrow=tomorrow, wait_judge=lambda: None)
    plugin_host = PluginHost(entries=[], extra=[("new", module)])
    assert (row(plugin_host, "new").state, row(plugin_host, "new").hooks) == ("on", ("wait_judge",))


def test_a_function_may_have_another_name_than_its_hook():
    mine = hookimpl(lambda: None, specname="wait_judge")
    plugin_host = PluginHost(entries=[], extra=[("named", plugin(mine=mine))])
    assert row(plugin_host, "named").hooks == ("wait_judge",)


def test_a_plugin_that_is_switched_off_is_not_even_imported(write_module):
    off = write_module("made_bad", "raise ValueError('imported')")
    plugin_host = PluginHost(entries=[off, write_module("made_good", GOOD)], disabled=["made_bad"])
    assert (row(plugin_host, "made_bad").state, row(plugin_host, "made_bad").last_error) == (
        "off",
        None,
    )
    assert row(plugin_host, "made_good").state == "on"


def test_who_cannot_be_switched_off_is_named(caplog):
    PluginHost(entries=[], disabled=["sqlmodle"])
    assert "there is no plug-in sqlmodle that could be switched off" in caplog.messages


# --- what is installed --------------------------------------------------------


@pytest.fixture
def install_distribution(tmp_path, monkeypatch):
    """Installs distributions that consist of entry points only."""

    def install(name, text, place="site"):
        folder = tmp_path / place / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(text)
        monkeypatch.syspath_prepend(tmp_path / place)

    return install


def list_ours():
    return [f"{e.name} of {e.dist.name}" for e in manager.find_entry_points() if e.value == "made"]


def test_entry_points_come_in_order_of_their_names(install_distribution):
    install_distribution("b-dist", "[openclaw_taskmem]\nz = made\nm = made\n")
    install_distribution("a-dist", "[openclaw_taskmem]\nn = made\n[other]\na = made\n")
    assert list_ours() == ["m of b-dist", "n of a-dist", "z of b-dist"]


def test_a_garbled_list_of_entry_points_hides_no_other(install_distribution, caplog):
    install_distribution("garbled", "[openclaw_taskmem]\nno equals sign\n")
    install_distribution("fine", "[openclaw_taskmem]\nm = made\n")
    with caplog.at_level(logging.WARNING):
        assert list_ours() == ["m of fine"]
    assert "garbled" in caplog.text


def test_a_distribution_that_is_on_the_path_twice_counts_once(install_distribution):
    install_distribution("fine", "[openclaw_taskmem]\nm = made\n", place="one")
    install_distribution("fine", "[openclaw_taskmem]\nm = made\n", place="two")
    assert list_ours() == ["m of fine"]


def test_nobody_takes_the_place_of_a_built_in_by_its_name(install_distribution):
    install_distribution("a-squatter", "[openclaw_taskmem]\nsqlmodel = made\n")
    plugin_host = PluginHost()
    same = [plugin for plugin in plugin_host.plugins if plugin.name == "sqlmodel"]
    assert [plugin.state for plugin in same] == ["on", "failed"]
    assert same[1].distribution == "a-squatter 1.0"
