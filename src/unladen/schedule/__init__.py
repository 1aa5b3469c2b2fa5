"""Where it runs: fit (count bytes), place (weights to devices), split (segments), plan."""
