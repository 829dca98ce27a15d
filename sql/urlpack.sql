-- The URL functions. Put liburlpack_udf.so into the folder that SELECT @@plugin_dir names, then run this once.
DROP FUNCTION IF EXISTS url_pack;
DROP FUNCTION IF EXISTS url_unpack;
DROP FUNCTION IF EXISTS url_prefix_min;
DROP FUNCTION IF EXISTS url_prefix_max;
DROP FUNCTION IF EXISTS url_pack_info;
CREATE FUNCTION url_pack RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION url_unpack RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION url_prefix_min RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION url_prefix_max RETURNS STRING SONAME 'liburlpack_udf.so';
CREATE FUNCTION url_pack_info RETURNS STRING SONAME 'liburlpack_udf.so';
