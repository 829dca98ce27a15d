SET NAMES utf8mb4;
SET time_zone = '+00:00', foreign_key_checks = 0, unique_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';
CREATE DATABASE IF NOT EXISTS `old` /*!40100 DEFAULT CHARACTER SET latin1 COLLATE latin1_swedish_ci */;
USE `old`;
CREATE TABLE `kinds` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `e` enum('','a') DEFAULT NULL,
  `s` set('a','b') DEFAULT NULL,
  `f` float DEFAULT NULL,
  `f2` float(10,2) DEFAULT NULL,
  `d` double DEFAULT NULL,
  `y` year(2) DEFAULT NULL,
  `b` bit(9) DEFAULT NULL,
  `t` varchar(20) DEFAULT NULL,
  `v` double GENERATED ALWAYS AS (`d` * 2) VIRTUAL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=43 DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
USE `old`;
CREATE TABLE `parts` (
  `id` int(11) NOT NULL,
  `v` varchar(10) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci
 PARTITION BY RANGE (`id`)
(PARTITION `p0` VALUES LESS THAN (10) ENGINE = InnoDB,
 PARTITION `p1` VALUES LESS THAN MAXVALUE ENGINE = InnoDB);
