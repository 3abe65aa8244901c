-- A ledger of 0.1.0 as text.
PRAGMA user_version = 6;
BEGIN TRANSACTION;
CREATE TABLE breaker_resets (workload_uid TEXT NOT NULL, at_seconds REAL NOT NULL);
INSERT INTO "breaker_resets" VALUES('uid-web',1795233605.0);
CREATE TABLE events (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      at_seconds REAL NOT NULL, reason TEXT NOT NULL, warning INTEGER NOT NULL,
      kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, related TEXT NOT NULL, note TEXT NOT NULL
    );
INSERT INTO "events" VALUES(1,1795233600.0,'NodeOverloaded',1,'Node','','hot','','memory_avg_5m 90% > 80%');
INSERT INTO "events" VALUES(2,1795233601.0,'Evicted',0,'Pod','default','web-0','hot','it''s relieved');
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
    , flow TEXT NOT NULL DEFAULT '', newest_sibling_at_seconds REAL, expected_5m_ratio REAL, expected_30m_ratio REAL, moved_5m_ratio REAL, moved_30m_ratio REAL, load_10m_ratio REAL, load_15m_ratio REAL, load_20m_ratio REAL, load_25m_ratio REAL, destination_ratio REAL, destination_30m_ratio REAL, disruption TEXT);
INSERT INTO "evictions" VALUES(1,'run-1795233600',1795233600.0,'Enforce','abc123','default','web-0','uid-web-0','uid-web','ReplicaSet/web','uid-web','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','evicted',1795233600.0,201,'',1795233600.0,1795233620.0,'web-9','cool',1795233621.0,1795233640.0,0.7,0.6,0,'namespaces=shop',1795230000.0,0.775,0.775,0.01,0.02,0.68,0.66,0.64,0.62,0.225,0.5,'EvictionByEvictionAPI');
INSERT INTO "evictions" VALUES(2,'run-1795233660',1795233660.0,'Enforce','abc123','default','web0-0','uid-web0-0','uid-web0','ReplicaSet/web0','uid-web0','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','refused',1795233660.0,201,'',1795233660.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(3,'run-1795233720',1795233720.0,'Enforce','abc123','default','web1-0','uid-web1-0','uid-web1','ReplicaSet/web1','uid-web1','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','failed',1795233720.0,201,'',1795233720.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(4,'run-1795233780',1795233780.0,'Enforce','abc123','default','web2-0','uid-web2-0','uid-web2','ReplicaSet/web2','uid-web2','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','gone',1795233780.0,201,'',1795233780.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(5,'run-1795233840',1795233840.0,'Enforce','abc123','default','web3-0','uid-web3-0','uid-web3','ReplicaSet/web3','uid-web3','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','replaced',1795233840.0,201,'',1795233840.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(6,'run-1795233900',1795233900.0,'Enforce','abc123','default','web4-0','uid-web4-0','uid-web4','ReplicaSet/web4','uid-web4','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','not_done',1795233900.0,201,'',1795233900.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(7,'run-1795233960',1795233960.0,'Enforce','abc123','default','web5-0','uid-web5-0','uid-web5','ReplicaSet/web5','uid-web5','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','unknown',1795233960.0,201,'',1795233960.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(8,'run-1795234020',1795234020.0,'Enforce','abc123','default','web6-0','uid-web6-0','uid-web6','ReplicaSet/web6','uid-web6','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','evicted_unconfirmed',1795234020.0,201,'',1795234020.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(9,'run-1795234200',1795234200.0,'DryRun','abc123','default','web-0','uid-web-0','uid-web','ReplicaSet/web','uid-web','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','dry_run',1795234200.0,201,'',1795234200.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(10,'run-1795234260',1795234260.0,'Observe','abc123','default','web-0','uid-web-0','uid-web','ReplicaSet/web','uid-web','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','observed',1795234260.0,201,'',1795234260.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
INSERT INTO "evictions" VALUES(11,'run-1795234320',1795234320.0,'Enforce','abc123','default','open-0','uid-open-0','uid-open','ReplicaSet/open','uid-open','hot','memory_avg_5m',0.9,0.8,0.6,0.9,0.775,500.0,4294967296.0,'cool','intended',1795234320.0,NULL,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'',1795230000.0,0.775,0.775,NULL,NULL,NULL,NULL,NULL,NULL,0.225,NULL,NULL);
CREATE TABLE runs (
      run TEXT PRIMARY KEY, at_seconds REAL NOT NULL, mode TEXT NOT NULL, policy_hash TEXT NOT NULL,
      evictions INTEGER NOT NULL, summary TEXT NOT NULL, nodes TEXT NOT NULL
    );
INSERT INTO "runs" VALUES('run-1795233600',1795233600.0,'Enforce','abc123',1,'1 of 1 evicted','{"hot": "1 to evict: 1 over a cap"}');
CREATE TABLE set_asides (at_seconds REAL NOT NULL, moved_to TEXT NOT NULL, cause TEXT NOT NULL);
INSERT INTO "set_asides" VALUES(1795147200.0,'ledger.sqlite.corrupt-1','malformed');
CREATE INDEX evictions_by_time ON evictions (at_seconds);
CREATE INDEX evictions_by_result ON evictions (result);
CREATE INDEX runs_by_time ON runs (at_seconds);
CREATE INDEX events_by_time ON events (at_seconds);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('evictions',11);
INSERT INTO "sqlite_sequence" VALUES('events',2);
COMMIT;
