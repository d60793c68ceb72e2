"""Verifiers of evidence: files, and responses of URLs. The hooks are in `hooks`."""
