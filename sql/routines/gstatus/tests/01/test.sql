SELECT m.gstatus('max_used_connections') > 0, m.gstatus('MAX_USED_CONNECTIONS') > 0, m.gstatus('no_such_counter')
