CREATE TABLE rt.q (a INT, b INT, c VARCHAR(30), d INT, PRIMARY KEY (a), KEY a_b (a, b), UNIQUE u (b, c), KEY b (b), KEY bc (b, c), UNIQUE u2 (b, c), KEY c5 (c(5)), KEY c (c), KEY bd (b, d), KEY abc (a, b, c(3)));
CREATE TABLE rt.`q``2` (`x``y` INT, z INT, KEY k1 (`x``y`), KEY k2 (`x``y`, z), UNIQUE k3 (`x``y`));
CREATE TABLE rt.ft (x VARCHAR(20), KEY b (x), FULLTEXT f (x)) ENGINE=MyISAM;
