/*
  What every file needs of the server, first. Most of the time of a compilation goes into these headers, so the
  build compiles this one once, in advance.
*/
#ifndef QUEUE_SERVER_H
#define QUEUE_SERVER_H

#define MYSQL_SERVER 1

#include <my_global.h>

#include "sql_class.h"
#include "table.h"
#include "field.h"
#include "handler.h"

#endif
