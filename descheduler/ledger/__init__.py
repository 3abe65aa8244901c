"""SQLite ledger of evictions, runs and Events: written before each action, read into the next plan."""
