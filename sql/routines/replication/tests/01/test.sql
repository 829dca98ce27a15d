CALL m.replication()
