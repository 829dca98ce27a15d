CALL m.blockers()
