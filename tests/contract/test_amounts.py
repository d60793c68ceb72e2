"""Which percentages of real tools' output are the whole's progress."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_hookspecs import amounts
from taskmem_hookspecs.amounts import (
    STAND_SECONDS,
    AmountWatch,
    find_percentage,
    read_amounts,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LINES = [
    ("1,500,000   2%  699.63MB/s  0:00:00 (xfr#1, to-chk=39/41)", 2),
    (" 0.77GiB 0:00:01 [ 150MiB/s] [==>      ]  5% ETA 0:00:09", 5),
    ("[0:05] 12.34%  100 files 1.2 GiB, total 300 files", 12.34),
    (" recovery = 12.6% (37043392/292945152) finish=127.5min", 12.6),
    ("100%|####| 10/10 [00:01<00:00, 9it/s]", 100),
    ("42/120", 35),
    ("[1/4] lint", 25),
    ("98,700/120,000", 82.25),
    ("8.2/16.4 MB", 50),
    ("512 KB/1 MB", 50),
    ("1.7 GB / 3.4 GB", 50),
    ("99,5 %", 99.5),
    ("12,5\u00a0%", 12.5),
    ("12,5\u202f%", 12.5),
    ("1.234,5 MB 80,1%", 80.1),
    ("已完成80%，剩余 3 秒", 80),
    ("cpu -5%", None),
    ("100%20", None),
    ("2024/01/02", None),
    ("10/12 14:03:22 INFO", None),
    ("10.0.0.0/24", None),
    ("HTTP/1.1 200", None),
    ("24/7", None),
    ("0/0", None),
    ("a/1/2", None),
    ("eth0/1", None),
    # The first amount is the whole's, what follows in brackets is a part's or a measure.
    ("7% [3 Packages 9,000 kB/9,500 kB 95%]", 7),
    ("12%|█▏  | 5/40 [00:01<00:08, 3.99it/s, gpu 97%]", 12),
    ("Receiving objects:  17% (170/1000), 1.20 MiB | 3.00 MiB/s", 17),
    ("[#2089b0 10MiB/20MiB(50%) CN:1 DL:1.0MiB ETA:10s]", 50),
    ("Transferred:   \t  1.2 GiB / 2.0 GiB, 60%, 10 MiB/s, ETA 1m", 60),
    ("tests/test_a.py::test_b PASSED                       [ 14%]", 14),
    # The third item of twelve is at 40 %; while none is done, the first.
    ("(3/12) installing app [####------] 40%", 20),
    ("Epoch 3/10: 50%|#####     | 5/10", 25),
    ("  Completed files 0/1 | 1131.6MiB/1230.0MiB | 45.6MiB/s", 92),
    ("/ [0/1 files][110.0 MiB/120.0 MiB]  92% Done", 91.67),
    ("Processing Files (0 / 1)      :  20%|██        |  197MB /  986MB", 20),
    ("- [0/4 files][110.0 MiB/120.0 MiB]  92% Done", 22.92),
    (" Total (1/3)  4.4 MiB 12.3 MiB/s 00:20 [----------]   2%", 2),
    ("[166/179] python3-boto3-0:1.42.82-1.fc43.noarch   13% [==     ] | 64.0 KiB", 92.25),
    # How full, fast or good something is.
    ("  adding: app.js (deflated 80%)", None),
    ("/dev/sda1 252G 240G 12G 96% /", None),
    ("tmpfs           3.9G  3.6G  300M  93% /dev/shm", None),
    ("Disk usage: 96%", None),
    ("10 packets transmitted, 0 received, 100% packet loss", None),
    ("Statements   : 85.71% ( 6/7 )", None),
    ("accuracy: 97.5%", None),
    ("The new bundle is 85% smaller", None),
    ("access.log:\t 91.2% -- replaced with access.log.gz", None),
    ("Restoring 10% /data/a.bin", 10),
    ("(L3) Buffered : 12.5 MiB - Consumed : 3.00 MiB - Compressed : 3.0 MiB => 100.00%", None),
    ("Read :    10   MiB /  100 MiB ==> 81.00%", 10),
    ("app.tar : 30.00%   (  10.0 MiB =>   3.0 MiB, app.tar.zst)", None),
    (" rename {old => new}/c.py (95%)", None),
    (" rewrite c.py (80%)", None),
    ("similarity index 95%", None),
    ("running (0m08.0s), 09/10 VUs, 72 complete and 0 interrupted iterations", None),
    # How much is left.
    ("3 out of about 100 chunks balanced (4 considered),  97% left", None),
    ("  98% context left · ? for shortcuts", None),
    ("elapsed 00:02  remaining: 98%", None),
    ("Remaining 98%", None),
    ("85% 3 min left", 85),
    ("85% remaining: 00:05", 85),
    ("00:05 remaining 85%", 85),
    ("Cacheable calls:    950 / 1000 (95.00%)", None),
    ("  Hits:             900 /  950 (94.74%)", None),
    ("Battery 0: Discharging, 97%, 03:12:10 remaining", None),
    ("|  31000MiB / 32768MiB |     97%      Default |", None),
    ("  80%      5", None),
    (" 100%     12 (longest request)", None),
    ("web-1   2/2     Running   0          5m", None),
    ("|■■■■■■■■         |  80% of 165 MiB", 80),
    # An epoch begins.
    ("Epoch 9/10", 80),
    # What comes before the work, and steps of it.
    ("remote: Counting objects: 100% (1000/1000), done.", None),
    ("remote: Compressing objects: 100% (8/8), done.", None),
    ("(Reading database ... 100%", None),
    ("Reading package lists... 95%", None),
    ("#8 12.34 [ 80%] Building CXX object a.o", None),
    (" => => transferring context: 1.02kB / 1.02kB", None),
    ("#4 [1/4] FROM docker.io/library/node:22", 25),
    # curl's meter has no sign; of an unknown size it says 100.
    (" 12 1431M   12  177M    0     0  2826k      0  0:08:38  0:01:04  0:07:34 2869k", 12),
    ("  0 16097M   0 96166k   0     0 17384k     0   0:15:48  0:00:05  0:15:43 20627k", 0),
    ("100 16353    0 16353    0     0   3715      0 --:--:--  0:00:04 --:--:--  3714", None),
    ("100  3906k  100  3906k    0     0   173k      0  0:00:22  0:00:22 --:--:--  173k", 100),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_a_line_has_one_amount_which_may_be_progress(line, expected):
    found = [each.percent for each in read_amounts(line)]
    assert found == ([] if expected is None else [pytest.approx(expected, abs=0.01)])


@pytest.mark.parametrize("line", ["." * 4096 + " 80%", "cpu 1% " * 16 + "80%"])
def test_the_first_4_kb_and_16_figures_of_a_line_are_read(line):
    assert [*read_amounts(line)] == []
    assert [each.percent for each in read_amounts(line[7:])] == [80]
    assert find_percentage("." * 4096 + " x 80%", 0, name="x") is None


@pytest.mark.parametrize(
    "table",
    [
        "NAME  CPU %  MEM USAGE\nweb 97.00% 1.2GiB up\ndb 3.00% 2.1GiB up\n",
        "Name      Stmts   Miss  Cover\n---\nsrc/a.py  20   2    90%\nTOTAL  20    2    90%\n",
        "  Thread Stats   Avg      Stdev   +/- Stdev\n    Latency   635.91us    0.89ms   93.69%\n",
        "NAME    READY   STATUS\nweb-1   1/1     new 0\n",
    ],
)
def test_a_table_with_a_column_of_percentages_is_no_progress(table):
    assert [each.percent for each in read_amounts(table)] == []
    assert [each.percent for each in read_amounts(f"{table}[ 10%] Building")] == [10]


@pytest.mark.parametrize(
    "line",
    [
        "INFO    main    build progress 85% done",
        "INFO    main    copy    85%",
        "x y z progress 85%",
    ],
)
def test_words_in_columns_are_no_head_of_a_log(line):
    for head in ("INFO    main    starting", "  All READY to go", "NAME  CPU %  MEM %\nIt works"):
        assert [each.percent for each in read_amounts(f"{head}\n{line}\n")] == [85]


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("objects", "Receiving objects:  80% (800/1000)", 80),
        ("objects", "remote: Counting objects: 100% (1000/1000), done.", None),
        ("counting objects", "remote: Counting objects: 100% (1000/1000), done.", 100),
        ("receiv", "Receiving objects:  80% (800/1000)", 80),
        ("gpu", "12%|█▏  | 5/40 [00:01<00:08, gpu 97%]", 97),
        ("packages", "7% [3 Packages 9,000 kB/9,500 kB 95%]", 94.7),
        ("packet loss", "2 received, 33% packet loss", 33),
        ("jects", "Receiving objects:  80%", None),
        ("objects", "Resolving deltas: 100%", None),
    ],
)
def test_a_named_percentage_stands_beside_its_name(name, line, expected):
    if expected is None:
        assert find_percentage(line, 0, name=name) is None
    else:
        assert find_percentage(line, expected - 0.1, expected + 0.1, name=name) == line


# --- over time ------------------------------------------------------------------


def play(bound, looks, *, ends=True):
    """Return when the whole reaches a percentage: the index of the look; -1: at the end."""
    watch = AmountWatch(bound)
    now = NOON
    for number, (seconds, text) in enumerate(looks):
        now += timedelta(seconds=seconds)
        if number and watch.find(now, is_over=False)[0]:
            return number - 1
        watch.observe(text, now)
        if watch.find(now, is_over=False)[0]:
            return number
    if watch.find(now, is_over=ends)[0]:
        return -1
    return None


def rise(form, values, seconds=0.5):
    return [(seconds, form.format(value)) for value in values]


RISING = range(0, 101, 10)
TOOLS = {
    "git clone": [
        (1, "Cloning into 'app'...\n"),
        *rise("remote: Counting objects: {:3}% (9/9)", RISING),
        *rise("remote: Compressing objects: {:3}% (9/9)", RISING),
        *rise("Receiving objects: {:3}% (9/99), 1.2 MiB | 3 MiB/s", RISING),
    ],
    "apt": [
        *rise("Reading package lists... {}%", RISING, 0.1),
        *rise("(Reading database ... {}%", RISING, 0.1),
        *rise("Progress: [{:3}%] [###....]", RISING),
    ],
    "nested loops": [
        (0, "Epochs:   0%|          | 0/10 [00:00<?, ?it/s]\n"),
        *[
            (0, look)
            for epoch in range(1, 11)
            for look in (
                *(f"Batch: {n:3}%|###| {n}/100 [00:01<00:00]" for n in RISING),
                f"Epochs: {epoch * 10:3}%|###| {epoch}/10 [00:10<00:90]\n",
            )
        ],
    ],
    "compose": [
        (0, "[+] Pulling 0/5\n"),
        *[
            (0.5, f"[+] Pulling {n // 2}/5\n 3f4a5b6c7d8e Downloading [==>] {n}MB/10MB\n")
            for n in range(1, 11)
        ],
    ],
    "docker pull": [
        (0, "1a2b3c4d5e6f: Pulling fs layer\n3f4a5b6c7d8e: Pulling fs layer\n"),
        (1, "1a2b3c4d5e6f: Downloading [=>] 1.0kB/1.0kB\n1a2b3c4d5e6f: Pull complete\n"),
        *rise("3f4a5b6c7d8e: Downloading [=>] {}MB/100MB\n", RISING),
        *rise("3f4a5b6c7d8e: Extracting [=>] {}MB/100MB\n", RISING),
    ],
    "docker push": [
        (0, "5f70bf18a086: Preparing\n1a2b3c4d5e6f: Pushing [==>] 1kB/1kB\n1a2b3c4d5e6f: Pushed\n"),
        *rise("5f70bf18a086: Pushing [=>] {}MB/100MB\n", RISING, 3),
    ],
    "rclone": [
        (1, f"Transferred: {n} MiB / 100 MiB, {n}%, 1 MiB/s\n * a.bin: {min(100, 4 * n)}%, 1/s\n")
        for n in RISING
    ],
    "docker build": [
        (1, "#1 transferring dockerfile: 1.02kB / 1.02kB done\n"),
        (3, "#4 [1/10] FROM docker.io/library/node:22\n#4 sha256:1a2b 29.1MB / 29.1MB done\n"),
        *rise("#9 [{}/10] RUN make\n#9 1.2 [100%] Built target\n", range(2, 11), 3),
    ],
    "a disk table first": [
        (1, "Filesystem Size Used Avail Use% Mounted on\n/dev/sda1 252G 240G 12G 96% /\n"),
        *rise("[{:3}%] Building CXX object a.o\n", RISING, 3),
    ],
}


def show_loop(percent, done, total):
    return f"\r{percent:3}%|{'█' * (percent // 10):10}| {done}/{total} [00:12<00:15, 3.61it/s]"


BUILDING = "[{:3}%] Building CXX object a.cc.o\n"
# What is in the last look reaches 80 %, and nothing before it does.
NESTED = {
    "an unnamed loop in an unnamed one": [
        look
        for done in range(100, 900, 100)
        for look in (
            *(
                (0.5, show_loop(part * 100 // 13, part, 13))
                for part in (0, 4, 8, 12, 13)
                if done > 100
            ),
            (0.5, show_loop(done // 10, done, 1000)),
        )
    ],
    "ninja in ninja": [
        (0.5, "[2/8] Performing configure step for 'llvm'\n"),
        *rise("[{}/20] Building CXX object a.o\n", range(1, 21), 3),
        *rise("[{}/8] Building CXX object b.o\n", range(3, 8)),
    ],
    "make in make": [
        (0.5, "[  8%] Performing build step for 'gtest'\n"),
        *rise(BUILDING, [25, 50, 87, 100], 3),
        (0.5, "[ 12%] Performing install step for 'gtest'\n"),
        *rise(BUILDING, [40, 60, 81]),
    ],
    "files beside bytes": [
        (
            0.5,
            (
                f"Transferred:   {size / 10:.3f} GiB / 10.240 GiB, {size}%, 10.500 MiB/s\n"
                f"Transferred:   {files} / 10, {files}0%\n"
            ),
        )
        for size, files in ((2, 1), (5, 2), (8, 5), (12, 9), (60, 9), (83, 9))
    ],
    "steps of an epoch": [
        look
        for epoch in range(1, 6)
        for look in (
            (0.5, f"Epoch {epoch}/5\n"),
            *rise("\r{:3}/120 ━━━━━━━━━━━━━━━━━━━━ 12s 160ms/step", [0, 60, 110, 120]),
        )
    ][:-4],
    "a check after each epoch": [
        look
        for epoch in range(1, 5)
        for look in (
            *((0.5, f"  {epoch}/4  6.74G  640: {show_loop(n, n, 100)[1:]}") for n in (0, 20, 100)),
            *((0.5, f"  Class  Images: {show_loop(n, n, 100)[1:]}") for n in (0, 50, 100)),
        )
    ][:-4],
    "a package beside the total": [
        (
            0.5,
            (
                f"readline-8.2-1  0.3 MiB [####--] {min(100, 10 * total)}%\n"
                f" Total (1/3)  4.4 MiB [####--] {total}%\n"
            ),
        )
        for total in (0, 2, 9, 20, 70, 85)
    ],
    "what is sent beside what is read": [
        (
            0.5,
            (
                f"Processing Files (0 / 1) : {size:3}%|██  | 10MB / 99MB\n"
                f"New Data Upload : {100 if size else 0:3}%|██  | 64.0MB / 64.0MB\n"
            ),
        )
        for size in (0, 20, 60, 84)
    ],
    "a total that is not known yet": [
        *[(0.2, f"[+] Building 0.1s ({steps})\n") for steps in ("0/1", "2/3", "3/3", "5/18")],
        *rise("[+] Building 9.2s ({}/18)\n", [6, 9, 12, 15], 1),
    ],
    "all bytes behind the files": [
        (0.5, f"- [{files}/5 files][{size * 1.2:5.1f} MiB/120.0 MiB]  {size}% Done\n")
        for size, files in ((5, 0), (30, 0), (50, 1), (70, 2), (82, 2))
    ],
}


@pytest.mark.parametrize("tool", NESTED)
def test_a_bar_within_or_beside_the_whole_is_a_part(tool):
    looks = NESTED[tool]
    assert play(80, looks, ends=False) == len(looks) - 1


def test_a_table_goes_on_in_the_next_look():
    head, row = "NAME    CPU %    MEM %\n", "web     {}%    12%   x\n"
    assert play(80, [(1, head), *rise(row, [15, 85]), (9, "")]) is None
    assert play(80, [(1, head[:13]), (1, head + row.format(15)), *rise(row, [85]), (9, "")]) is None
    assert play(80, [(1, head), (1, row.format(1)), (1, "\n"), *rise("[{}%] a\n", [1, 85])]) == 4
    assert play(80, [(1, "Name    State    Note\n"), *rise("all of it {}%\n", [1, 85])]) == 2
    assert play(80, [(1, "Name    State    Note\n"), *rise("a  b  it is at {}%\n", [1, 85])]) == 2


@pytest.mark.parametrize(
    "looks",
    [
        [(0, "Epoch 1/1\n"), *rise("{}/120 ━━━━\n", [10, 110])],
        [*rise("[0/{}] Re-running CMake\n", [1, 2]), *rise("[{}/9] Building a.o\n", [1, 8], 3)],
        [(1, "10% (5/40)\n"), (1, "50% (5/41)\n"), (1, "85% (5/50)\n")],
        [
            (1, "[1/7] a.o\n"),
            (1, "".join(f"{one}{two} 3%\n" for one in LETTERS for two in LETTERS)),
            *rise("[{}/9] a.o\n", [2, 8]),
        ],
    ],
)
def test_a_bar_that_no_other_one_holds_counts_at_once(looks):
    assert play(80, looks, ends=False) == len(looks) - 1


def test_a_loop_that_was_not_seen_to_begin_is_another_one():
    looks = [(1, show_loop(10, 1, 10)), (1, show_loop(29, 5, 17)), (3, show_loop(94, 16, 17))]
    assert play(80, looks, ends=False) is None


def test_what_only_falls_or_has_ended_never_counts():
    assert play(80, [*rise("to do: {}%\n", [97, 90, 85]), (60, "")]) is None
    assert play(80, [(0, "  ✓ discount of 90% applied (12ms)\n"), (60, "")]) is None
    assert play(80, rise("✓ {}%\n", [10, 90])) == 1


def test_a_part_follows_its_count_while_it_falls_back():
    looks = [(1, f"[{n}/100] a.spec.ts has {n}% title\n") for n in (10, 30, 60, 79)]
    assert play(80, [*looks, (60, "[79/100] a.spec.ts has 100% title\n")], ends=False) is None


@pytest.mark.parametrize("tool", TOOLS)
def test_the_whole_of_a_tool_counts_and_no_part_before_it(tool):
    looks = TOOLS[tool]
    at = play(80, looks)
    shown = looks[at][1]
    assert at >= len(looks) - 25, shown
    assert at == -1 or any(sign in shown for sign in ("80", "8/10", "4/5", "80MB")), shown


@pytest.mark.parametrize(
    "form",
    [
        "{}%",
        "\r[download]  {}.3% of ~  57.60MiB at    6.00MiB/s ETA 00:05",
        "pulling 8eeb52dfb3bb: {:3}% ▕███   ▏ 3.8 GB/4.7 GB",
        "    Building [=====>    ] {}/100: serde",
        " 50K .......... .......... .......... {:3}% 1.2M 3s",
    ],
)
def test_a_bar_that_rises_to_the_bound_counts_at_once(form):
    assert play(80, rise(form, RISING)) == 8


def test_an_amount_not_seen_to_rise_counts_when_it_stands():
    one = [(0, "88%\n")]
    assert play(80, one, ends=False) is None
    assert play(80, [*one, (STAND_SECONDS, "")]) == 0
    assert play(80, one) == -1
    assert play(80, [*one, (STAND_SECONDS - 0.1, "unpacking 3%\n"), (60, "")]) is None


def test_a_phase_that_ended_within_one_look_is_not_the_whole():
    assert play(80, [(0, "load 50%\nload: 10%\nfetch 5%\nfetch 100%\nbuild 3%\n"), (9, "")]) is None


@pytest.mark.parametrize(
    "label",
    [
        *("Uploading to storage:", "Copying to disk:", "Loading into memory:", "Restoring volume"),
        *("Processing functions:", "Uploading backup.tar to cold storage"),
    ],
)
def test_a_measured_thing_that_work_fills_is_progress(label):
    assert play(80, rise(label + " {}%\n", [10, 85, 100]), ends=False) == 1
    assert play(80, [(0, f"{label} 85%\n"), (60, "")]) is None


@pytest.mark.parametrize("label", ["Compression:", "disk", "Compression (saved"])
def test_a_measure_that_rose_to_100_and_is_last_is_progress(label):
    looks = rise(label + " {}%\n", [10, 85, 100])
    assert play(80, looks) == -1
    assert play(80, [*looks, (29, ""), (1, "")], ends=False) == 3
    assert play(80, [*looks, (29, f"{label} 100%\n"), (29, "")], ends=False) is None
    assert play(80, [*looks, (1, "load.bin 3%\n"), (60, "")]) is None


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("Remaining disk", [10, 85, 99]),
        ("Training accuracy:", [10, 85, 99]),
        ("Charging: battery", [10, 85, 99]),
        ("cpu", [10, 100]),
        ("cpu", [10, 20, 250]),
        ("memory", [10, 60, 30, 85, 100]),
        ("Watching memory", [60, 30, 85]),
        ("adding: app.js, saving disk (deflated", [10, 85]),
    ],
)
def test_a_measure_that_rises_otherwise_stays_one(label, values):
    assert play(80, [*rise(label + " {}%\n", values), (60, "")]) is None


def test_a_measure_hides_no_bar_beside_it():
    looks = [(1, f"disk {n}%\nload.bin {n}%\ncpu 3%\n") for n in RISING]
    assert play(80, looks) == 8
    assert play(80, [(0, "load.bin 88%\n"), (1, "cpu 3%\n"), (1, "")]) == 1
    meters = "".join(f"cpu {one}{two} used 3%\n" for one in LETTERS for two in LETTERS)
    assert play(80, [(0, "load.bin 88%\n"), (1, meters), (1, "")]) == 1
    assert play(80, [(0, "3%\n"), (1, "90% used\n"), (60, "")]) is None


def test_one_of_one_counts_only_when_it_was_none():
    assert play(80, [(0, "web-1 1/1 up\n"), (60, "")], ends=False) is None
    assert play(80, [(0, "web-1 0/1 up\n"), (60, "web-1 1/1 up\n")]) == 1


def test_the_newest_500_layers_count_compared_once_a_look(monkeypatch):
    compared = []
    monkeypatch.setattr(amounts, "min", lambda *all: compared.append(len(all)) or min(*all), False)
    rest = "".join(f"{n:012x}: Pull complete\n" for n in range(1, 500))
    looks = [(0, f"{0:012x}: Waiting\n"), (1, rest), (9, f"{500:012x}: Pull complete\n")]
    assert play(80, looks[:2]) is None
    assert play(80, looks) == 2
    assert compared.count(1) == 5


@given(st.lists(st.integers(0, 100), min_size=1, max_size=40), st.integers(1, 100))
def test_a_single_bar_wakes_with_its_bound_and_never_before(values, bound):
    looks = [*rise("load.bin {}%\n", values, STAND_SECONDS), (STAND_SECONDS, "")]
    at = play(bound, looks)
    reached = next((n for n, value in enumerate(values) if value >= bound), None)
    assert at == reached
