DELIMITER ;;;;
SET NAMES utf8mb4;;;;
USE `old`;;;;
SET character_set_client = 'utf8mb3';;;;
SET collation_connection = 'utf8mb3_general_ci';;;;
CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `old`.`w` AS select `old`.`kinds`.`id` AS `id` from `old`.`kinds`;;;;
