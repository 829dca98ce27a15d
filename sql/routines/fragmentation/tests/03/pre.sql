CREATE TABLE rt.t (id INT PRIMARY KEY) ENGINE=InnoDB;
UPDATE mysql.innodb_table_stats SET clustered_index_size = 1000000 WHERE database_name = 'rt';
