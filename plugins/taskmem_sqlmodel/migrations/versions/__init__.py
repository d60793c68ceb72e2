"""One file for each schema that was ever released."""
