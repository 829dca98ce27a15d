CALL m.counters_near_end('rt', 50)
