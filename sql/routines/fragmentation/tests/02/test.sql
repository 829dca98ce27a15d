CALL m.fragmentation('rt', 1)
