CALL m.sizes('r_', NULL)
