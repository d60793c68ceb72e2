"""Threads as agents write them, and questions with what an answer has to hold.

Each question names a text that must stand in the messages of the first answer, or,
after `=`, in its summary.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Thread(NamedTuple):
    """One task: its plan, what was narrated, and questions on it."""

    plan: tuple[str, ...]
    said: tuple[str, ...]
    asked: tuple[tuple[str, str], ...]


CHATTER: Final = (
    "Reading the next file to see what its callers expect.",
    "Looking at the output again.",
    "Going through the configuration line by line.",
    "Comparing this with the documentation.",
    "Thinking about the order of the remaining work.",
    "Checking that nothing else changed meanwhile.",
    "Opening the dashboard.",
    "Re-reading the user's request.",
    "Listing the folder to see what is there.",
    "Nothing new yet, looking again in a moment.",
    "Taking a note of the time.",
    "Trying the same command with more output.",
)
"""What stands between the messages that matter, and outnumbers them."""

DEPLOY: Final = Thread(
    plan=(
        "1. Build Docker image",
        "2. Push to ghcr.io",
        "3. SSH into server",
        "4. Pull image and run container",
        "5. Verify site is live at coursefolio.com",
    ),
    said=(
        "Step 1 done — built image, tagged v1.2.3",
        "push denied: token has no write:packages scope",
        "got a new token from the user, logged in to ghcr.io again",
        "Step 2 done — pushed ghcr.io/alex/coursefolio:v1.2.3",
        "Step 3 failed: ssh to web-2.internal timed out on port 22",
        "Firewall of the office blocks 22; using port 2222 as the user advised",
        "Logged into web-2.internal as deploy",
        "Disk usage there is 71 %, enough for the image",
    ),
    asked=(
        ("what have I done so far?", "=Completed steps 1-2"),
        ("where am I on this task?", "=Currently on step 3"),
        ("what is left?", "=Remaining: steps 4-5"),
        ("what tag did I push?", "v1.2.3"),
        ("did step 2 work?", '=Step 2, "Push to ghcr.io", is done.'),
        ("why did step 3 fail?", "timed out on port 22"),
        ("what went wrong earlier?", "push denied"),
        ("which server did I log into?", "web-2.internal as deploy"),
        ("am I waiting for anything?", "=Nothing is waited for."),
        ("any blockers?", "=No blockers noted."),
        ("is it done?", "=Completed steps 1-2"),
        ("what's next?", "=Currently on step 3"),
        ("what was my last update?", "Disk usage there is 71 %"),
        ("how many steps are left?", "=Remaining: steps 4-5"),
        ("show me the plan", "=Currently on step 3"),
        ("which port do I use for ssh", "2222"),
        ("how full is the disk", "71 %"),
        ("what was wrong with the token?", "write:packages"),
        ("what did the firewall break?", "blocks 22"),
        ("can I go on with pulling the image?", '=Step 4, "Pull image and run container"'),
    ),
)

MIGRATION: Final = Thread(
    plan=(
        "Dump the production database",
        "Restore it on the new host",
        "Run the schema migrations",
        "Switch the application over",
        "Delete the old instance",
    ),
    said=(
        "Dump is 48 GB, written to /backups/prod-2026-02-13.dump in 31 minutes",
        "Dump the production database: done",
        "New host is db7.eu-west-1, PostgreSQL 16.2, user app_rw",
        "pg_restore failed: extension pgcrypto is not installed",
        "Installed pgcrypto with the superuser account, restore runs with -j 8",
        "Restored in 52 minutes, row counts of orders match: 18,204,113",
        "Step 2 complete",
        "Migration 0147 takes a lock on invoices; users asked for a window on Sunday",
        "Maintenance window agreed with Maria: Sunday 02:00 to 04:00 UTC",
        "Step 3 is done, 14 migrations ran, checksum 9f3c2a",
        "Connection string is kept in vault under secret/apps/shop/db",
        "Rollback: point DNS db.shop.internal back to db3 and restart the workers",
        "Replica lag was 4 s after the switch test",
    ),
    asked=(
        ("where is the dump?", "/backups/prod-2026-02-13.dump"),
        ("how large was the dump?", "48 GB"),
        ("what is the new host called?", "db7.eu-west-1"),
        ("which postgres version", "16.2"),
        ("why did the restore fail?", "pgcrypto is not installed"),
        ("how did I fix pgcrypto?", "Installed pgcrypto with the superuser"),
        ("did the row counts match?", "18,204,113"),
        ("when is the maintenance window?", "Sunday 02:00"),
        ("who agreed to the window?", "Maria"),
        ("how do I roll back?", "db.shop.internal back to db3"),
        ("where is the connection string", "secret/apps/shop/db"),
        ("step 3?", "14 migrations ran"),
        ("what about deleting the old instance?", '=Step 5, "Delete the old instance"'),
        ("replica lag?", "4 s"),
        ("which migration locks invoices?", "0147"),
        ("how big is the backup?", "48 GB"),
        ("what is the fallback if the switch goes wrong?", "back to db3"),
    ),
)

TRAINING: Final = Thread(
    plan=(
        "Prepare the data set",
        "Train the baseline",
        "Sweep learning rates",
        "Evaluate on the held-out set",
        "Write the report",
    ),
    said=(
        "Data set has 1,204,551 rows after dropping duplicates; split seed is 42",
        "Step 1 done, files are in /data/clean/v3",
        "Baseline run id is wandb:ab12cd, loss 0.412 after 3 epochs",
        "Step 2 finished: accuracy 0.871 on validation",
        "CUDA out of memory at batch size 256, crashed after 90 s",
        "Batch size 128 with gradient accumulation 2 fits, 21 GB used",
        "lr 3e-4 diverges, loss becomes NaN at step 800",
        "lr 1e-4 is best so far: 0.889",
        "Sweep learning rates: done, best is 1e-4 with warmup 500",
        "GPU node is gpu-04, tmux session named sweep",
        "User wants the confusion matrix in the report as well",
        "Held-out accuracy 0.883, F1 0.861",
    ),
    asked=(
        ("which seed did I split with?", "42"),
        ("where is the clean data?", "/data/clean/v3"),
        ("baseline accuracy?", "0.871"),
        ("what is the run id of the baseline", "wandb:ab12cd"),
        ("why did training crash?", "CUDA out of memory"),
        ("which batch size fits?", "Batch size 128"),
        ("best learning rate", "1e-4"),
        ("which learning rate diverged?", "lr 3e-4 diverges"),
        ("which gpu node am I on?", "gpu-04"),
        ("what does the user want in the report?", "confusion matrix"),
        ("held-out results", "0.883"),
        ("how many rows does the data set have", "1,204,551"),
        ("what is the status of step 4?", '=Step 4, "Evaluate on the held-out set"'),
        ("how much memory does the GPU need?", "21 GB"),
        ("what went wrong with lr 3e-4?", "NaN at step 800"),
    ),
)

REFACTOR: Final = Thread(
    plan=(
        "Find every caller of legacy_auth",
        "Replace it by session tokens",
        "Update the tests",
        "Remove the module",
    ),
    said=(
        "legacy_auth is called from 17 places, most in api/handlers.py",
        "Find every caller of legacy_auth ✅",
        "Branch is feature/session-tokens, based on main at 4e1d9b2",
        "Decided to keep the cookie name sid so that clients stay logged in",
        "Replaced 12 of 17; billing/webhooks.py uses it by getattr",
        "test_login_expired fails: expects 401, gets 403",
        "401 is right by the API docs, changed the handler, not the test",
        "Step 2 done, commit c0ffee1",
        "mypy reports 3 errors in api/middleware.py, all about Optional[Token]",
        "Fixed the mypy errors by narrowing in get_token",
        "CI job 88231 passed on Linux, failed on Windows because of path separators",
        "Used pathlib in conftest.py, the Windows job is green",
        "Reviewer Jonas asks for a deprecation note in CHANGELOG.md",
    ),
    asked=(
        ("how many callers of legacy_auth are there?", "17 places"),
        ("what branch am I on?", "feature/session-tokens"),
        ("which cookie name did I decide on?", "sid"),
        ("which file uses getattr?", "billing/webhooks.py"),
        ("which test failed?", "test_login_expired"),
        ("401 or 403?", "401 is right"),
        ("commit of step 2", "c0ffee1"),
        ("what did mypy report?", "api/middleware.py"),
        ("why did CI fail on windows?", "path separators"),
        ("what did the reviewer ask for?", "deprecation note"),
        ("who reviews this?", "Jonas"),
        ("which commit is the base?", "4e1d9b2"),
        ("are the type checks clean?", "Fixed the mypy errors"),
    ),
)

RESEARCH: Final = Thread(
    plan=(
        "Collect quotes from three vendors",
        "Compare prices and delivery times",
        "Draft the recommendation",
        "Send it to the user",
    ),
    said=(
        "Vendor Acme quotes 12,400 EUR, delivery in 6 weeks, ask sales@acme.example",
        "Vendor Borealis quotes 11,950 EUR plus shipping 480 EUR, 3 weeks",
        "Vendor Cirrus did not answer, wrote a second mail on Tuesday",
        "Cirrus quotes 13,100 EUR with five years of warranty",
        "Step 1 done, all three quotes are in quotes.xlsx",
        "Acme's web shop shows an error on checkout, order would go by mail",
        "User prefers delivery within 4 weeks and warranty over price",
        "Steps 1 and 2 done",
        "Draft is at docs/recommendation.md, 640 words",
        "Budget limit is 13,500 EUR including shipping",
        "Cannot send: the mail account asks for a second factor",
    ),
    asked=(
        ("what did Borealis quote?", "11,950 EUR"),
        ("what does Cirrus cost", "13,100 EUR"),
        ("who is the contact at Acme?", "sales@acme.example"),
        ("what does the user prefer?", "within 4 weeks"),
        ("where is the draft?", "docs/recommendation.md"),
        ("what is the budget?", "13,500 EUR"),
        ("why can't I send it?", "second factor"),
        ("what blocks me?", '=Possible blocker: "Cannot send'),
        ("warranty?", "five years of warranty"),
        ("in which file are the quotes?", "quotes.xlsx"),
        ("how long does Acme take to deliver?", "6 weeks"),
        ("which vendor has not replied?", "Cirrus did not answer"),
    ),
)

INCIDENT: Final = Thread(
    plan=("Find why checkout is slow", "Mitigate", "Fix the cause", "Write the post-mortem"),
    said=(
        "p99 of checkout went from 300 ms to 4.2 s at 14:05 UTC",
        "Deploy 2231 went out at 14:03, by the payments team",
        "Flame graph shows 80 % in tax_rates lookup",
        "Cache hit rate fell to 3 % since the key now holds a timestamp",
        "First step done: the cache key is the cause",
        "Rolled back to deploy 2230, p99 is 310 ms again at 14:41",
        "Mitigate: done",
        "Incident channel is #inc-4471, incident lead is Priya",
        "Pull request 918 removes the timestamp from the key",
        "Review of 918 found a race between eviction and refresh",
        "Added a lock around refresh, load test at 500 rps is fine",
        "Step 3 done — 918 merged as 77ab0e",
        "Customers affected: 1,312 orders delayed, none lost",
    ),
    asked=(
        ("when did it start?", "14:05 UTC"),
        ("which deploy caused it?", "Deploy 2231"),
        ("what was the root cause of the slow checkout?", "cache key is the cause"),
        ("cache hit rate", "3 %"),
        ("what did we roll back to?", "deploy 2230"),
        ("which channel is the incident in?", "#inc-4471"),
        ("who leads the incident?", "Priya"),
        ("which pull request has the fix?", "Pull request 918"),
        ("what did review find?", "race between eviction and refresh"),
        ("how many customers were affected?", "1,312 orders"),
        ("is the mitigation done?", "=Completed steps 1-3"),
        ("merge commit of step 3", "77ab0e"),
        ("how did the load test go?", "500 rps"),
        ("how slow was checkout at its worst?", "4.2 s"),
    ),
)

SITE: Final = Thread(
    plan=("Gather the texts", "Build the pages", "Translate to German", "Publish"),
    said=(
        "The texts come from the shared folder, 9 pages, owner is Lena",
        "✅ Gather the texts",
        "Chose Hugo 0.128 with the theme congo",
        "Home page and pricing are built, preview at http://localhost:1313",
        "Contact form posts to formspree id xyzz42",
        "Step 2 done",
        "Glossary: 'checkout' stays 'Checkout', 'invoice' becomes 'Rechnung'",
        "7 of 9 pages translated, legal notice is missing",
        "Legal notice must come from the lawyer, asked Lena on Monday",
        "Domain is registered at Gandi, DNS zone has a TTL of 300",
    ),
    asked=(
        ("who owns the texts?", "Lena"),
        ("which hugo version?", "0.128"),
        ("what theme did I choose", "congo"),
        ("preview address?", "localhost:1313"),
        ("id of the contact form", "xyzz42"),
        ("how do I translate invoice?", "Rechnung"),
        ("what is missing?", "legal notice is missing"),
        ("where is the domain registered?", "Gandi"),
        ("ttl of the dns zone", "300"),
        ("how far is the translation?", "7 of 9 pages"),
        ("from whom do I get the legal notice?", "lawyer"),
    ),
)

THREADS: Final = {
    "deploy": DEPLOY,
    "migration": MIGRATION,
    "training": TRAINING,
    "refactor": REFACTOR,
    "research": RESEARCH,
    "incident": INCIDENT,
    "site": SITE,
}
