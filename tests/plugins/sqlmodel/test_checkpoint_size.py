"""What checkpoints cost on disk, measured against what they say."""

from __future__ import annotations

from datetime import timedelta

from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from taskmem_hookspecs import Change, Checkpoint
from taskmem_hookspecs.packet import ConversationMessage
from taskmem_hookspecs.testing import DAWN, a_run, a_task
from taskmem_sqlmodel.store import SqlStore

CALLS = 5_000
RUN = "run_0123456789abcdef"
COMMANDS = (
    "git -C /home/me/site status --short && git log --oneline -5",
    "npm run build -- --mode production",
    "/home/me/site/src/pages/index.astro",
    "rg -n 'export const' src --glob '*.ts' | head -40",
)
ANSWERS = (
    " M src/pages/index.astro\n3f2a9c1 Build the index\n09bbf2e Add the footer",
    "vite v6.2.0 building for production...\n✓ 214 modules transformed.",
    "Successfully wrote 2,311 bytes",
    "src/lib/dates.ts:3:export const DAY\nsrc/lib/dates.ts:9:export const WEEK",
)


def _entries(number: int) -> tuple[CallStartEntry, CallEndEntry]:
    """A typical call: it begins, and it ends."""
    begun = CallStartEntry(
        call_id=f"toolu_{number:024}",
        tool="exec",
        about=COMMANDS[number % len(COMMANDS)],
        step=number % 7,
    )
    words = f"The build of part {number} is done, so the next part comes."
    over = CallEndEntry(
        **begun.model_dump(exclude={"kind"}),
        outcome=ANSWERS[number % len(ANSWERS)],
        ok=True,
        exit_code=0,
        milliseconds=1200,
        said=(ConversationMessage(role="assistant", text=words),) if number % 3 == 0 else (),
    )
    return begun, over


def _size(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def test_ten_thousand_checkpoints_take_at_most_triple_their_size(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    url = f"sqlite:///{folder}/taskmem.db"
    store = SqlStore(url)
    store.commit(Change(tasks=(a_task(),), runs=(a_run(run_id=RUN),)))
    store.close()
    before = _size(folder)

    entries = [entry for number in range(CALLS) for entry in _entries(number)]
    payload = sum(len(entry.model_dump_json().encode()) for entry in entries)
    made = [
        checkpoints.build_checkpoint(RUN, number, entry, DAWN + timedelta(seconds=number))
        for number, entry in enumerate(entries, start=1)
    ]
    store = SqlStore(url)
    for first in range(0, len(made), 500):
        store.commit(Change(checkpoints=tuple(made[first : first + 500])))
    kept = store.read_records(Checkpoint, RUN, len(made))
    store.close()

    assert kept == made
    assert len(made) == 2 * CALLS == 10_000
    assert {path.name for path in folder.iterdir()} == {"taskmem.db", ".taskmem.db.last"}
    assert _size(folder) - before <= 3 * payload
