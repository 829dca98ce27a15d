-- Indexes of every kind, built after the rows where that is worth it.
CREATE TABLE ix (id INT NOT NULL AUTO_INCREMENT, a INT, b VARCHAR(200), c TEXT, g POINT NOT NULL, u INT, n INT NOT NULL, PRIMARY KEY (id), UNIQUE KEY u (u),
  KEY `b``x` (b(10), a), KEY a (a) COMMENT 'with, comma', KEY au (id, a)) ENGINE=MyISAM;
INSERT INTO ix VALUES (1, 1, 'x', 'some words', ST_GeomFromText('POINT(1 1)'), NULL, 1), (2, 2, 'y', 'other words', ST_GeomFromText('POINT(2 2)'), NULL, 2);
ALTER TABLE ix ADD FULLTEXT KEY ft (c), ADD SPATIAL KEY sp (g);
CREATE TABLE inno (id INT NOT NULL AUTO_INCREMENT, a INT, b VARCHAR(200), c TEXT, PRIMARY KEY (id), KEY a (a), KEY b (b), FULLTEXT KEY c (c)) ENGINE=InnoDB;
INSERT INTO inno VALUES (1, 1, 'x', 'some words'), (5, 2, 'y', 'other words');
CREATE TABLE second_counter (g INT NOT NULL, n INT NOT NULL AUTO_INCREMENT, PRIMARY KEY (g, n)) ENGINE=MyISAM;
INSERT INTO second_counter (g) VALUES (1), (1), (2);
