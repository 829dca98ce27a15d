CALL m.sizes('rt', 1)
