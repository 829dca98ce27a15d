-- ENGINE=QUEUE and its functions, for the MariaDB that ha_queue.so was built for. Put the library into the folder that
-- SELECT @@plugin_dir names, then run this once.
INSTALL PLUGIN IF NOT EXISTS QUEUE SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS queue_wait SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS queue_wait_n SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS queue_end SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS queue_abort SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS queue_rowid SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS queue_set_srcid SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS queue_compact SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS queue_stats SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS QUEUES SONAME 'ha_queue';
INSTALL PLUGIN IF NOT EXISTS QUEUE_OWNED SONAME 'ha_queue';
