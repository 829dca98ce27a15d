-- Views that do not work any more are named; those through functions, and of names that differ in case only,
-- come back.
CREATE TABLE base (id INT PRIMARY KEY, Mixed INT);
INSERT INTO base VALUES (1, 2);
CREATE TABLE gone (id INT PRIMARY KEY);
CREATE VIEW broken AS SELECT id FROM gone;
CREATE VIEW Base AS SELECT id, Mixed + 1 FROM base;
DROP TABLE gone;
CREATE VIEW through AS SELECT id FROM Base;
DELIMITER //
CREATE FUNCTION total() RETURNS INT READS SQL DATA RETURN (SELECT SUM(id) FROM through)//
CREATE ALGORITHM=MERGE VIEW a_sum AS SELECT total() AS t, id FROM base//
CREATE ALGORITHM=TEMPTABLE VIEW a_table AS SELECT id AS `very long name of a column, as many letters as a name may havexx` FROM base//
DELIMITER ;
