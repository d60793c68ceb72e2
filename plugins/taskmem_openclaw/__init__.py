"""At home in OpenClaw. Its hooks are in `hooks`: commands must not load them."""
