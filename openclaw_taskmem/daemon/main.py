"""Assemble a home's daemon, run it, and shut it down in order."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import linecache
import logging
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from openclaw_taskmem import __version__
from openclaw_taskmem.clock import ServerClock, SystemClock
from openclaw_taskmem.config import Settings, load_settings
from openclaw_taskmem.daemon import logfile, mcp
from openclaw_taskmem.daemon.background_loops import BackgroundLoops
from openclaw_taskmem.daemon.dispatcher import Dispatcher
from openclaw_taskmem.daemon.home_identity import ensure_identity
from openclaw_taskmem.daemon.lock import Lock, read_file_identity
from openclaw_taskmem.daemon.plugin_loops import PluginLoops, run_sources
from openclaw_taskmem.daemon.processes import is_alive
from openclaw_taskmem.daemon.readers import Readers, choose_readers
from openclaw_taskmem.daemon.role_queues import Queues
from openclaw_taskmem.daemon.server import MOST_CONNECTIONS, RelayExits, SocketServer
from openclaw_taskmem.daemon.session_watches import LimitSensor, SessionSensor
from openclaw_taskmem.daemon.snapshots import SnapshotStore
from openclaw_taskmem.daemon.task_watches import TaskSensor
from openclaw_taskmem.daemon.thread_pool import DeferredExecutor, OffLoopCaller, ThreadPool
from openclaw_taskmem.daemon.wait_supervisor import WaitSupervisor
from openclaw_taskmem.daemon.wake_routes import build_routing_transport
from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.domain.conditions.targets import LookPolicy, SandboxLooks
from openclaw_taskmem.domain.text import redaction
from openclaw_taskmem.domain.wakes.notices import Notify
from openclaw_taskmem.engine import notifications
from openclaw_taskmem.engine.context import Context, DueWork, Policies, ScopedStore
from openclaw_taskmem.engine.folder_listings import FolderListings
from openclaw_taskmem.engine.recall import StoredHistory
from openclaw_taskmem.home import Home, HomeRefused, build_own_command, locate_home
from openclaw_taskmem.losses import (
    ExtentNote,
    find_database_file,
    find_loss,
    note_database,
    require_known_database,
)
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import Clock, ClockedStore, TaskmemError, TaskStore
from taskmem_hookspecs.roles import SettlingStore
from taskmem_program.process_groups import leave_terminal

log = logging.getLogger(__name__)

MOST_DESCRIPTORS: Final = 4096
"""Number of open files that the daemon requests from the system."""
MOST_ARENAS: Final = 2
"""Pools in which glibc's threads allocate; by default each thread of the daemon has its own."""
_ARENA_MAX: Final = -8
"""Number of that limit in `mallopt(3)`."""
_LOOP_THREADS: Final = 4
"""Threads for background passes and deliveries, separate from those for calls."""
_NO_SOCKETS: Final = {errno.ENOTSUP, errno.EPERM, errno.EIO, errno.EINVAL, errno.ENOSYS}
"""Errors of `bind` on file systems without sockets."""
LOOK_SECONDS: Final = 5.0
"""Interval of the checks that the home still exists and how long its log is.

Each write looks itself whether its database is still there.
"""
_STORE_SECONDS: Final = 30.0
"""Interval of what `_look_after_server` does."""
_CATCH_UP_SECONDS: Final = 3.0
"""Maximum time for which preloading modules waits until every open wait was looked at."""
_LAST_CALLS_SECONDS: Final = 5.0
"""Time limit for running calls when the daemon stops."""


def raise_descriptor_limit() -> int:
    """Raise this process's limit of open files; return the limit, at most `MOST_DESCRIPTORS`.

    Hosts may leak relays, and macOS's default of 256 is soon used up.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def limit_malloc_arenas(environ: Mapping[str, str]) -> None:
    """Let all threads share a few of glibc's arenas, unless the environment sets their number.

    Other C libraries have no arenas.
    """
    tunables = environ.get("GLIBC_TUNABLES", "")
    if environ.get("MALLOC_ARENA_MAX") or "glibc.malloc.arena_max=" in tunables:
        return
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, MOST_ARENAS)


def run_daemon(environ: MutableMapping[str, str], lock: Lock) -> None:
    """Run the daemon of the home whose lock this process holds, as `_serve_one_home` does.

    Raises:
        TaskmemError: It cannot run with these settings or this database.
    """
    leave_terminal()
    logfile.set_up_logging()
    limit_malloc_arenas(environ)
    # Reserve half of them for files that the daemon itself opens.
    most_connections = min(MOST_CONNECTIONS, raise_descriptor_limit() // 2)
    settings = load_settings(environ)
    for warning in settings.warnings:
        log.warning("%s", warning)
    asyncio.run(_serve_one_home(settings, SystemClock(), lock, most_connections))


async def _serve_one_home(
    settings: Settings, machine: Clock, lock: Lock, most_connections: int = MOST_CONNECTIONS
) -> None:
    """Serve one home until a signal comes, it was idle for long enough, or its files are replaced.

    `machine` is the clock of this machine. This process holds `lock`, the home's;
    `most_connections` may be open at once.

    Raises:
        NoProvider: There is no wake transport at all.
        SettingsInvalid: A transport or reader is unknown, the home is a copy of another and shares
            its database, or its database is elsewhere and not named.
        StoreUnavailable: The database cannot be opened.
    """
    home = ensure_identity(settings.home.identity_file, shares=bool(settings.database_url))
    plugin_host = _load_plugins(settings)

    def list_gateways() -> Sequence[GatewayPresence]:
        return dispatcher.gateways.presences

    transport, delivery = build_routing_transport(settings, plugin_host, os.environ, list_gateways)
    store, extent = _open_store(settings, plugin_host)
    shared = _read_server_clock(store, machine)
    clock = shared or machine
    opened = _identify_database_files(settings)
    agent_hosts = plugin_host.find_agent_hosts()
    scoped = ScopedStore(store, home, sole=not settings.database_url)
    history = StoredHistory(scoped)
    sources = plugin_host.find_recall_sources(
        history=history, folder=settings.home.folder, clock=machine, scrub=redaction.scrub
    )
    loops: BackgroundLoops | None = None

    plugin_loops = PluginLoops()
    readers = Readers(
        choose_readers(settings.readers, plugin_host),
        plugin_host,
        plugin_loops,
        clock,
        seconds=settings.judge_timeout_seconds,
    )
    supervisor = WaitSupervisor(
        plugin_host,
        clock,
        plugin_loops,
        judge_seconds=settings.judge_timeout_seconds,
        snapshot_store=SnapshotStore(settings.home.pictures, settings.picture_days),
        readers=readers,
        queues=Queues(clock, lambda: context),
        tasks=TaskSensor(clock, lambda: context),
        sessions=SessionSensor(clock, lambda: context),
        limits=LimitSensor(clock, lambda: context),
        machine=machine,
    )

    def nudge(due: DueWork) -> None:
        supervisor.follow(due)
        dispatcher.note_commit(due)
        if loops is not None:
            loops.wake_loops(due)

    def free() -> None:
        if loops is not None:
            loops.recheck_holds()

    later = DeferredExecutor()
    context = Context(
        store=scoped,
        plugin_host=plugin_host,
        clock=clock,
        measure_lead=shared.measure_lead if shared else timedelta,
        policies=_build_policies(settings),
        listings=FolderListings(settings.home.listings),
        home_folder=str(settings.home.folder),
        sessions=plugin_host.read_session_keys(agent_hosts),
        is_alive=is_alive,
        wait_watcher=supervisor,
        recall_sources=sources,
        ask_reader=readers.ask,
        reaches=transport.reaches,
        volatile_transports=transport.list_volatile(),
        command=build_own_command(settings.home),
        find_loss=partial(find_loss, settings),
        run_later=later,
        nudge=nudge,
    )
    dispatcher = Dispatcher(
        context,
        settings,
        supervisor,
        free,
        readers,
        delivery_status=delivery,
        find_transport=transport.find_name,
    )
    passes = ThreadPool(_LOOP_THREADS, "loops")
    relay_exits = RelayExits(context, passes)
    server = SocketServer(dispatcher, relay_exits.watch_process, most_connections)
    loops = BackgroundLoops(
        context,
        transport,
        passes,
        longest=max(settings.stuck_interval_seconds, 0.1),
        holds=dispatcher.gateways.build_hold_finder,
        gateways=list_gateways,
        agent_hosts=agent_hosts,
    )
    stop = asyncio.Event()
    try:
        _stop_on_signals(stop)
        _join_database(context, readers)
        await _open_socket(server, settings.home)
        log.info("taskmem %s serves %s", __version__, settings.home.folder)
        watch = asyncio.create_task(
            _run_together(
                _watch_home_files(
                    stop,
                    server,
                    lock,
                    settings,
                    clock,
                    opened=opened,
                    settle=partial(passes, _settle, store),
                ),
                _look_after_server(extent, shared, machine, passes),
            )
        )
        await _run_until_stopped(
            stop,
            server,
            loops,
            supervisor,
            context,
            run_recall=partial(run_sources, sources, plugin_host, plugin_loops, clock),
            patience=settings.idle_exit_seconds,
        )
        watch.cancel()
    finally:
        lock.mark_ending()
        context.stopping.set()
        await server.close(_LAST_CALLS_SECONDS)
        in_order = (supervisor, relay_exits, dispatcher, later, passes, readers.spending)
        for close in [each.close for each in in_order]:
            await close()
        _close_store(store, extent)
        log.info("stopped")


def _read_server_clock(store: TaskStore, machine: Clock) -> ServerClock | None:
    """Return the clock by which all daemons of a database judge; None: this machine's."""
    if not isinstance(store, ClockedStore) or store.read_clock() is None:
        return None
    return ServerClock(machine, lambda: store.read_clock() or machine.now())


async def _run_together(*loops: Coroutine[None, None, None]) -> None:
    """Run loops until all have ended, one has failed, or they are cancelled."""
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop)


async def _look_after_server(
    extent: ExtentNote,
    shared: ServerClock | None,
    machine: Clock,
    run_in_thread: OffLoopCaller,
) -> None:
    """Every `_STORE_SECONDS`, note how much a database on a server has, and read its clock.

    `shared`: None if the database is a file.
    """
    while shared is not None:
        await machine.sleep(_STORE_SECONDS)
        await run_in_thread(extent.update)
        with suppress(TaskmemError):  # the next look tells
            await run_in_thread(shared.synchronize)


def _open_store(settings: Settings, plugin_host: PluginHost) -> tuple[TaskStore, ExtentNote]:
    """Open the home's database, and log what is gone from it.

    Raises:
        SettingsInvalid, StoreUnavailable: As for `_serve_one_home`.
    """
    require_known_database(settings)
    store = plugin_host.open_store(settings.database)
    note_database(settings)
    extent = ExtentNote(settings, store)
    extent.update()
    if (loss := find_loss(settings)) is not None:
        log.warning("%s", loss)
    return store, extent


def _load_plugins(settings: Settings) -> PluginHost:
    """Load the plug-ins, and forget the credentials of the session that started this daemon."""
    plugin_host = PluginHost(seconds=settings.hook_seconds, disabled=settings.disabled_plugins)
    for name in plugin_host.list_session_variables():
        os.environ.pop(name, None)
    return plugin_host


def _close_store(store: TaskStore, extent: ExtentNote) -> None:
    try:
        extent.update()
    finally:
        store.close()


def _settle(store: TaskStore) -> None:
    """Have a store put its files in order, if it has any."""
    if isinstance(store, SettlingStore):
        with suppress(TaskmemError):  # it is tried again after the next write
            store.settle()


def _build_policies(settings: Settings) -> Policies:
    """Return the policies of the use cases from the settings."""
    return Policies(
        stuck=settings.stuck,
        outbox=settings.outbox,
        runs=settings.runs,
        retention=settings.keep,
        looks=LookPolicy(
            roots=settings.look_roots,
            sandbox=SandboxLooks(settings.sandbox_looks),
            commands=settings.wait_commands,
        ),
        notices=Notify(settings.notify),
        artifact_roots=settings.roots,
        writes_steps=settings.recall_reader,
    )


def _stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


def _join_database(context: Context, readers: Readers) -> None:
    """Set the home's places in the log, before any call can write: every later event is new."""
    context.store.join_database()
    readers.spending.begin(context)
    notifications.set_start_positions(context)


async def _run_until_stopped(
    stop: asyncio.Event,
    server: SocketServer,
    loops: BackgroundLoops,
    supervisor: WaitSupervisor,
    context: Context,
    *,
    run_recall: Callable[[], Coroutine[object, object, None]],
    patience: float,
) -> None:
    background = [
        asyncio.create_task(loops.run()),
        asyncio.create_task(supervisor.run(context)),
        asyncio.create_task(_preload_modules(supervisor, server)),
        asyncio.create_task(run_recall()),
        asyncio.create_task(_stop_when_idle(stop, server, loops, context.clock, patience)),
    ]
    needed = background[:2]
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((stopping, *needed), return_when=asyncio.FIRST_COMPLETED)
    for running in needed:
        if running.done():
            await running
    for task in (*background, stopping):
        task.cancel()
    for task in background:
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _preload_modules(supervisor: WaitSupervisor, server: SocketServer) -> None:
    """Load the judges after the start, and the MCP SDK once the first host connects.

    Starts once every open wait was looked at, or after `_CATCH_UP_SECONDS`. A home without MCP
    hosts never needs the SDK, which takes some 35 MB.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CATCH_UP_SECONDS):
            await supervisor.wait_until_caught_up()
    judges = asyncio.create_task(asyncio.to_thread(supervisor.load_judges))
    wanted = asyncio.create_task(server.wants_mcp.wait())
    await asyncio.wait((judges, wanted), return_when=asyncio.FIRST_COMPLETED)
    if not wanted.done():
        _keep_loaded_modules()
        await wanted
    try:
        await asyncio.to_thread(mcp.load_sdk)
    except Exception as error:
        # Any error: another version of the SDK may lack a name.
        log.exception("the MCP SDK cannot be loaded; no host is served")
        server.lacks_mcp = mcp.SdkUnavailable(error)
    # Also after a failure: hosts are then refused instead of waiting.
    server.speaks_mcp.set()
    await judges
    _keep_loaded_modules()


def _keep_loaded_modules() -> None:
    """Exempt all that is loaded from garbage collection, and enable it: `startup.main` disabled it.

    Also frees the source texts that were read to build models.
    """
    linecache.clearcache()
    gc.freeze()
    gc.enable()


def _identify_database_files(settings: Settings) -> Sequence[tuple[int, int] | None]:
    """Return the identities of the SQLite file and its WAL, with None for one that does not exist.

    None also for a file that was emptied. The list is empty if the database is on a server.
    """
    file = find_database_file(settings)
    if file is None:
        return ()
    found = [read_file_identity(each) for each in (file, file.with_name(f"{file.name}-wal"))]
    with suppress(OSError):
        if not file.stat().st_size:
            found[0] = None
    return found


def _read_write_state(settings: Settings) -> tuple[int, int] | None:
    """Return what each write into SQLite's log changes: its size and time; None: it has none."""
    file = find_database_file(settings)
    with suppress(OSError):
        if file is not None:
            found = file.with_name(f"{file.name}-wal").stat()
            return found.st_size, found.st_mtime_ns
    return None


async def _watch_home_files(
    stop: asyncio.Event,
    server: SocketServer,
    lock: Lock,
    settings: Settings,
    clock: Clock,
    *,
    opened: Sequence[tuple[int, int] | None],
    settle: Callable[[], Awaitable[None]],
) -> None:
    """Every `LOOK_SECONDS`, check the home's files, reopen a removed socket, and rotate the log.

    `settle` has the store put its files in order; it is called at two looks after each write.

    Stops the daemon if its lock or database was replaced or removed: it would go on writing into
    files that nobody can find any more.
    """
    written, looks = _read_write_state(settings), 2
    while True:
        await clock.sleep(LOOK_SECONDS)
        if not lock.is_in_place:
            log.warning("%s is gone or another's; stopping", settings.home.folder)
            stop.set()
            return
        if _identify_database_files(settings) != opened:
            log.warning("the database was emptied, replaced or removed; stopping")
            stop.set()
            return
        if not server.is_in_place:
            await _reopen_socket(server, settings.home)
        with suppress(OSError):
            logfile.rotate_log(settings.home.log)
        before, written = written, _read_write_state(settings)
        looks = 2 if written != before else looks
        if looks:
            looks -= 1
            await settle()


async def _open_socket(server: SocketServer, home: Home) -> None:
    """Listen at the home's socket, or outside the home if its file system has no sockets.

    Raises:
        OSError: It can be made nowhere.
        HomeRefused: Another has what would be the socket's folder.
    """
    try:
        await server.open(home.socket)
    except OSError as error:
        elsewhere = home.move_socket(os.environ)
        if elsewhere == home or error.errno not in _NO_SOCKETS:
            raise
        log.warning("%s: %s; the socket is %s", home.socket, error.strerror, elsewhere.socket)
        elsewhere.prepare()
        await server.open(elsewhere.socket)


async def _reopen_socket(server: SocketServer, home: Home) -> None:
    """Create a removed socket again, where clients look for it now.

    A logout removes the folder of the runtime files with the socket of a long home, and it may stay
    away. What fails is tried again at the next look.
    """
    here = locate_home({**os.environ, "TASKMEM_HOME": os.fspath(home.folder)})
    log.warning("the socket is gone; creating it again as %s", here.socket)
    try:
        here.prepare()
        await _open_socket(server, here)
    except (OSError, HomeRefused) as error:
        log.warning("it cannot be created: %s", error)


async def _stop_when_idle(
    stop: asyncio.Event, server: SocketServer, loops: BackgroundLoops, clock: Clock, patience: float
) -> None:
    """Stop after `patience` seconds without a connection, if no task, wait or wake is open."""
    while not stop.is_set():
        server.emptied.clear()
        used = asyncio.create_task(server.emptied.wait())
        rest = asyncio.create_task(clock.sleep(patience))
        try:
            await asyncio.wait((used, rest), return_when=asyncio.FIRST_COMPLETED)
        finally:
            used.cancel()
            rest.cancel()
        # Each connection that ends begins the time anew.
        if server.emptied.is_set() or server.connection_count:
            continue
        if await loops.is_idle() and not server.connection_count:
            log.info("idle; stopping")
            stop.set()
