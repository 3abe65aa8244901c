"""The ledger's tables and the steps from one version of them to the next (SQLite's `user_version`).

`ledger.ledger` calls `migrate` when it opens the file. A step is never changed once released; a new version adds one to
`STEPS`.
"""

import sqlite3

STEPS = (
    """
    CREATE TABLE evictions (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      run TEXT NOT NULL, at_seconds REAL NOT NULL, mode TEXT NOT NULL, policy_hash TEXT NOT NULL,
      namespace TEXT NOT NULL, pod TEXT NOT NULL, pod_uid TEXT NOT NULL, owner_uid TEXT NOT NULL,
      workload TEXT NOT NULL, workload_uid TEXT NOT NULL, node TEXT NOT NULL,
      metric TEXT NOT NULL, value_ratio REAL NOT NULL, threshold_ratio REAL NOT NULL, target_ratio REAL NOT NULL,
      before_ratio REAL NOT NULL, projected_ratio REAL NOT NULL,
      cpu_millicores REAL NOT NULL, memory_bytes REAL NOT NULL, destination TEXT NOT NULL,
      result TEXT NOT NULL, intended_at_seconds REAL NOT NULL,
      http_status INTEGER, message TEXT NOT NULL DEFAULT '', decided_at_seconds REAL,
      gone_at_seconds REAL, landed_pod TEXT, landed_node TEXT, landed_at_seconds REAL, ready_at_seconds REAL,
      load_5m_ratio REAL, load_30m_ratio REAL, returned INTEGER
    );
    CREATE INDEX evictions_by_time ON evictions (at_seconds);
    CREATE INDEX evictions_by_result ON evictions (result);
    CREATE TABLE runs (
      run TEXT PRIMARY KEY, at_seconds REAL NOT NULL, mode TEXT NOT NULL, policy_hash TEXT NOT NULL,
      evictions INTEGER NOT NULL, summary TEXT NOT NULL, nodes TEXT NOT NULL
    );
    CREATE INDEX runs_by_time ON runs (at_seconds);
    CREATE TABLE breaker_resets (workload_uid TEXT NOT NULL, at_seconds REAL NOT NULL);
    """,
    """
    CREATE TABLE events (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at_seconds REAL NOT NULL, reason TEXT NOT NULL, warning INTEGER NOT NULL,
      kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, related TEXT NOT NULL, note TEXT NOT NULL
    );
    CREATE INDEX events_by_time ON events (at_seconds);
    CREATE TABLE set_asides (at_seconds REAL NOT NULL, moved_to TEXT NOT NULL, cause TEXT NOT NULL);
    """,
    "ALTER TABLE evictions ADD COLUMN flow TEXT NOT NULL DEFAULT '';",
    "ALTER TABLE evictions ADD COLUMN newest_sibling_at_seconds REAL;",
    """
    ALTER TABLE evictions ADD COLUMN expected_5m_ratio REAL;
    ALTER TABLE evictions ADD COLUMN expected_30m_ratio REAL;
    ALTER TABLE evictions ADD COLUMN moved_5m_ratio REAL;
    ALTER TABLE evictions ADD COLUMN moved_30m_ratio REAL;
    ALTER TABLE evictions ADD COLUMN load_10m_ratio REAL;
    ALTER TABLE evictions ADD COLUMN load_15m_ratio REAL;
    ALTER TABLE evictions ADD COLUMN load_20m_ratio REAL;
    ALTER TABLE evictions ADD COLUMN load_25m_ratio REAL;
    ALTER TABLE evictions ADD COLUMN destination_ratio REAL;
    ALTER TABLE evictions ADD COLUMN destination_30m_ratio REAL;
    """,
    "ALTER TABLE evictions ADD COLUMN disruption TEXT;",
)
# No step: a version that does not know the table opens the file as before.
BESIDE = (
    """
    CREATE TABLE IF NOT EXISTS decisions (
      verb TEXT NOT NULL, at_seconds REAL NOT NULL, namespace TEXT NOT NULL, pod TEXT NOT NULL, uid TEXT NOT NULL,
      replica TEXT NOT NULL, document TEXT NOT NULL, size INTEGER AS (length(document)),
      PRIMARY KEY (namespace, pod, uid, verb)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS surges (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      run TEXT NOT NULL, at_seconds REAL NOT NULL, mode TEXT NOT NULL, policy_hash TEXT NOT NULL,
      namespace TEXT NOT NULL, workload TEXT NOT NULL, workload_uid TEXT NOT NULL, owner_uid TEXT NOT NULL,
      pod TEXT NOT NULL, pod_uid TEXT NOT NULL, node TEXT NOT NULL,
      replicas INTEGER NOT NULL, newest_sibling_at_seconds REAL NOT NULL,
      state TEXT NOT NULL, changed_at_seconds REAL NOT NULL, message TEXT NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS decisions_by_time ON decisions (at_seconds, size)",
)
# Beside evictions: what retention may delete as it is.
BY_TIME = ("runs", "events", "breaker_resets", "set_asides", "decisions")


def migrate(connection: sqlite3.Connection) -> None:
    """Brings the file to this version: WAL, every write synced to disk, all missing steps in one transaction.

    The version is read again inside the transaction: another process may have brought the file there meanwhile.
    ValueError if a newer version of Evenload wrote it; sqlite3.Error if it is no database.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    if _missing(connection):
        connection.execute("BEGIN IMMEDIATE")  # waits as long as the connection's timeout says
        try:
            for statement in ";".join(_missing(connection)).split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(STEPS)}")
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:  # SQLite itself may have rolled back, on a full disk
                connection.execute("ROLLBACK")
            raise
    for statement in BESIDE:
        connection.execute(statement)


def _missing(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The steps that the file lacks."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(STEPS):
        raise ValueError(f"it has schema version {version}, this version of Evenload knows up to {len(STEPS)}")
    return STEPS[version:]
