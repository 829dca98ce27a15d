CALL m.no_primary_key('rt')
