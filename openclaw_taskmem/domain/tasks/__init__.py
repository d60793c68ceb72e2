"""A task by itself: plan, thread, ledger, and proof."""
