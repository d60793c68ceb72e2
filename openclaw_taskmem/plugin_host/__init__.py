"""Load, call and isolate plug-ins; nothing else knows pluggy."""
