"""Build the doctor's own rows: home, settings, daemon, plug-ins, readers, wakes, clock and room.

`doctor` puts them in order, before those of plug-ins.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from openclaw_taskmem import __version__
from openclaw_taskmem.cli import daemon_process
from openclaw_taskmem.cli.client import Link, LinkError, connect, connect_or_start
from openclaw_taskmem.cli.command_output import write_install_command
from openclaw_taskmem.config import FILE_FIRST, PREFIX, Settings, load_settings
from openclaw_taskmem.daemon.home_exchange import RESTORE
from openclaw_taskmem.domain.callers import split_names
from openclaw_taskmem.domain.policies import KeepPolicy
from openclaw_taskmem.domain.retention import describe_full, describe_shared
from openclaw_taskmem.domain.text.texts import MIB, format_count, format_duration
from openclaw_taskmem.home import (
    Home,
    HomeRefused,
    describe_modeless,
    keeps_modes,
    require_no_common_folder,
)
from openclaw_taskmem.losses import find_loss
from openclaw_taskmem.plugin_host.plugin_host import (
    OUR_DISTRIBUTION,
    Cause,
    Plugin,
    PluginHost,
)
from openclaw_taskmem.settings_report import (
    find_differences,
    find_misspelt_settings,
    find_unknown_settings,
    name_setting,
)
from taskmem_hookspecs import DoctorRow, DoctorState, TaskmemError
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_program import OWN_PROGRAM

Document = Mapping[str, Any]

_FRESH_WAKE_AGE: Final = timedelta(minutes=1)
"""Age of the oldest due wake up to which a failed delivery is a warning, and no failure; of a
gateway's start, up to which it is neither."""
_REPORT_AGE: Final = timedelta(days=1)
"""How long an unanswered wake is reported."""
_CLOCK_TOLERANCE: Final = timedelta(seconds=5)
"""How far ahead of the clock an event may be, as daemons on other machines write, too."""
_BUILD_DATE: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""A correct clock shows no earlier time than this."""
_LOGINCTL_SECONDS: Final = 2.0
_ANOTHER_HOME: Final = "Set TASKMEM_HOME to a folder of your own."
_WRONG_TIMES: Final = "Waits, wakes and alerts may come at a wrong time."
_LOSS_EFFECT: Final = "Tasks, or what was said in them, are missing."
_NO_PLUGIN: Final = "What it adds is missing."
_NO_HOME: Final = "No daemon starts, so no task is kept, and no agent is woken."
_NO_START: Final = "No daemon would start from this shell. The one that runs is not affected."
_NO_DAEMON: Final = "Until it answers, no task is kept, no wait is watched, and no agent is woken."
_RESTART: Final = "Run: taskmem daemon restart"
_RESTART_CLAUSE: Final = "run: taskmem daemon restart"
_THEN_RESTART: Final = f"then {_RESTART_CLAUSE}"
_LARGE_HOME_BYTES: Final = 2048 * MIB
"""Bytes above which a home is large, without what was recorded of the screen."""
_SCARCE_BYTES: Final = 1024 * MIB
"""Free bytes below which room on the disk is scarce."""
_RECORDINGS: Final = "recordings of the screen"
_RECORDINGS_FOLDER: Final = "recordings"
_RECORDER: Final = f"{OUR_DISTRIBUTION}-recorder"
_OTHER_FILES: Final = "other files"
_HOME_PARTS: Final = {
    "taskmem.db": "database",
    "terminals": "recordings of commands",
    _RECORDINGS_FOLDER: _RECORDINGS,
    "pictures": "pictures of waits",
    "listings": "names in agents' folders",
    "daemon.log": "logs",
    "replaced-": "set aside by restore",
    RESTORE: "unpacked by restore",
}
"""Parts of the home, by the beginning of names in it."""
_FULL_EFFECT: Final = "When it is full, no report of an agent can be stored."
_FULL_BESIDE_EFFECT: Final = (
    "When it is full, no picture of a wait or recording can be stored, nor any report "
    "of an agent if the database is on this disk, too."
)
_SIZE_CURES: Final = {
    "database": f"Set TASKMEM_KEEP_DAYS or TASKMEM_KEEP_MB lower, {_THEN_RESTART}",
    "recordings of commands": "End commands under taskmem run that you no longer need.",
    "pictures of waits": f"Set TASKMEM_PICTURE_DAYS lower, {_THEN_RESTART}",
    "set aside by restore": "Remove the folders replaced-… in it that you no longer need.",
    "unpacked by restore": "If no taskmem restore runs, one was killed, and the next start of the "
    f"daemon removes what it left. {_RESTART}",
}


def _build_row(
    state: DoctorState, name: str, detail: str, cure: str | None = None, effect: str | None = None
) -> DoctorRow:
    return DoctorRow(id=name, state=state, detail=detail, effect=effect, cure=cure)


_build_ok_row = partial(_build_row, DoctorState.OK)
_build_off_row = partial(_build_row, DoctorState.OFF)
build_warn_row = partial(_build_row, DoctorState.WARN)
"""Builds the row of a check with a warning, from its name, detail, cure and effect."""
build_fail_row = partial(_build_row, DoctorState.FAIL)
"""Builds the row of a check that failed, likewise."""


# --- the home and the settings ------------------------------------------------


def check_home(home: Home) -> DoctorRow:
    """Check the state folder before anything else is done."""
    folder = home.folder
    try:
        require_no_common_folder(folder)
        found = folder.stat()
    except FileNotFoundError:
        return _build_ok_row("home", f"There is no {folder} yet; the daemon makes it.")
    except (HomeRefused, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        fault = f"{folder} cannot be seen ({why})." if why else str(error)
        return build_fail_row("home", fault, _ANOTHER_HOME, _NO_HOME)
    usable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    mode_fault = _find_fault(found, usable=usable)
    if mode_fault is None:
        try:
            home.require_own()
        except HomeRefused as refusal:
            return build_fail_row(
                "home", str(refusal), f"Put that right, or: {_ANOTHER_HOME}", _NO_HOME
            )
        return _build_ok_row("home", f"{folder} is yours alone.")
    what, can_be_closed = mode_fault
    if can_be_closed and usable and not keeps_modes(folder):
        return build_fail_row("home", describe_modeless(folder), _ANOTHER_HOME, _NO_HOME)
    cure = f"Run: chmod 700 {folder}" if can_be_closed else _ANOTHER_HOME
    if not usable and os.statvfs(folder).f_flag & os.ST_RDONLY:
        what = "is on a disk that is mounted read-only"
        cure = f"Mount it for writing, or: {_ANOTHER_HOME}"
    return build_fail_row("home", f"{folder} {what}.", cure, _NO_HOME)


def _find_fault(found: os.stat_result, *, usable: bool) -> tuple[str, bool] | None:
    """Return what is wrong with a state folder, and whether chmod cures it; None: nothing."""
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder", False
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}", False
    if mode & 0o077:
        return f"is open to other users (its mode is {mode:04o})", mode < stat.S_ISVTX
    return None if usable else ("cannot be written", True)


def check_settings(home: Home, environ: MutableMapping[str, str]) -> tuple[Settings, DoctorRow]:
    """Read the settings into `environ`; if they are invalid, return the defaults."""
    odd = list(find_misspelt_settings(environ))
    try:
        settings = load_settings(environ)
    except SettingsInvalid as error:
        cure = f"Mend it in {home.config} or in the environment, then run this again."
        effect = _NO_HOME
        with suppress(LinkError), connect(home):
            effect = _NO_START
        return Settings(home=home), build_fail_row("settings", str(error), cure, effect)
    odd += settings.warnings
    if odd:
        return settings, build_warn_row(
            "settings", " ".join(odd), "Correct or remove what is named."
        )
    where = home.config if home.config.exists() else "the environment"
    others = ", ".join(find_unknown_settings(environ))
    if others:
        return settings, _build_ok_row(
            "settings",
            f"taskmem does not know {others}, which a plug-in may read; every other "
            f"setting in {where} is understood.",
        )
    return settings, _build_ok_row("settings", f"Every setting in {where} is understood.")


def check_losses(settings: Settings) -> Iterator[DoctorRow]:
    """Yield a row where the database has less than it had."""
    if (loss := find_loss(settings)) is not None:
        yield build_fail_row("database.loss", *loss, _LOSS_EFFECT)


# --- the daemon ---------------------------------------------------------------


def check_daemon(home: Home, environ: Mapping[str, str]) -> tuple[Link | None, DoctorRow]:
    """Connect to the daemon; if it is starting or ending, wait; if there is none, start one."""
    try:
        link = connect_or_start(home, environ)
    except LinkError as error:
        cure = _suggest_cure(home, error)
        return None, build_fail_row("daemon", str(error), cure, _NO_DAEMON)
    if link.version != __version__:
        return link, build_fail_row(
            "daemon",
            f"Process {link.pid} is version {link.version}, and this is {__version__}.",
            _RESTART,
            "What this version has changed is not in use yet.",
        )
    how = "was started just now, as" if link.waited else "runs as"
    return link, _build_ok_row("daemon", f"Version {link.version} {how} process {link.pid}.")


def _suggest_cure(home: Home, error: LinkError) -> str:
    """Say what to do about a daemon that cannot be reached."""
    if error.name == "daemon_unavailable":
        try:
            found = daemon_process.check_presence(home)
        except OSError:
            return "See whose file that is, or set TASKMEM_HOME."
        if found.machine is not None:
            return f"Work on {found.machine}, or set TASKMEM_HOME to another folder here."
        if found.state == "silent" and found.pid is None:
            return f"Find who holds it with fuser {home.lock}, and end it."
        if found.state == "silent":
            return f"Look at {home.log}, then run: taskmem daemon stop, or kill -9 {found.pid}."
        if found.state != "absent":
            return f"Run this again; where it does not help, look at {home.log}."
    return "Put that right, then run this again."


def check_logout(home: Home, pid: int, environ: Mapping[str, str]) -> Iterator[DoctorRow]:
    """Warn where systemd ends a home's daemon at the user's logout; no row without `loginctl`.

    Source: https://man7.org/linux/man-pages/man5/logind.conf.5.html
    """
    program = shutil.which("loginctl", path=environ.get("PATH"))
    place = _read_service_place(pid)
    if program is None or (place is None and not environ.get("XDG_SESSION_ID")):
        return
    user = str(os.geteuid())
    lingers = _ask_loginctl(program, "show-user", user, "--property=Linger", "--value")
    kills = _ask_loginctl(program, "show-user", "--property=KillUserProcesses", "--value")
    ends = (kills and place != "service") or (lingers is False and (kills or place == "service"))
    if lingers is None or kills is None:
        return
    if not ends:
        yield _build_ok_row("daemon.logout", "A logout does not end the daemon.")
        return
    # The user's systemd knows no variable of this shell.
    start = ("systemd-run", "--user", "--unit=taskmem", f"--setenv=TASKMEM_HOME={home.folder}")
    yield build_warn_row(
        "daemon.logout",
        f"A logout ends the daemon (KillUserProcesses={'yes' if kills else 'no'}, "
        f"Linger={'yes' if lingers else 'no'}).",
        "Run: loginctl enable-linger && taskmem daemon stop && "
        f"{shlex.join([*start, *OWN_PROGRAM, 'daemon'])}",
        "From then on no wait is watched, and no agent is woken, until something starts it.",
    )


def _read_service_place(pid: int) -> str | None:
    """Return where systemd has a process: in a `session`, or a `service` of the user; else None."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except OSError:
        return None
    if "/user@" in text:
        return "service"
    return "session" if "/session-" in text else None


def _ask_loginctl(*command: str) -> bool | None:
    """Return a property that is yes or no; None: it is not known."""
    try:
        done = subprocess.run(  # noqa: S603 - loginctl, without a shell
            command, capture_output=True, timeout=_LOGINCTL_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {b"yes": True, b"no": False}.get(done.stdout.strip())


def check_transports(
    status: Document | None, plugin_host: PluginHost, settings: Settings
) -> tuple[Sequence[str], DoctorRow]:
    """Return the names of the wake transports, and their row, as the daemon reports them.

    If no daemon answers, or an older one, they are those that this process would use.
    """
    if status is not None and "transport" in status:
        name = str(status["transport"])
        if why := status["transport_note"]:
            cure = f"Name another in {settings.home.config}, or none. {_RESTART}"
            return split_names(name), build_warn_row(
                "transport", f"Wakes go out by {name}: {why}.", cure
            )
    else:
        setting = name_setting(settings, "wake_transport")
        try:
            found = plugin_host.find_wake_transports(split_names(settings.wake_transport), setting)
            name = ", ".join(each.name for each in found)
        except TaskmemError as error:
            cure = f"Mend {setting}, {_THEN_RESTART}."
            return (), build_fail_row("transport", str(error), cure, "No agent is woken.")
    return split_names(name), _build_ok_row("transport", f"Wakes go out by {name}.")


def check_differences(
    status: Document | None, settings: Settings, environ: Mapping[str, str]
) -> Iterator[DoctorRow]:
    """Check for settings that have another value in the daemon than here.

    `environ`: the environment into which the settings were read.
    """
    if status is None:
        return
    for name, sentence in find_differences(status, settings, environ):
        advice = f"the value that is meant into {settings.home.config}. {_RESTART}"
        if name in FILE_FIRST:
            cure = f"Put {advice}"
        else:
            cure = (
                f"Take {name} out of the environment of each host and shell that sets "
                f"it, for that goes before the file, and start those anew. Then: put {advice}"
            )
        if not name.startswith(PREFIX):
            cure = _RESTART
        yield build_warn_row(f"settings.{name}", sentence, cure)


def check_plugins(plugins: Sequence[Document]) -> Iterator[DoctorRow]:
    """Check the plug-ins as the daemon or this process has found them."""
    ailing = 0
    for plugin in plugins:
        name, error = str(plugin["name"]), plugin["last_error"]
        row = f"plugin.{name}"
        if plugin["state"] == "failed":
            ailing += 1
            cure = f"Reinstall it, or leave it out: TASKMEM_DISABLED_PLUGINS={name}."
            yield build_fail_row(row, f"It could not be loaded; {error}.", cure, _NO_PLUGIN)
        elif plugin["state"] == "muted":
            ailing += 1
            yield build_warn_row(
                row, f"It failed too often; {error}.", _RESTART, "It is not told of anything more."
            )
        elif error:
            ailing += 1
            ours = str(plugin.get("distribution")).startswith(f"{OUR_DISTRIBUTION} ")
            match plugin.get("cause"):
                case Cause.NO_ROOM:
                    cure = f"Make room on its disk, {_THEN_RESTART}"
                case Cause.READ_ONLY:
                    cure = f"Mount its disk for writing, {_THEN_RESTART}"
                case Cause.LATE if ours:
                    cure = f"The machine was slow then; if it is so again, {_RESTART_CLAUSE}"
                case _:
                    cure = f"Tell its author; {_RESTART_CLAUSE}"
            yield build_warn_row(row, f"It has failed; {error}.", cure)
    names = [str(each["name"]) for each in plugins if each["state"] == "on"]
    off = [str(each["name"]) for each in plugins if each["state"] == "off"]
    left_out = f"; left out: {', '.join(off)}" if off else ""
    if not names:
        cure = "Reinstall openclaw-taskmem."
        yield build_fail_row("plugins", f"None is on{left_out}.", cure)
    elif not ailing:
        yield _build_ok_row("plugins", f"On: {', '.join(names)}{left_out}.")


def check_plugin_versions(
    loaded: Sequence[Document], installed: Sequence[Plugin]
) -> Iterator[DoctorRow]:
    """Compare the plug-ins that the daemon has loaded with those that are installed now.

    The daemon's own version, with the built-in plug-ins, is compared by `check_daemon`.
    """
    runs = {str(each["name"]): str(each.get("distribution") or "") for each in loaded}
    here: dict[str, str] = {}
    for plugin in installed:
        here.setdefault(plugin.name, plugin.distribution)
    for name in sorted({*runs, *here}):
        old, new = runs.get(name, ""), here.get(name, "")
        if old == new or f"{old or new} ".startswith(f"{OUR_DISTRIBUTION} "):
            continue
        detail = f"The daemon runs {old}, and {new} is installed."
        if not new:
            detail = f"The daemon runs {old}, which is not installed any more."
        elif not old:
            detail = f"{new} was installed after the daemon started."
        yield build_warn_row(f"plugin.{name}.version", detail, _RESTART)


def check_readers(readers: Sequence[Document]) -> Iterator[DoctorRow]:
    """Check the readers that may be asked about a text or a picture."""
    usable = [each for each in readers if each["state"] != "off"]
    for reader in readers:
        row, detail = f"reader.{reader['name']}", str(reader["detail"])
        cure = reader["cure"]
        if reader["state"] == "ready":
            yield _build_ok_row(row, detail)
        elif reader["state"] == "off":
            yield _build_off_row(row, detail, cure)
        else:
            yield build_warn_row(
                row, detail, cure, "It answers nothing, so waits that need it may be judged late."
            )
    if not usable:
        yield _build_off_row(
            "readers",
            "Nobody reads what rules cannot judge, so waits in free English are "
            'refused; a form such as "text" appears, exits, or quiet for 30 s needs nobody.',
        )


def check_retention(keeps: Document) -> Iterator[DoctorRow]:
    """Warn of a database that is too large, and from which nothing more may be dropped.

    Of one that homes share nothing is dropped to make room.
    """
    taken, most = keeps["bytes"], keeps["most_bytes"]
    policy = KeepPolicy(days=keeps["days"], most_bytes=most)
    if taken is not None and keeps.get("shared") and taken > most:
        cure = f"Set TASKMEM_KEEP_DAYS lower in each home. {_RESTART}"
        yield build_warn_row("kept", f"{describe_shared(taken, policy)}.", cure)
    elif taken is not None and keeps["full"]:
        cure = f"End tasks that are over, or set TASKMEM_KEEP_MB higher. {_RESTART}"
        yield build_warn_row("kept", f"{describe_full(taken, policy)}.", cure)


# --- wakes, and the clock -----------------------------------------------------


def check_wakes(
    wakes: Sequence[Document], now: datetime, gateway_started: datetime | None = None
) -> Iterator[DoctorRow]:
    """Check for wakes that are due and for wakes that nobody answered.

    One that is held back, or waits for something though nothing is wrong, is no fault.
    `gateway_started`: when the latest of the connected gateways was; None: there is none.
    """
    open_wakes = sorted(
        (wake for wake in wakes if wake["state"] == "due"),
        key=lambda wake: datetime.fromisoformat(wake["created_at"]),
    )
    due = [wake for wake in open_wakes if wake["due_at"]]
    yield (
        _check_owed_wakes(due, now, gateway_started)
        if due
        else _build_ok_row("wakes.owed", "No wake is owed.")
    )
    if kept := len(open_wakes) - len(due):
        sentence = (
            f"{_format_wake_count(kept)} kept for agents that no transport reaches: see taskmem "
            "wakes."
        )
        yield _build_ok_row("wakes.kept", sentence)
    unanswered = [
        wake
        for wake in wakes
        if wake["state"] == "unanswered"
        and now - datetime.fromisoformat(wake["sent_at"] or wake["created_at"]) <= _REPORT_AGE
    ]
    name = "wakes.unanswered"
    if not unanswered:
        yield _build_ok_row(name, "No wake of the last day is without an answer.")
        return
    first = unanswered[0]
    about = first["task_id"] or first["wait_id"]
    yield build_warn_row(
        name,
        f"Nobody acted on {format_count(len(unanswered), 'wake')} of the last day; the newest is "
        f"{first['wake_id']}, for {about}.",
        f"See what became of it: taskmem show {about}",
        "What they were to go on with has perhaps stopped.",
    )


def _check_owed_wakes(
    due: Sequence[Document], now: datetime, gateway_started: datetime | None
) -> DoctorRow:
    waiting = [why for wake in due if (why := wake["held"] or wake["note"])]
    rest = [wake for wake in due if not (wake["held"] or wake["note"])]
    error = next((wake["last_error"] for wake in rest if wake["last_error"]), None)
    owed = due if error is None else rest
    since = datetime.fromisoformat(owed[0]["created_at"])
    what = f"{_format_wake_count(len(owed))} owed, the oldest since {owed[0]['created_at']}"
    if error is None:
        why = f"; waiting: {waiting[0].rstrip('.')}" if waiting else ""
        return _build_ok_row("wakes.owed", f"{what}{why}.")
    if gateway_started is not None and now - gateway_started < _FRESH_WAKE_AGE:
        why = "the gateway has only just started, and they go out by themselves"
        return _build_ok_row("wakes.owed", f"{what}; {why}.")
    build = build_warn_row if now - since < _FRESH_WAKE_AGE else build_fail_row
    cure = "Mend what fails; they go out by themselves. See: taskmem wakes"
    effect = "The agents that they are for do not go on."
    return build("wakes.owed", f"{what}: {error}", cure, effect)


def _format_wake_count(number: int) -> str:
    return "1 wake is" if number == 1 else f"{number} wakes are"


def check_unheard(status: Document | None) -> Iterator[DoctorRow]:
    """Warn of tasks that are held on other machines of which nothing is heard."""
    if task_ids := (status or {}).get("unheard"):
        yield build_warn_row(
            "claims",
            f"{format_count(len(task_ids), 'task')} held on other machines, by owners that are not "
            f"heard of: {task_ids[0]}{' and others' if task_ids[1:] else ''}.",
            f"Take it back: taskmem reset {task_ids[0]}",
            "Nobody works on it until then, or for ten minutes.",
        )


def check_clock(newest: str | None, now: datetime, shared: datetime | None = None) -> DoctorRow:
    """Check that the clock is neither before the newest event nor before `_BUILD_DATE`.

    `newest`: the event's time in ISO 8601; None: there is no event. `shared`: what the clock of the
    database's server shows, by which its machines judge; None: `now`, this machine's, counts.
    """
    cure = "Have the system set its clock by the network: timedatectl set-ntp true"
    if now < _BUILD_DATE:
        shows = f"It shows {now:%Y-%m-%d}, which is long past."
        return build_fail_row("clock", shows, cure, _WRONG_TIMES)
    if newest is not None and datetime.fromisoformat(newest) - (shared or now) > _CLOCK_TOLERANCE:
        return build_warn_row(
            "clock",
            f"The newest event is of {newest}, and the clock shows "
            f"{now:%Y-%m-%dT%H:%M:%SZ}: it was set back.",
            cure,
            _WRONG_TIMES,
        )
    ahead = now - (shared or now)
    if abs(ahead) > _CLOCK_TOLERANCE:
        where = "ahead of" if ahead > timedelta() else "behind"
        return _build_ok_row(
            "clock",
            f"It is {format_duration(abs(ahead.total_seconds()))} {where} the database's, by which "
            "all machines judge; the ages that commands print go by this one.",
        )
    return _build_ok_row("clock", f"It shows {now:%Y-%m-%dT%H:%M:%SZ}.")


# --- room ------------------------------------------------------------------------


def check_home_size(home: Home, *, has_database: bool) -> DoctorRow:
    """Return the row on the room that a home takes and has.

    `has_database`: its tasks are kept in the home.
    """
    folder = next(each for each in (home.folder, *home.folder.parents) if each.exists())
    free = shutil.disk_usage(folder).free
    return _build_home_size_row(home, _measure_home(home.folder), free, has_database=has_database)


def check_recordings(home: Home, installed: Sequence[Plugin]) -> Iterator[DoctorRow]:
    """Warn of recordings of the screen in a home, where the package that made them is missing.

    Earlier versions had the recorder built in.
    """
    folder = home.folder / _RECORDINGS_FOLDER
    if any(plugin.distribution.startswith(f"{_RECORDER} ") for plugin in installed):
        return
    with suppress(OSError):
        if any(folder.iterdir()):
            yield build_warn_row(
                "kept.recordings",
                f"{folder} holds what was recorded of the screen, and {_RECORDER}, which recorded "
                "it, is not installed.",
                f"To keep them and record again, in a checkout of {OUR_DISTRIBUTION} run: "
                f"{write_install_command('taskmem_recorder')}, {_THEN_RESTART}. To delete them, "
                f"run: rm -r {shlex.quote(str(folder))}",
                "The screen is not recorded, memory_recall does not find what was, and nothing "
                "removes it when it is old.",
            )


def _measure_home(folder: Path) -> Mapping[str, int]:
    """Return the bytes of each part of a home; files that come and go meanwhile are left out."""
    sizes: Counter[str] = Counter()
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            first = path.relative_to(folder).parts[0]
            named = (part for start, part in _HOME_PARTS.items() if first.startswith(start))
            part = next(named, _OTHER_FILES)
            try:
                sizes[part] += path.lstat().st_size
            except OSError:
                continue
    return sizes


def _build_home_size_row(
    home: Home, sizes: Mapping[str, int], free: int, *, has_database: bool = True
) -> DoctorRow:
    """Return the row on a home of such a size; it warns if that, or what is free, is a trouble."""
    largest = sorted(sizes, key=lambda part: -sizes[part])
    parts = [f"{part} {_format_mib(sizes[part])}" for part in largest if sizes[part] >= MIB]
    listed = f" ({', '.join(parts)})" if parts else ""
    detail = (
        f"The home takes {_format_mib(sum(sizes.values()))}{listed}, and {_format_mib(free)} are "
        "free on its disk."
    )
    own = [part for part in largest if part != _RECORDINGS]
    if free < _SCARCE_BYTES:
        cure = f"Make room on the disk of {home.folder}."
        effect = _FULL_EFFECT if has_database else _FULL_BESIDE_EFFECT
        return build_warn_row("kept.home", detail, cure, effect)
    if sum(sizes[part] for part in own) > _LARGE_HOME_BYTES:
        cure = _SIZE_CURES.get(own[0], f"Look at what takes it: du -ah {home.folder}")
        return build_warn_row("kept.home", detail, cure)
    return _build_ok_row("kept.home", detail)


def _format_mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"
