CALL m.unused_indexes('rt')
