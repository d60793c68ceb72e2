"""The plug-ins of docs/plugins.md, as they stand there: installed, and used."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from taskmem_hookspecs.testing import check_plugin
from tests.support.agents import RelayedLines
from tests.support.daemons import Daemon, command, short_home
from tests.support.installations import make_installation, run_example_tests
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"
PROMISED_LINES = 11
WRITES_TO = "/tmp/ntfy.txt"  # noqa: S108 - what the page says, replaced below


def section_of(title):
    return PAGE.read_text("utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks():
    """Return the first Python block of the section, and the TOML block after it."""
    section = section_of("The smallest plug-in")
    found = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    languages = [language for language, _ in found]
    python = languages.index("python")
    toml = languages.index("toml", python)
    return found[python][1], tomllib.loads(found[toml][1])


def install(folder, project, modules):
    """Put a distribution into a folder, as an installer would."""
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)


@pytest.fixture
def received_file(tmp_path):
    return tmp_path / "ntfy.txt"


@pytest.fixture
def site(tmp_path, received_file):
    """A folder with the page's plug-in installed, and one that is broken."""
    python, toml = blocks()
    assert WRITES_TO in python
    folder = tmp_path / "site"
    install(
        folder, toml["project"], {"taskmem_ntfy": python.replace(WRITES_TO, str(received_file))}
    )
    broken = {
        "name": "taskmem-broken",
        "version": "2.0",
        "entry-points": {"openclaw_taskmem": {"broken": "taskmem_broken"}},
    }
    install(folder, broken, {"taskmem_broken": "raise ValueError('boom')\n"})
    return folder


@pytest.fixture
def home():
    with short_home() as found:
        yield found


def test_a_plugin_is_written_in_eleven_lines():
    python, _ = blocks()
    assert len([line for line in python.splitlines() if line.strip()]) <= PROMISED_LINES


def test_the_smallest_plugin_fits_the_hooks():
    module = ModuleType("taskmem_ntfy")
    exec(blocks()[0], vars(module))  # noqa: S102 - the page is ours
    check_plugin(module)


@pytest.mark.parametrize("asked_for", ["ntfy", "auto"])
def test_a_wake_goes_through_the_smallest_plugin(site, home, received_file, asked_for):
    settings = {
        "TASKMEM_WAKE_TRANSPORT": asked_for,
        "TASKMEM_STUCK_THRESHOLD_SECONDS": "0.5",
    }

    def taskmem(*arguments):
        status, out, err = command(home, *arguments, **settings)
        assert status == 0, err
        return json.loads(out)

    daemon = Daemon(home, site=site, **settings)
    try:
        daemon.wait_until_it_serves()
        task_id = daemon.register("Try it", plan=["Look"])

        def list_sent():
            wakes = taskmem("wakes", "--all", "--json")
            return [wake for wake in wakes if wake["state"] == "sent"]

        wake = until(list_sent, "a wake is sent")[0]
        assert (wake["task_id"], wake["transport"]) == (task_id, "ntfy")
        assert received_file.read_text() == wake["text"]
        assert wake["text"].startswith("[task_stuck_resume] {")

        plugins = {row["name"]: row for row in taskmem("plugins", "--json")}
        assert plugins["ntfy"] == {
            "name": "ntfy",
            "state": "on",
            "distribution": "taskmem-ntfy 1.0",
            "hooks": ["wake_transport"],
            "last_error": None,
            "cause": None,
        }
        assert plugins["broken"] == {
            "name": "broken",
            "state": "failed",
            "distribution": "taskmem-broken 2.0",
            "hooks": [],
            "last_error": f"loading: ValueError: boom ({site}/taskmem_broken.py:1)",
            "cause": None,
        }
        assert "plug-in broken failed; loading: ValueError: boom" in daemon.log.text
    finally:
        daemon.close()


def test_the_tools_name_the_targets_of_a_plugin(tmp_path, home):
    forms = {
        "name": "taskmem-titles",
        "version": "1.0",
        "entry-points": {"openclaw_taskmem": {"titles": "taskmem_titles"}},
    }
    module = (
        "from taskmem_hookspecs import hookimpl\n\n\n@hookimpl\n"
        "def wait_target_forms():\n    return ['browser:NAME, a tab by its title']\n"
    )
    install(tmp_path / "site", forms, {"taskmem_titles": module})
    daemon = Daemon(home, site=tmp_path / "site")
    try:
        daemon.wait_until_it_serves()
        tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in daemon.ask("tools")}
        told = tools["smart_wait"]["target"]["description"]
        assert told.endswith(", queue:ROLE\nbrowser:NAME, a tab by its title")
    finally:
        daemon.close()


def test_the_doctor_names_a_plugin_that_was_upgraded(site, home, tmp_path):
    program = make_installation(tmp_path / "installation", site).with_name("taskmem")
    daemon = Daemon(home, site=site)
    try:
        daemon.wait_until_it_serves()
        [metadata] = site.glob("taskmem_ntfy-*/METADATA")
        metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
        _, out, _ = command(home, "doctor", "--json", "--no-proof", program=program)
        rows = {row["id"]: row for row in json.loads(out)["rows"]}
        assert (
            rows["plugin.ntfy.version"]["detail"]
            == "The daemon runs taskmem-ntfy 1.0, and taskmem-ntfy 1.1 is installed."
        )
        assert "taskmem daemon restart" in rows["plugin.ntfy.version"]["cure"]
        assert "plugin.broken.version" not in rows
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The folder of the page's package, and the folder that it is installed into."""
    section = section_of("A package with tests")
    found = dict(
        re.findall(r"`([\w/]+\.\w+)`\.? .*?```\w+\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    )
    checkout = tmp_path_factory.mktemp("checkout")
    strange = '[tool.pytest.ini_options]\naddopts = "--option-of-the-checkout"\n'
    (checkout / "pyproject.toml").write_text(strange, encoding="utf-8")
    folder = checkout / "taskmem-wakefile"
    folder.mkdir()
    for name, text in found.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    site = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps")
    subprocess.run([*pip, "--target", str(site), str(folder)], check=True)
    return folder, site


def test_the_package_has_the_files_that_the_page_draws(package):
    folder, _ = package
    section = section_of("A package with tests")
    drawn = re.findall(r"^[│ ]*[├└]── (\S+\.\w+)$", section, re.MULTILINE)
    made = [path.name for path in folder.rglob("*.*") if path.is_file()]
    assert sorted(drawn) == sorted(made)


def test_the_tests_of_the_package_pass(package, tmp_path):
    folder, site = package
    python = make_installation(tmp_path / "installation", site)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_the_installed_package_carries_a_wake(package, home, tmp_path):
    _, site = package
    written = tmp_path / "wakes.txt"
    daemon = Daemon(
        home,
        site=site,
        WAKEFILE=str(written),
        TASKMEM_WAKE_TRANSPORT="wakefile",
        TASKMEM_STUCK_THRESHOLD_SECONDS="0.5",
    )
    try:
        daemon.wait_until_it_serves()
        daemon.register("Try it", plan=["Look"])

        def list_sent():
            return [wake for wake in daemon.wakes() if wake["state"] == "sent"]

        wake = until(list_sent, "a wake is sent")[0]
        assert wake["transport"] == "wakefile"
        assert wake["text"] in written.read_text("utf-8").split("\n")
    finally:
        daemon.close()


def read_host():
    """Return the page's host of agents, and its tests."""
    section = section_of("A host of agents with tests")
    return re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def test_the_host_of_the_page_keeps_the_rules_of_its_suite(tmp_path):
    module, tests = read_host()
    (tmp_path / "taskmem_nest.py").write_text(module)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_nest.py").write_text(tests)
    ran = run_example_tests(tmp_path)
    assert ran.stdout.count("SKIPPED") == 1, "it never refuses a wake for good"


def test_a_session_of_the_pages_host_is_woken_in_its_inbox(tmp_path, home):
    module, _ = read_host()
    site, inbox = tmp_path / "site", tmp_path / "inbox"
    inbox.mkdir()
    project = {
        "name": "taskmem-nest",
        "version": "1.0",
        "entry-points": {"openclaw_taskmem": {"nest": "taskmem_nest"}},
    }
    install(site, project, {"taskmem_nest": module})
    soon = {"TASKMEM_WAKE_TRANSPORT": "auto", "TASKMEM_STUCK_THRESHOLD_SECONDS": "0.5"}
    daemon = Daemon(home, site=site, **soon)
    try:
        daemon.wait_until_it_serves()
        nest = {"NEST_SESSION": "nest-1", "NEST_INBOX": str(inbox)}
        with RelayedLines(home, "nest", **nest) as agent:
            _, told = agent.call("task_register", {"name": "Try it", "plan": ["Look"]})
            until(lambda: [*inbox.iterdir()], "the wake is in the inbox")
        (file,) = inbox.iterdir()
        assert told["task_id"] in file.read_text()
    finally:
        daemon.close()
