"""Pure decisions: facts and an instant in, a value out."""
