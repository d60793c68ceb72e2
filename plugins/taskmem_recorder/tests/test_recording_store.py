"""What was on the screen is stored whole, found again, and forgotten without a trace."""

from __future__ import annotations

import sqlite3
import stat
from datetime import UTC, datetime, timedelta, timezone

import pytest

from taskmem_hookspecs import StoreBusy, StoreFull, StoreUnavailable
from taskmem_recorder.store import MOST_RANKED, Moment, RecordingSize, RecordingStore

NOON = datetime(2026, 2, 10, 12, tzinfo=UTC)
PNG = b"\x89PNG picture of "
DAY = "2026-02-10"


def build_moment(text="", minutes=0.0, title="Notes", **more):
    at = NOON + timedelta(minutes=minutes)
    return Moment(at=at, window_title=title, application="editor", text=text, **more)


@pytest.fixture
def store(tmp_path):
    opened = RecordingStore(tmp_path / "recordings")
    yield opened
    opened.close()


def search(store, *words, limit=10):
    _, counts = store.count_moments(words)
    return store.search(counts, limit)


def find_texts(store, *words):
    texts = {moment.id: moment.text for moment in store.list_moments()}
    return [texts[match.moment.id] for match in search(store, *words)]


def read_files(store):
    """Return every byte of every file, names included, after the database is closed or not."""
    return b"".join(
        str(path).encode() + path.read_bytes() for path in store.folder.rglob("*") if path.is_file()
    )


def test_a_moment_is_kept_as_it_was(store):
    given = build_moment(
        "all", page="GitHub", new_text="new", display=":1", title="GitHub \ud800 Firefox"
    )
    number = store.add_moment(given, PNG)
    (kept,) = store.list_moments()
    assert kept == Moment(
        at=NOON,
        window_title="GitHub ? Firefox",
        application="editor",
        page="GitHub",
        text="all",
        new_text="new",
        display=":1",
        picture=f"{DAY}/120000-000-{number}.png",
        id=number,
        segment=number,
    )
    assert (store.folder / kept.picture).read_bytes() == PNG


def test_folders_and_files_are_their_owners_alone(store):
    store.folder.mkdir(mode=0o755)
    store.add_moment(build_moment("x"), PNG)
    paths = [store.folder, *store.folder.rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert {f"{mode:o}" for path, mode in modes.items() if path.is_dir()} == {"700"}
    assert {f"{mode:o}" for path, mode in modes.items() if path.is_file()} == {"600"}
    assert any(path.name.endswith("-wal") for path in paths)


def test_nothing_is_created_before_the_first_moment(store):
    assert search(store, "x") == ()
    assert store.list_moments() == ()
    assert store.measure() == RecordingSize()
    assert store.forget(None, None).moments == 0
    assert store.prune(timedelta(days=1), 1, NOON) == 0
    assert not store.folder.exists()


def test_the_best_match_comes_first(store):
    for text in ("an apple", "apples and pears", "other pears", "nothing"):
        store.add_moment(build_moment(text), None)
    assert find_texts(store, "apple", "pear")[0] == "apples and pears"
    assert sorted(find_texts(store, "apple", "pear"))[1:] == ["apples and pears", "other pears"]
    assert all(match.score > 0 for match in search(store, "apple"))


def test_a_title_counts_more_than_a_text(store):
    store.add_moment(build_moment("invoice"), None)
    store.add_moment(build_moment("nothing", title="invoice"), None)
    assert find_texts(store, "invoice") == ["nothing", "invoice"]


@pytest.mark.parametrize("word", ['"', "a*", "NEAR(", "text:", "-", "", "x" * 70_000, "设置"])
def test_any_word_can_be_searched_for(store, word):
    store.add_moment(build_moment("something"), None)
    assert search(store, word) in ((), [])


def test_case_accents_and_endings_do_not_matter(store):
    store.add_moment(build_moment("Schlüssel hinzufügen, ADDED KEYS"), None)
    assert find_texts(store, "schlussel")
    assert find_texts(store, "adding", "key")


def test_of_words_on_every_screen_the_newest_are_ranked(store):
    for minute in range(3):
        store.add_moment(build_moment("file", minute), None)
    filler = "INSERT INTO moments VALUES (?, 0, 0, 0, '', '', '', NULL, 'file', '', NULL, 0, 0)"
    with sqlite3.connect(store.folder / "recordings.db") as other:
        other.executemany(filler, [(number,) for number in range(10, 11 + MOST_RANKED)])
    other.close()
    store.add_moment(build_moment("file rare"), None)
    found = search(store, "file", limit=MOST_RANKED * 2)
    assert len(found) == MOST_RANKED + 1
    assert min(match.moment.id for match in found) > 3
    assert find_texts(store, "file", "rare") == ["file rare"]


def test_moments_are_listed_in_order_of_recording(store):
    for text, minute in (("a", 0), ("b", 60), ("set back", 1), ("c", 2)):
        store.add_moment(build_moment(text, minute), None)
    assert [each.text for each in store.list_moments()] == ["a", "b", "set back", "c"]
    assert [each.text for each in store.list_moments(segment=2)] == ["b"]
    assert [each.text for each in store.list_moments(segment=3)] == ["set back", "c"]


@pytest.mark.parametrize(
    ("seconds", "segments"),
    [
        ([0, 30, 150], [(1, 0), (1, 30_000), (1, 150_000)]),
        ([0, 121], [(1, 0), (2, 0)]),
        ([0, 60, 30, 40], [(1, 0), (1, 60_000), (1, 60_000), (1, 70_000)]),
        ([0, -3600, -3590], [(1, 0), (2, 0), (2, 10_000)]),
    ],
    ids=["near", "a gap", "the clock set back a little", "and by an hour"],
)
def test_a_segment_is_what_follows_without_a_gap(store, seconds, segments):
    for each in seconds:
        store.add_moment(build_moment(minutes=each / 60), None)
    found = [(moment.segment, moment.place_ms) for moment in store.list_moments()]
    assert found == segments


def test_each_application_and_display_has_its_own_segments(store):
    for application, display in (("a", ":0"), ("b", ":0"), ("a", ":0"), ("a", ":1")):
        moment = Moment(at=NOON, window_title="", application=application, display=display)
        store.add_moment(moment, None)
    assert [moment.segment for moment in store.list_moments()] == [1, 2, 1, 4]


def test_a_segment_is_half_an_hour_at_most(store):
    for minute in range(32):
        store.add_moment(build_moment(minutes=minute), None)
    assert [moment.segment for moment in store.list_moments()] == [1] * 31 + [32]


def test_forget_leaves_nothing_in_any_byte_of_any_file(store):
    for minute in range(400):
        word = "forgotten" if minute % 3 else "kept"
        secret = f"{word}{minute:04} " * 40
        store.add_moment(
            build_moment(secret, minute if word == "kept" else 1000, page=secret, new_text=secret),
            PNG + secret.encode(),
        )
    assert b"forgotten0001" in read_files(store)
    done = store.forget(NOON + timedelta(minutes=1000), None)
    assert (done.moments, done.pictures) == (266, 266)
    for when in ("open", "closed"):
        assert b"forgotten" not in read_files(store), when
        assert b"kept0003" in read_files(store), when
        store.close()
    assert find_texts(store, "forgotten0001") == []
    assert find_texts(store, "kept0003")


def test_forget_takes_the_time_from_since_to_before_until(store):
    for minute in range(4):
        store.add_moment(build_moment(str(minute), minute), PNG)
    store.forget(NOON + timedelta(minutes=1), NOON + timedelta(minutes=3))
    assert [each.text for each in store.list_moments()] == ["0", "3"]
    assert len(list(store.folder.glob("*/*.png"))) == 2
    store.forget(None, None)
    assert store.list_moments() == []
    assert not (store.folder / DAY).exists()


def test_forget_finds_a_picture_that_was_cut_short(store):
    store.add_moment(build_moment("kept"), PNG)
    for name in ("115900-000-9.png", "120100-000-9.png", "130000-000-9.png"):
        (store.folder / DAY / name).write_bytes(PNG)
    store.forget(NOON + timedelta(minutes=1), NOON + timedelta(minutes=2))
    left = sorted(path.name for path in store.folder.glob("*/*.png"))
    assert left == ["115900-000-9.png", "120000-000-1.png", "130000-000-9.png"]
    here = timezone(timedelta(hours=-14))
    store.forget((NOON + timedelta(minutes=30)).astimezone(here), None)
    left = sorted(path.name for path in store.folder.glob("*/*.png"))
    assert left == ["115900-000-9.png", "120000-000-1.png"]


@pytest.mark.parametrize("drop", ["forget", "prune"])
def test_pictures_of_a_database_set_aside_go_too(store, drop):
    store.add_moment(build_moment("x"), PNG)
    store.close()
    (store.folder / "recordings.db").write_bytes(b"\xff" * 9000)
    assert store.list_moments() == (), "it is set aside, and no other is begun"
    if drop == "forget":
        assert store.forget(None, None).pictures == 1
    else:
        store.prune(timedelta(days=1), 1 << 30, NOON + timedelta(days=2))
    assert not (store.folder / DAY).exists()


def test_pictures_go_first_to_make_room_for_the_rest(store):
    store.add_moment(build_moment("x"), PNG)
    with sqlite3.connect(store.folder / "recordings.db") as other:
        other.execute(
            "CREATE TRIGGER full BEFORE DELETE ON moments BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    other.close()
    with pytest.raises(StoreUnavailable):
        store.forget(None, None)
    assert list(store.folder.glob("*/*.png")) == []


def test_forget_says_when_a_reader_holds_the_log(store, monkeypatch):
    monkeypatch.setattr("taskmem_recorder.database._BUSY_SECONDS", 0.01)
    store.add_moment(build_moment("x"), None)
    other = sqlite3.connect(store.folder / "recordings.db")
    other.execute("BEGIN")
    other.execute("SELECT * FROM moments").fetchall()
    with pytest.raises(StoreBusy, match="run the same command again"):
        store.forget(None, None)
    other.close()
    store.forget(None, None)


def test_prune_drops_what_is_too_old(store):
    for minute in range(3):
        store.add_moment(build_moment(str(minute), minute), PNG)
    now = NOON + timedelta(days=1, minutes=1)
    assert store.prune(timedelta(days=1), 1 << 30, now) == 1
    assert [each.text for each in store.list_moments()] == ["1", "2"]
    assert len(list(store.folder.glob("*/*.png"))) == 2


def test_prune_drops_the_oldest_above_the_size(store):
    for minute in range(10):
        store.add_moment(build_moment(str(minute), minute), PNG * 1000)
    assert store.prune(timedelta(days=1), 50_000, NOON) == 7
    assert [each.text for each in store.list_moments()] == ["7", "8", "9"]


def test_the_limit_of_size_is_of_what_the_disk_has(store):
    words = " ".join(f"word{number}" for number in range(300))
    for minute in range(300):
        store.add_moment(build_moment(f"{words} {minute}", minute, new_text="n" * 500), PNG * 100)
    store.prune(timedelta(days=1), 700_000, NOON)
    store.forget(NOON + timedelta(days=1), None)
    assert 350_000 < store.measure().bytes <= 700_000


def test_the_size_counts_moments_files_and_days(store):
    for minute in (0, 5):
        store.add_moment(build_moment("x", minute), PNG * 1000)
    size = store.measure()
    assert size.moments == 2
    assert size.bytes == sum(
        path.stat().st_size for path in store.folder.rglob("*") if path.is_file()
    )
    assert (size.oldest, size.newest) == (NOON, NOON + timedelta(minutes=5))


@pytest.mark.parametrize("use", ["search", "add", "forget"])
def test_a_damaged_database_is_set_aside(store, use):
    store.add_moment(build_moment("before"), PNG)
    store.close()
    database = store.folder / "recordings.db"
    database.write_bytes(b"no database" + b"\xff" * 9000)
    if use == "search":
        assert search(store, "before") == ()
        assert store.list_moments() == ()
    elif use == "add":
        store.add_moment(build_moment("after"), None)
        assert [each.text for each in store.list_moments()] == ["after"]
    else:
        store.forget(None, NOON)
        assert store.measure().damaged == ()
        assert (store.folder / DAY / "120000-000-1.png").exists()
        return
    (damaged,) = store.measure().damaged
    assert damaged.startswith("recordings.damaged-20")
    assert (store.folder / damaged).read_bytes().startswith(b"no database")


def test_damage_in_the_middle_is_found_when_it_is_read(store):
    for minute in range(300):
        store.add_moment(build_moment("word " * 100, minute), None)
    store.forget(NOON + timedelta(days=1), None)
    store.close()
    database = store.folder / "recordings.db"
    whole = database.read_bytes()
    database.write_bytes(whole[:8192] + b"\x5a" * (len(whole) - 8192))
    assert search(store, "word") == ()
    assert len(store.measure().damaged) == 1


def test_a_damaged_database_goes_when_it_is_too_old(store):
    store.add_moment(build_moment("x"), None)
    store.close()
    (store.folder / "recordings.db").write_bytes(b"\xff" * 9000)
    store.add_moment(build_moment("y"), None)
    changed = datetime.fromtimestamp((store.folder / "recordings.db").stat().st_mtime, UTC)
    store.prune(timedelta(days=1), 1 << 30, changed - timedelta(days=1))
    assert len(store.measure().damaged) == 1
    store.prune(timedelta(days=1), 1 << 30, changed + timedelta(days=2))
    assert store.measure().damaged == ()


@pytest.mark.parametrize("room", [0, 20_000], ids=["the picture", "the database"])
def test_a_full_disk_loses_nothing_and_is_named(store, room, monkeypatch):
    store.add_moment(build_moment("before"), PNG)
    size = store.measure()
    if room:
        # SQLite refuses a file that grows above the limit, as a full disk does.
        monkeypatch.setattr("taskmem_recorder.store._write_private", lambda *_: None)
        with sqlite3.connect(store.folder / "recordings.db") as other:
            (pages,) = other.execute("PRAGMA page_count").fetchone()
        other.close()
        store._database._open().execute(f"PRAGMA max_page_count = {pages}")
    else:
        monkeypatch.setattr("taskmem_recorder.store.os.open", refuse_room)
    with pytest.raises(StoreFull, match="TASKMEM_RECORD_MB"):
        store.add_moment(build_moment("after " * 90_000), PNG)
    monkeypatch.undo()
    assert [each.text for each in store.list_moments()] == ["before"]
    assert len(list(store.folder.glob("*/*.png"))) == 1
    assert size.moments == 1


def test_a_picture_that_the_disk_cuts_short_is_removed(store, monkeypatch):
    def cut_short(path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[:3])
        refuse_room()

    monkeypatch.setattr("taskmem_recorder.store._write_private", cut_short)
    with pytest.raises(StoreFull):
        store.add_moment(build_moment("after"), PNG)
    assert list(store.folder.glob("*/*.png")) == []


def refuse_room(*_):
    raise OSError(28, "No space left on device")


def test_two_stores_of_one_folder_see_each_other(store):
    other = RecordingStore(store.folder)
    store.add_moment(build_moment("one"), None)
    other.add_moment(build_moment("two"), None)
    store.add_moment(build_moment("three"), None)
    assert [each.text for each in store.list_moments()] == ["one", "two", "three"]
    other.forget(None, None)
    assert store.list_moments() == []
    other.close()


def test_a_store_goes_on_in_the_file_that_another_began(store):
    store.add_moment(build_moment("one"), None)
    database = store.folder / "recordings.db"
    database.rename(database.with_name("recordings.damaged-1"))
    other = RecordingStore(store.folder)
    other.add_moment(build_moment("two"), None)
    store.add_moment(build_moment("three"), None)
    assert [each.text for each in other.list_moments()] == ["two", "three"]
    other.close()


def test_only_the_file_that_was_damaged_is_set_aside(store):
    store.add_moment(build_moment("one"), None)
    other = RecordingStore(store.folder)

    def find_damage(connection):
        database = store.folder / "recordings.db"
        database.rename(database.with_name("recordings.damaged-1"))
        other.add_moment(build_moment("two"), None)
        error = sqlite3.DatabaseError("malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    assert store._database.run_query(find_damage, ()) == ()
    assert [each.text for each in store.list_moments()] == ["two"]
    assert store.measure().damaged == ("recordings.damaged-1",)
    other.close()


def test_a_folder_that_was_removed_begins_anew(store, tmp_path):
    store.add_moment(build_moment("one"), None)
    store.folder.rename(tmp_path / "elsewhere")
    assert store.list_moments() == ()
    store.add_moment(build_moment("two"), None)
    assert [each.text for each in store.list_moments()] == ["two"]
