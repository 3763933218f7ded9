"""Pure builders of the children of a pool: dicts for server-side apply."""
