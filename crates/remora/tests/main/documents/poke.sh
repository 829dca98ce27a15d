remora sandbox stop db1
server --option skip-name-resolve=0
