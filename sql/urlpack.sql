-- The URL and text functions. Put liburlpack_udf.so into the folder that SELECT @@plugin_dir names, then run
-- this once, on every server by itself: a source first, or any replica first, in any order. Nothing of it
-- goes to the binary log, because a replica that lacks the library would stop there. Replicas need the
-- library, and the same models in their own folder, only if they run the functions: for reading, or with
-- binlog_format=STATEMENT. Have ROW or MIXED.
SET @urlpack_log_bin = @@SESSION.sql_log_bin;
SET SESSION sql_log_bin = 0;
DROP FUNCTION IF EXISTS url_pack;
DROP FUNCTION IF EXISTS url_unpack;
DROP FUNCTION IF EXISTS url_prefix_min;
DROP FUNCTION IF EXISTS url_prefix_max;
DROP FUNCTION IF EXISTS url_pack_info;
DROP FUNCTION IF EXISTS text_pack;
DROP FUNCTION IF EXISTS text_unpack;
DROP FUNCTION IF EXISTS text_prefix_min;
DROP FUNCTION IF EXISTS text_prefix_max;
DROP FUNCTION IF EXISTS text_pack_info;
CREATE FUNCTION url_pack RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION url_unpack RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION url_prefix_min RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION url_prefix_max RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION url_pack_info RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION text_pack RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION text_unpack RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION text_prefix_min RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION text_prefix_max RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION text_pack_info RETURNS STRING SONAME 'liburlpack_udf.so';
SET SESSION sql_log_bin = @urlpack_log_bin;
