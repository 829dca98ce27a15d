CALL m.report(NULL)
