-- A shop that lends films: the kinds of objects that a usual application has, all leaning on each other.
CREATE TABLE digits (n INT PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
CREATE TABLE numbers (n INT PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO numbers SELECT a.n + b.n * 10 + c.n * 100 + d.n * 1000 FROM digits a, digits b, digits c, digits d;
CREATE TABLE language (id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name CHAR(20) NOT NULL,
  changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP) ENGINE=InnoDB DEFAULT CHARSET=utf8;
INSERT INTO language (name) VALUES ('English'), (_utf8 0x4672616EC3A7616973), (_utf8 0xE697A5E69CACE8AA9E), ('');
CREATE TABLE country (id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8;
INSERT INTO country (name) SELECT CONCAT('Country ', n) FROM numbers WHERE n < 100;
CREATE TABLE city (id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL, country SMALLINT UNSIGNED NOT NULL,
  KEY country (country), CONSTRAINT city_country FOREIGN KEY (country) REFERENCES country (id) ON UPDATE CASCADE) ENGINE=InnoDB DEFAULT CHARSET=utf8;
INSERT INTO city (name, country) SELECT CONCAT(_utf8 0xC389, 'ity ', n), 1 + n % 100 FROM numbers WHERE n < 600;
CREATE TABLE address (id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, street VARCHAR(50) NOT NULL, street_2 VARCHAR(50) DEFAULT NULL,
  city SMALLINT UNSIGNED NOT NULL, code VARCHAR(10) DEFAULT NULL, phone VARCHAR(20) NOT NULL, place GEOMETRY NOT NULL,
  KEY city (city), CONSTRAINT address_city FOREIGN KEY (city) REFERENCES city (id)) ENGINE=InnoDB DEFAULT CHARSET=utf8;
INSERT INTO address (street, street_2, city, code, phone, place)
  SELECT CONCAT(n, ' Main\tStreet'), IF(n % 3, NULL, ''), 1 + n % 600, LPAD(n, 5, 0), IF(n % 2, '', n * 7919), ST_GeomFromText(CONCAT('POINT(', n / 7, ' ', -n / 3, ')'))
  FROM numbers WHERE n < 700;
CREATE TABLE store (id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, manager TINYINT UNSIGNED NOT NULL, address SMALLINT UNSIGNED NOT NULL,
  UNIQUE KEY manager (manager), CONSTRAINT store_address FOREIGN KEY (address) REFERENCES address (id)) ENGINE=InnoDB;
CREATE TABLE staff (id TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(45) NOT NULL, store TINYINT UNSIGNED NOT NULL, picture BLOB,
  active BOOLEAN NOT NULL DEFAULT TRUE, word VARCHAR(40) CHARACTER SET utf8 COLLATE utf8_bin DEFAULT NULL,
  CONSTRAINT staff_store FOREIGN KEY (store) REFERENCES store (id)) ENGINE=InnoDB DEFAULT CHARSET=utf8;
ALTER TABLE store ADD CONSTRAINT store_manager FOREIGN KEY (manager) REFERENCES staff (id);
SET foreign_key_checks = 0;
INSERT INTO store VALUES (1, 1, 1), (2, 2, 2);
INSERT INTO staff (name, store, picture, word) VALUES ('Ann', 1, REPEAT(0x89504E470D0A1A0A00FF, 3000), REPEAT('0a', 20)), ('Bo', 2, NULL, NULL);
SET foreign_key_checks = 1;
CREATE TABLE film (id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, title VARCHAR(128) NOT NULL, description TEXT, released YEAR(4) DEFAULT NULL,
  language TINYINT UNSIGNED NOT NULL, original TINYINT UNSIGNED DEFAULT NULL, days TINYINT UNSIGNED NOT NULL DEFAULT 3, rate DECIMAL(4,2) NOT NULL DEFAULT 4.99,
  minutes SMALLINT UNSIGNED DEFAULT NULL, rating ENUM('G','PG','PG-13','R','NC-17') DEFAULT 'G',
  features SET('Trailers','Commentaries','Deleted Scenes','Behind the Scenes') DEFAULT NULL,
  KEY title (title), KEY language (language), KEY original (original), CONSTRAINT film_language FOREIGN KEY (language) REFERENCES language (id),
  CONSTRAINT film_original FOREIGN KEY (original) REFERENCES language (id)) ENGINE=InnoDB DEFAULT CHARSET=utf8;
INSERT INTO film (title, description, released, language, original, days, rate, minutes, rating, features)
  SELECT CONCAT('FILM ', n), REPEAT(CONCAT('A ', HEX(CRC32(n)), ' of "a", ''b''\\\n'), 1 + n % 4), 1901 + n % 200, 1 + n % 4, IF(n % 5, NULL, 1), 3 + n % 5, n % 100 / 9, 40 + n % 150,
    1 + n % 5, n % 16 FROM numbers WHERE n < 1000;
CREATE TABLE film_text (film SMALLINT NOT NULL PRIMARY KEY, title VARCHAR(255) NOT NULL, description TEXT, FULLTEXT KEY words (title, description)) ENGINE=MyISAM DEFAULT CHARSET=utf8;
CREATE TABLE actor (id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, first_name VARCHAR(45) NOT NULL, last_name VARCHAR(45) NOT NULL, KEY last_name (last_name)) ENGINE=InnoDB DEFAULT CHARSET=utf8;
INSERT INTO actor (first_name, last_name) SELECT CONCAT('F', n % 17), CONCAT('L', n % 23) FROM numbers WHERE n < 200;
CREATE TABLE film_actor (actor SMALLINT UNSIGNED NOT NULL, film SMALLINT UNSIGNED NOT NULL, PRIMARY KEY (actor, film), KEY film (film),
  CONSTRAINT fa_actor FOREIGN KEY (actor) REFERENCES actor (id) ON UPDATE CASCADE, CONSTRAINT fa_film FOREIGN KEY (film) REFERENCES film (id) ON UPDATE CASCADE) ENGINE=InnoDB;
INSERT IGNORE INTO film_actor SELECT 1 + n % 200, 1 + n * 7 % 1000 FROM numbers;
CREATE TABLE inventory (id MEDIUMINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, film SMALLINT UNSIGNED NOT NULL, store TINYINT UNSIGNED NOT NULL, KEY film (film), KEY store_film (store, film),
  CONSTRAINT inventory_film FOREIGN KEY (film) REFERENCES film (id), CONSTRAINT inventory_store FOREIGN KEY (store) REFERENCES store (id)) ENGINE=InnoDB;
INSERT INTO inventory (film, store) SELECT 1 + n % 1000, 1 + n % 2 FROM numbers WHERE n < 4000;
CREATE TABLE customer (id SMALLINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(90) NOT NULL, email VARCHAR(50) DEFAULT NULL, address SMALLINT UNSIGNED NOT NULL,
  since DATETIME NOT NULL, KEY name (name(10)), CONSTRAINT customer_address FOREIGN KEY (address) REFERENCES address (id)) ENGINE=InnoDB DEFAULT CHARSET=utf8;
INSERT INTO customer (name, email, address, since) SELECT CONCAT('Name ', n), IF(n % 4, CONCAT(n, '@example.com'), NULL), 1 + n % 700, '2006-02-14 22:04:36' + INTERVAL n HOUR FROM numbers WHERE n < 600;
CREATE TABLE rental (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, day DATETIME NOT NULL, inventory MEDIUMINT UNSIGNED NOT NULL, customer SMALLINT UNSIGNED NOT NULL, back DATETIME DEFAULT NULL,
  UNIQUE KEY day (day, inventory, customer), KEY inventory (inventory), KEY customer (customer), CONSTRAINT rental_inventory FOREIGN KEY (inventory) REFERENCES inventory (id),
  CONSTRAINT rental_customer FOREIGN KEY (customer) REFERENCES customer (id)) ENGINE=InnoDB;
INSERT INTO rental (day, inventory, customer, back) SELECT '2005-05-24 22:53:30' + INTERVAL n * 31 MINUTE, 1 + n % 4000, 1 + n % 600, IF(n % 9, '2005-06-24' + INTERVAL n * 37 MINUTE, NULL) FROM numbers;
CREATE TABLE payment (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, rental INT DEFAULT NULL, amount DECIMAL(5,2) NOT NULL, at TIMESTAMP NULL DEFAULT NULL, note VARCHAR(20) CHARACTER SET latin1,
  CONSTRAINT payment_rental FOREIGN KEY (rental) REFERENCES rental (id) ON DELETE SET NULL ON UPDATE CASCADE) ENGINE=InnoDB;
INSERT INTO payment (rental, amount, at, note) SELECT IF(n % 50, 1 + n, NULL), n % 1200 / 100, '2005-10-30 00:00:00' + INTERVAL n MINUTE, IF(n % 100, '', CHAR(n % 256 USING latin1)) FROM numbers;
INSERT INTO film_text SELECT id, title, description FROM film;
CREATE VIEW customer_list AS SELECT c.id AS id, c.name AS name, a.street AS street, y.name AS city, o.name AS country FROM customer c JOIN address a ON c.address = a.id
  JOIN city y ON a.city = y.id JOIN country o ON y.country = o.id;
CREATE VIEW sales AS SELECT s.id AS store, SUM(p.amount) AS total FROM payment p JOIN rental r ON p.rental = r.id JOIN inventory i ON r.inventory = i.id JOIN store s ON i.store = s.id GROUP BY s.id;
CREATE DEFINER=CURRENT_USER SQL SECURITY INVOKER VIEW best_sales AS SELECT store, total FROM sales WHERE total > 10;
DELIMITER ;;
CREATE TRIGGER ins_film AFTER INSERT ON film FOR EACH ROW BEGIN INSERT INTO film_text VALUES (NEW.id, NEW.title, NEW.description); END;;
CREATE TRIGGER upd_film AFTER UPDATE ON film FOR EACH ROW BEGIN IF OLD.title != NEW.title THEN UPDATE film_text SET title = NEW.title WHERE film = OLD.id; END IF; END;;
CREATE TRIGGER del_film AFTER DELETE ON film FOR EACH ROW BEGIN DELETE FROM film_text WHERE film = OLD.id; END;;
CREATE TRIGGER rental_day BEFORE INSERT ON rental FOR EACH ROW SET NEW.day = NOW();;
CREATE FUNCTION in_stock(p_inventory INT) RETURNS BOOLEAN READS SQL DATA BEGIN DECLARE v INT; SELECT COUNT(*) INTO v FROM rental WHERE inventory = p_inventory AND back IS NULL; RETURN v = 0; END;;
CREATE PROCEDURE film_in_stock(IN p_film INT, IN p_store INT, OUT p_count INT) READS SQL DATA COMMENT 'how many; "quoted"'
  BEGIN SELECT COUNT(*) INTO p_count FROM inventory WHERE film = p_film AND store = p_store AND in_stock(id); END;;
DELIMITER ;
