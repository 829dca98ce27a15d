CALL m.report(0.01)
