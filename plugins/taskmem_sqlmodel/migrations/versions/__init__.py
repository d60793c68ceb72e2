"""One migration for each released schema."""
