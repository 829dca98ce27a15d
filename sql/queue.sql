-- ENGINE=QUEUE and its functions, for the MariaDB that ha_queue.so was built for. Put the library into the
-- folder that SELECT @@plugin_dir names, then run this once.
INSTALL PLUGIN IF NOT EXISTS QUEUE SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS QUEUE_RESET SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS QUEUES SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS QUEUE_OWNED SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS QUEUE_READERS SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS QUEUE_TIMES SONAME 'ha_queue';
CREATE FUNCTION IF NOT EXISTS queue_wait RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_wait_n RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_end RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_abort RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_rowid RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_set_srcid RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_origin RETURNS STRING SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_set_origin RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_compact RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_pause RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_resume RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_replay RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_stats RETURNS STRING SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_peek RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_resolve RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_lease RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_lease_json RETURNS STRING SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_token RETURNS STRING SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_stale RETURNS STRING SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_ack RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_extend RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_nack RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_release RETURNS INTEGER SONAME 'ha_queue.so';
CREATE FUNCTION IF NOT EXISTS queue_next_tick RETURNS STRING SONAME 'ha_queue.so';
-- Schedules: the engine puts the message `body` into the queue `target` at the times of `spec`. Whoever may
-- write this table may put messages into any queue.
CREATE TABLE IF NOT EXISTS mysql.queue_schedule (name VARCHAR(64) NOT NULL PRIMARY KEY, spec VARCHAR(255) NOT NULL, zone VARCHAR(64) NOT NULL DEFAULT 'UTC', target VARCHAR(261) NOT NULL, body LONGTEXT NOT NULL CHECK (JSON_VALID(body)), missed ENUM('skip', 'once', 'all') NOT NULL DEFAULT 'once', grace INT UNSIGNED NOT NULL DEFAULT 60 COMMENT 'seconds', enabled BOOLEAN NOT NULL DEFAULT TRUE, since DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) COMMENT 'UTC', last_tick DATETIME(6) NULL COMMENT 'UTC', next_tick DATETIME(6) NULL COMMENT 'UTC', error TEXT NULL, overlap ENUM('allow', 'skip') NOT NULL DEFAULT 'allow', last_row VARCHAR(64) NULL COMMENT 'with overlap = skip: the row of the last tick') ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE OR REPLACE PROCEDURE mysql.queue_schedule(p_name VARCHAR(64) CHARACTER SET utf8mb4, p_spec VARCHAR(255) CHARACTER SET utf8mb4, p_zone VARCHAR(64) CHARACTER SET utf8mb4, p_target VARCHAR(261) CHARACTER SET utf8mb4, p_body LONGTEXT CHARACTER SET utf8mb4) SQL SECURITY INVOKER INSERT INTO mysql.queue_schedule (name, spec, zone, target, body, next_tick) VALUES (p_name, p_spec, p_zone, p_target, p_body, queue_next_tick(p_spec, p_zone)) ON DUPLICATE KEY UPDATE spec = p_spec, zone = p_zone, target = p_target, body = p_body, since = UTC_TIMESTAMP(6), last_tick = NULL, next_tick = VALUES(next_tick), error = NULL;
