CREATE TABLE rt.`odd name$` (id INT PRIMARY KEY) ENGINE=InnoDB;
ANALYZE TABLE rt.`odd name$`;
