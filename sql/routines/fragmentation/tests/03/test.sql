CALL m.fragmentation('rt', 0)
