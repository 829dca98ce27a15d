-- The value of a status counter: SELECT m.gstatus('questions').
-- Servers: all
CREATE FUNCTION gstatus(name VARCHAR(64) CHARACTER SET utf8) RETURNS VARCHAR(4096) CHARACTER SET utf8
READS SQL DATA
SQL SECURITY INVOKER
COMMENT 'remora routine 1: value of a status counter'
RETURN (SELECT s.variable_value FROM information_schema.global_status s
    WHERE s.variable_name = (name COLLATE utf8_general_ci) LIMIT 1)
