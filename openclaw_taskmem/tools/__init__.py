"""What an agent may call: names, forms and descriptions; no transport."""
