"""HTTP pages of the descheduler: the ledger, the current plan, Events."""
