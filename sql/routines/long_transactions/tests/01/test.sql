CALL m.long_transactions(100000)
