-- Names that break file names, quoting and comments.
CREATE TABLE `a b` (`c``d` INT PRIMARY KEY, `e.f` INT, `select` INT, `%` INT, `-- x` INT);
INSERT INTO `a b` VALUES (1, 2, 3, 4, 5);
CREATE TABLE `../../etc/passwd` (id INT PRIMARY KEY);
INSERT INTO `../../etc/passwd` VALUES (1);
CREATE TABLE `x.y` (id INT PRIMARY KEY);
CREATE TABLE `q?*%` (id INT PRIMARY KEY);
INSERT INTO `q?*%` VALUES (7);
CREATE TABLE `line
break` (`tab	col` INT PRIMARY KEY);
INSERT INTO `line
break` VALUES (1);
CREATE TABLE `'quote"` (id INT PRIMARY KEY COMMENT '*/ DROP TABLE x; /*');
CREATE TABLE `back``tick` (id INT PRIMARY KEY, v INT, KEY `k``ey` (v));
INSERT INTO `back``tick` VALUES (1, 2);
CREATE TABLE Upper (id INT PRIMARY KEY);
CREATE TABLE upper (id INT PRIMARY KEY);
INSERT INTO upper VALUES (3);
CREATE TABLE `abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz.abcdefghij` (id INT PRIMARY KEY);
CREATE VIEW `v``iew` AS SELECT `c``d` AS `x``y`, `e.f` FROM `a b`;
