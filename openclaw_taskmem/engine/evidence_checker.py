"""Check the files of one task that is to be completed."""
# ruff: noqa: PTH111, PTH117, PTH118, PTH119 - paths are text, as others gave them

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import islice
from typing import Final

from openclaw_taskmem.domain.changes import evidence
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks import artifact_names, ledger, path_mentions, required_artifacts
from openclaw_taskmem.domain.tasks.artifact_names import (
    COMMAND_KIND,
    COMMIT_KIND,
    ELSEWHERE_KIND,
    FILE_KIND,
    RequiredArtifact,
)
from openclaw_taskmem.domain.tasks.ledger import CheckedClaim, FileTimes
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.folder_listings import (
    LookTime,
    find_ends,
    has_match,
    is_removed_since,
    list_files,
)
from openclaw_taskmem.engine.ledger import (
    SLACK,
    FileActivity,
    find_used_folders,
    look_up_names,
    may_look,
)
from taskmem_hookspecs import (
    Checkpoint,
    Claim,
    FileChange,
    Finding,
    LedgerEntry,
    LedgerVerdict,
    Message,
    Role,
    Run,
    Task,
    Verdict,
    WorkFolder,
)
from taskmem_hookspecs.paths import PATTERN_CHARS, is_hidden, is_within_any

LOOK_TIME_LIMIT: Final = timedelta(seconds=45)
"""How long all checks of one completion may take: a gateway waits 60 s for a tool.

They run one after the other, as parallel ones would share the disk and each have little time.
"""
HASHED_FILES: Final = 500
"""Files of the ledger that are looked at one by one; the rest are summed up by folder."""
READ_TIME_LIMIT: Final = timedelta(seconds=5)
"""How long they are read; the rest are recorded as not read."""
_SEARCHED_MESSAGES: Final = 500
"""Newest messages of a task in which its agent may name what it made."""
_SEARCHED_CALLS: Final = 400
"""Newest checkpoints that are searched for the call that changed a file."""
_MOST_WORK_FOLDERS: Final = 5
"""Folders of the work whose repositories are searched for a commit."""
_MOST_CITED: Final = 10
"""Commits that are looked for in one message."""
ELSEWHERE_TEXT: Final = "It lies on another machine or service, where nobody here can look."
_LATE_TEXT: Final = (
    "There was no time left to look at it, for what comes before it took "
    f"{LOOK_TIME_LIMIT.seconds} s; name fewer things."
)
_FOREIGN_TEXT: Final = "It lies outside the folders that may be looked at here."
_OTHER_HOME_TEXT: Final = "It is not there: ~ is the home of the user that the daemon runs as."
_UNSEEN_TEXT: Final = "A tool reported it, and it was never seen on this machine."
_REMOVED_AGAIN_TEXT: Final = "It was made, and removed again."
_NAMED_GONE_TEXT: Final = "A command named it, and it is not there now."
_PARTLY_LISTED_TEXT: Final = "It has more files than are looked at; there may be more changes."


class EvidenceChecker:
    """Checks the files that a task's tools made, and its required artifacts."""

    def __init__(
        self,
        context: Context,
        task: Task,
        run: Run | None,
        folders: Sequence[WorkFolder],
        folder: str | None,
        *,
        boxed: bool = False,
    ) -> None:
        """Set what is checked.

        `folder` is where relative names start. `boxed`: claimed files are looked for in no other
        folder.
        """
        self._context, self._task, self._run = context, task, run
        self._lead = context.measure_lead()
        """How far times of files are ahead of the instants of the context's clock."""
        # Files that were made before the task are ignored.
        self._folders = [
            each.model_copy(
                update={"since": each.since and max(each.since, task.created_at) + self._lead}
            )
            for each in folders
        ]
        self._folder = folder
        self._began = context.clock.now()
        self._until = self._began + LOOK_TIME_LIMIT
        self._matches: dict[str, bool] = {}
        """The patterns that were looked for; True: something matches."""
        self._look_time = LookTime()
        self._unsure: dict[str, str] = {}
        """By folder that was not searched completely: why."""
        self.files: list[CheckedClaim] = []
        """The checked files of the ledger."""
        own = (folder,) if folder else ()
        self._boxed = boxed
        self._roots = own if boxed else (*context.policies.artifact_roots, *own)
        used = (each.path for each in folders)
        self.places = tuple(dict.fromkeys((*own, *used)))

    # --- what the tools made -----------------------------------------------

    def find_entries(
        self, known: Iterable[LedgerEntry], words: str = "", claimed: Iterable[str] = ()
    ) -> dict[str, LedgerEntry]:
        """Return the ledger with all changes found since, each with the call that made it.

        What only changed in a folder is the agent's if a command of it ran then, or if it names it:
        in the plan, its messages, what it says now (`words`), or what it claims to have made.
        """
        entries = {each.path: each for each in known if each.change}
        named = [*self._find_named()]
        found = [*self._find_all_changes(), *named]
        for folder in [*filter(ledger.is_sum, entries)]:  # Its files are found once more.
            if any(path.startswith(folder) for path, *_ in found):
                del entries[folder]
        for path, change, at, size in found:
            # A "changed" report does not override "created" or "removed".
            if path not in entries or change is not FileChange.CHANGED:
                new = self._build_entry(path, change, at, size, nearby=True)
                entries[path] = ledger.merge_entry(entries.get(path), new)
        names, by_command = self._read_agent_names(words, claimed), {path for path, *_ in named}
        lasts = frozenset(os.path.basename(each) for each in names)
        for path, entry in entries.items():
            own = not entry.nearby or path in by_command or self._is_made_by_call(entry)
            if own or _is_named(path, names, lasts, self.places):
                # The latest call that had begun has probably made the change.
                before = [call_id for at, call_id, _ in self._calls if at <= entry.at]
                call_id = entry.call_id or next(reversed(before), None)
                entries[path] = entry.model_copy(update={"nearby": False, "call_id": call_id})
        return {path: e for path, e in entries.items() if not (e.nearby and self._is_of_host(path))}

    def _is_of_host(self, path: str) -> bool:
        """Tell whether the gateway itself puts a file into its agent's folder, or removes it."""
        (folder, name), sessions = os.path.split(path), self._context.sessions
        names = sessions.find_names(self._task.session_key)
        return folder == self._folder and names is not None and name in names.own_files

    def _is_made_by_call(self, entry: LedgerEntry) -> bool:
        """Tell whether a command of the agent ran when a file changed, as far as is known.

        A call that names its files changed no other. When a file was removed is not known, nor what
        older calls and runs did.
        """
        spans, run = self._spans, self._run
        if run is None or not current_run.has_visible_calls(run):
            return False
        if entry.change is not FileChange.CHANGED and self._is_of_host(entry.path):
            return False
        is_full = len(self._checkpoints) >= _SEARCHED_CALLS
        oldest = self._checkpoints[0].at if is_full else run.created_at
        if entry.at < oldest or (entry.change is FileChange.REMOVED and spans):
            return True
        return any(
            began - SLACK <= entry.at and (ended is None or entry.at <= ended)
            for began, ended in spans
        )

    def _read_agent_names(self, words: str, claimed: Iterable[str]) -> frozenset[str]:
        messages = self._context.store.read_records(Message, self._task.task_id, _SEARCHED_MESSAGES)
        texts = (each.content for each in messages if each.role is Role.AGENT)
        found = path_mentions.find_names(*self._task.plan, *texts, words).here
        names = (each for name in found for each in path_mentions.list_readings(name))
        up = self._folder or ""
        spelt = (os.path.join(up, e) if e.startswith("..") else e for e in (*names, *claimed))
        return frozenset(os.path.normpath(os.path.expanduser(each)) for each in spelt)

    def _build_entry(
        self,
        path: str,
        change: FileChange,
        at: datetime,
        size: int | None,
        *,
        nearby: bool = False,
    ) -> LedgerEntry:
        return LedgerEntry(
            task_id=self._task.task_id,
            path=path,
            run_id=self._run.run_id if self._run else None,
            change=change,
            at=at,
            size=size,
            nearby=nearby,
        )

    @cached_property
    def _checkpoints(self) -> Sequence[Checkpoint]:
        if self._run is None:
            return ()
        return self._context.store.read_records(Checkpoint, self._run.run_id, _SEARCHED_CALLS)

    @cached_property
    def _calls(self) -> list[tuple[datetime, str, str]]:
        return checkpoints.read_calls(self._checkpoints)

    @cached_property
    def _spans(self) -> list[tuple[datetime, datetime | None]]:
        return checkpoints.read_spans(self._checkpoints)

    @cached_property
    def unsearched_folders(self) -> tuple[str, ...]:
        """The folders that commands named but that were not searched."""
        own = self.places[:1]
        deeds = (FileActivity(folders=own, command=True, text=text) for *_, text in self._calls)
        used = (find_used_folders(self._context, self._run, deed) for deed in deeds)
        passed = dict.fromkeys(path for each in used for path in each.passed)
        return tuple(path for path in passed if path not in self.places)

    def _find_all_changes(self) -> Iterator[tuple[str, FileChange, datetime, int | None]]:
        looks = partial(may_look, self._context, self._run, folder=self._folder)
        used = [each for each in self._folders if each.since]
        folders = [each for each in used if looks(each.path)]
        self._unsure |= {each.path: _FOREIGN_TEXT for each in used if each not in folders}
        found = [each for f in folders for each in self._find_folder_changes(f)]
        whole = not any(each.path in self._unsure for each in folders)
        if not found and whole:  # Git may ignore all files that were made.
            more = (each for f in folders for each in self._find_folder_changes(f, ignored=True))
            found = [*islice(more, HASHED_FILES)]
        for path, change, stamps in found:
            if stamps is None:
                yield path, change, self._context.clock.now(), None
            else:
                at = ledger.from_nanoseconds(stamps.changed) - self._lead
                yield path, change, at, stamps.size

    def _find_folder_changes(
        self, folder: WorkFolder, *, ignored: bool = False
    ) -> Iterator[tuple[str, FileChange, FileTimes | None]]:
        if self._context.clock.now() > self._until:
            self._unsure[folder.path] = _LATE_TEXT
            return
        since = ledger.to_nanoseconds(folder.since) - ledger.STAMP_SLACK if folder.since else 0
        with self._look_time as until:
            listing = list_files(folder.path, since, until, ignored=ignored)
        if listing is None:
            return
        if not listing.complete:
            self._unsure[folder.path] = _PARTLY_LISTED_TEXT
        kept = None if ignored else folder.files
        before = None if kept is None else self._context.listings.read_names(kept)
        gone = before - listing.names if before and listing.complete else ()
        there = [p for p in gone if not is_removed_since(os.path.join(folder.path, p), since)]
        is_own = self._build_own_test(folder.path)
        for name, change, stamps in ledger.find_changes(folder, before, listing, there):
            if not is_own(name):
                yield os.path.join(folder.path, name), change, stamps

    def _build_own_test(self, folder: str) -> Callable[[str], bool]:
        """Return what tells whether a file in a folder is this home's own, so of no task."""
        home, real = self._context.home_folder, os.path.realpath(folder)
        if home is None:
            return lambda _: False
        home = os.path.realpath(home)
        if is_within_any(real, (home,)):  # A home may be the very folder that a task works in.
            return lambda name: is_hidden(os.path.join(real, name), home)
        return lambda name: os.path.join(real, name).startswith(f"{home}/")

    def _find_named(self) -> Iterator[tuple[str, FileChange, datetime, int | None]]:
        """Yield the files that the run's commands name and that were written since the first one.

        Some of these commands may still run, and their ends have reported nothing yet.
        """
        since = min((f.since for f in self._folders if f.since), default=None)
        if since is not None:
            now, texts = self._context.clock.now(), [text for *_, text in self._calls]
            places = (*self.places, *self.unsearched_folders)
            for path, change, size in look_up_names(self._context, self._run, texts, places, since):
                yield path, change, now, size

    def judge(self, entries: Mapping[str, LedgerEntry]) -> dict[str, LedgerEntry]:
        """Return the entries with the verdict on each, by path.

        Those of the agent come first. Beyond `HASHED_FILES`, and once reading them has taken
        `READ_TIME_LIMIT`, they are recorded without being read, by folder if they are many.
        """
        until = self._context.clock.now() + READ_TIME_LIMIT
        judged: dict[str, LedgerEntry] = {}
        unread: list[LedgerEntry] = []
        for entry in sorted(entries.values(), key=lambda each: each.nearby):
            if ledger.is_sum(entry.path):
                judged[entry.path] = entry
            elif len(judged) < HASHED_FILES and self._context.clock.now() <= until:
                judged[entry.path] = self._judge_entry(entry)
            else:
                unread.append(entry)
        return judged | ledger.sum_up_entries(unread)

    def _judge_entry(self, entry: LedgerEntry) -> LedgerEntry:
        path = entry.path
        if not may_look(self._context, self._run, path, self._folder):
            return _to_unverified(entry, _FOREIGN_TEXT)
        if os.path.lexists(path):
            if entry.change is FileChange.REMOVED:
                entry = entry.model_copy(update={"change": FileChange.CHANGED})
            if entry.nearby:  # It proves nothing, so it is not read.
                return entry
            seen = self._check_thing(RequiredArtifact(kind=FILE_KIND, subject=path))
            self.files.append(seen)
            return ledger.judge_entry(entry, seen)
        if entry.change is not FileChange.REMOVED and entry.size is None:
            return _to_unverified(entry, _UNSEEN_TEXT)
        if entry.change is FileChange.CREATED:
            again = {"verdict": LedgerVerdict.ABSENT, "why": _REMOVED_AGAIN_TEXT}
            return entry.model_copy(update=again)
        gone = {"change": FileChange.REMOVED, "verdict": LedgerVerdict.PROVED}
        return entry.model_copy(update=gone)

    def _may_look(self, path: str) -> bool:
        """Tell whether a path that is only named lies where its agent may look."""
        return is_within_any(os.path.realpath(path), self._roots)

    # --- what is to be there -----------------------------------------------

    def check(
        self, thing: RequiredArtifact, entries: Sequence[str], *, hidden: bool = False
    ) -> list[CheckedClaim]:
        """Check a required artifact: one, or all that its text lists.

        `hidden`: the caller may not look at it, so it is not checked.
        """
        if thing.kind != FILE_KIND:
            return [self._check_thing(thing, evidence.HIDDEN_COMMAND if hidden else None)]
        read = artifact_names.read_artifact(
            thing.subject, lambda name: self._find_path(name, entries) is not None
        )
        named = [each.model_copy(update={"checksum": thing.checksum}) for each in read]
        return [self._check_named(each, entries) for each in named]

    def _check_named(self, thing: RequiredArtifact, entries: Sequence[str]) -> CheckedClaim:
        if thing.kind != FILE_KIND:
            hidden = self._boxed and thing.kind == COMMAND_KIND
            return self._check_thing(thing, evidence.HIDDEN_COMMAND if hidden else None)
        path, name = self._find_path(thing.subject, entries), thing.subject
        if path is None and not path_mentions.find_names(name).here and name.split() == [name]:
            commit = self._check_thing(thing.model_copy(update={"kind": COMMIT_KIND}))
            if commit.finding.size is not None:  # a branch, or another name that git knows
                return commit
        return self._check_thing(thing.model_copy(update={"subject": path or _expand_home(name)}))

    def _find_path(self, name: str, entries: Iterable[str]) -> str | None:
        """Return the path of a file, also if it is named without its folder; None: none exists."""
        if name.startswith("~/"):
            paths = [os.path.expanduser(name)]
        else:
            ends = path_mentions.list_path_ends(name)
            made = (path for path in entries if path.endswith(ends))
            paths = [*made, *(os.path.join(folder, name) for folder in self.places or ("/",))]
        return next((path for path in paths if self._exists(path)), None)

    def _exists(self, path: str) -> bool:
        """Tell whether a path, or anything that it matches as a pattern, is where one may look."""
        if os.path.lexists(path):
            return self._may_look(path)
        if not PATTERN_CHARS.search(path) or self._context.clock.now() > self._until:
            return False
        if path not in self._matches:
            self._matches[path] = has_match(path, self._roots)
        return self._matches[path]

    def _check_thing(self, thing: RequiredArtifact, doubt: str | None = None) -> CheckedClaim:
        """Check an artifact; `doubt`: why it is not checked; None: it is."""
        claim = required_artifacts.make_claim(
            thing, self._task, self._folder, self._roots, self._began
        )
        shown = {"since": claim.since + self._lead, "claimed_at": claim.claimed_at + self._lead}
        claim = claim.model_copy(update=shown)
        if thing.kind == ELSEWHERE_KIND:
            doubt = ELSEWHERE_TEXT
        elif doubt is None and self._context.clock.now() > self._until:
            doubt = _LATE_TEXT
        if doubt is not None:
            return _build_unproven(claim, doubt)
        if thing.kind == COMMIT_KIND:
            return self._check_commit(claim)
        findings = self._context.plugin_host.collect_findings(claim)
        return evidence.combine_findings(claim, findings)

    def _check_commit(self, claim: Claim) -> CheckedClaim:
        """Check a commit in each folder of the work: where one has it, the others do not count."""
        checked: list[CheckedClaim] = []
        for place in self.places[:_MOST_WORK_FOLDERS] or (None,):
            if checked and self._context.clock.now() > self._until:
                return _build_unproven(claim, _LATE_TEXT)
            here = claim.model_copy(update={"folder": place})
            findings = self._context.plugin_host.collect_findings(here)
            checked.append(evidence.combine_findings(here, findings))
            if checked[-1].finding.size is not None:
                return checked[-1]
        return next((c for c in checked if c.finding.verdict is Verdict.REFUTED), checked[0])

    def explain_missing_commits(self, text: str) -> dict[str, str]:
        """Return why commits that a text cites are not verified: no repository has them.

        What may be something else, as there is no repository, is left out.
        """
        cited = path_mentions.find_hashes(text)[:_MOST_CITED]
        things = (RequiredArtifact(kind=COMMIT_KIND, subject=each) for each in cited)
        checked = [self._check_thing(each) for each in things]
        return {
            each.claim.subject: each.finding.detail
            for each in checked
            if each.finding.verdict is Verdict.REFUTED
        }

    def add_proved_files(
        self, checked: Iterable[CheckedClaim], entries: Mapping[str, LedgerEntry]
    ) -> dict[str, LedgerEntry]:
        """Add to the judged entries the required files that exist."""
        found = dict(entries)
        for each in checked:
            path = os.path.join(self._folder or "", each.claim.subject)
            # Folders and patterns have no checksum; their files are in the ledger.
            file = each.claim.kind == FILE_KIND and each.finding.checksum and os.path.isabs(path)
            known = found.get(path)
            if each.is_proved and file and (known is None or known.why == ledger.UNREAD_SENTENCE):
                now, size = self._context.clock.now(), each.finding.size
                new = known or self._build_entry(path, FileChange.CREATED, now, size)
                found[path] = ledger.judge_entry(new, each)
        return dict(sorted(found.items()))

    # --- what is only named ------------------------------------------------

    def explain_missing_names(self, named: Iterable[str], entries: Iterable[str]) -> dict[str, str]:
        """Return why names cannot be verified; names that are found are left out.

        Folders that could not be searched completely are included, each with the reason.
        """
        paths = set(entries)
        readings = {name: path_mentions.list_readings(name) for name in named}
        every = dict.fromkeys(each for some in readings.values() for each in some)
        whys = {each: self._explain_missing_path(each, paths) for each in every}
        lost = [some for some in readings.values() if not any(whys[each] is None for each in some)]
        whys |= self._search_folders(
            each for some in lost for each in some if whys[each] == ledger.NOWHERE_SENTENCE
        )
        doubts = {n: _pick_reason([whys[e] for e in some]) for n, some in readings.items()}
        return {**self._unsure, **{name: why for name, why in doubts.items() if why is not None}}

    def _explain_missing_path(self, name: str, entries: set[str]) -> str | None:
        if name.startswith("~/"):
            path = os.path.expanduser(name)
            return None if path in entries or os.path.lexists(path) else _OTHER_HOME_TEXT
        if os.path.isabs(name):
            if os.path.normpath(name) in entries:
                return None
            if not self._may_look(name):
                return _FOREIGN_TEXT if "." in os.path.basename(name) else None
        ends = path_mentions.list_path_ends(name)
        places = (os.path.join(folder, name) for folder in self.places)
        if any(map(os.path.lexists, places)) or any(p.endswith(ends) for p in entries):
            return None
        if any(f"/{each}".endswith(ends) for each in self._command_names):
            return _NAMED_GONE_TEXT
        return ledger.NOWHERE_SENTENCE

    def _search_folders(self, names: Iterable[str]) -> dict[str, str | None]:
        """Search the folders once for paths that end in names; None: such a path is found."""
        ends = {n: path_mentions.list_path_ends(n) for n in names if not os.path.isabs(n)}
        missing, why = ends, ledger.NOWHERE_SENTENCE
        for folder in self.places if ends else ():
            if self._may_look(folder):
                late = self._context.clock.now() > self._until
                with self._look_time as until:
                    found, whole = (
                        (set[str](), False) if late else find_ends(folder, missing, until)
                    )
                missing = {name: each for name, each in missing.items() if name not in found}
                why = why if whole else _PARTLY_LISTED_TEXT
        return {name: why if name in missing else None for name in ends}

    @cached_property
    def _command_names(self) -> frozenset[str]:
        """The names in commands that succeeded, such as a file on another machine."""
        found = path_mentions.find_names(*checkpoints.read_successes(self._checkpoints))
        return frozenset((*found.here, *found.elsewhere))


def _is_named(
    path: str, names: frozenset[str], lasts: frozenset[str], places: Sequence[str]
) -> bool:
    """Tell whether a name, or a pattern, means a file or a folder that it lies in.

    `lasts` has the last part of each name: most files share none.
    """
    patterns = [name for name in names if "*" in name]
    parts = path.split("/")
    if not patterns and lasts.isdisjoint((*parts, *(e.rpartition(" ")[2] for e in parts))):
        return False
    tails = frozenset(path_mentions.list_tails(path, places))
    return not names.isdisjoint(tails) or any(
        fnmatchcase(tail, each) for each in patterns for tail in tails
    )


def _pick_reason(whys: Sequence[str | None]) -> str | None:
    """Return the reason of a name with several readings; None: one is found, or is no path."""
    unsure = (why for why in whys if why != ledger.NOWHERE_SENTENCE)
    return None if None in whys else next(unsure, ledger.NOWHERE_SENTENCE)


def _build_unproven(claim: Claim, doubt: str) -> CheckedClaim:
    return CheckedClaim(claim=claim, finding=Finding(verdict=Verdict.UNPROVEN, detail=doubt))


def _expand_home(name: str) -> str:
    return os.path.expanduser(name) if name.startswith("~/") else name


def _to_unverified(entry: LedgerEntry, why: str) -> LedgerEntry:
    verdict = LedgerVerdict.UNVERIFIED
    return entry.model_copy(update={"verdict": verdict, "why": why})
