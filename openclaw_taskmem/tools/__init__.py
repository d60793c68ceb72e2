"""The tools that an agent may call: names, forms, descriptions and answers; no transport."""
