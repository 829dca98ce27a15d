-- What this server replicates, and how far it is: CALL m.replication().
-- Servers: all
CREATE PROCEDURE replication()
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: state of replication'
BEGIN
  IF VERSION() LIKE '%MariaDB%' THEN
    /*M! SHOW ALL SLAVES STATUS; */
    DO 0;
  ELSE
    SHOW SLAVE STATUS;
  END IF;
END
