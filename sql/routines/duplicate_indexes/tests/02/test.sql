CALL m.duplicate_indexes('rt')
