CALL m.report(0)
