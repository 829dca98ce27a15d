remora sandbox stop db1
remora sandbox start db1 --option skip-name-resolve=0
