/* Errors of the core as errors of a handler. */
#ifndef QUEUE_ERROR_H
#define QUEUE_ERROR_H

#include "queue_abi.h"

/* The handler's error for what the core returned; 0 for RQ_OK. Raises the core's message where the server has
   none. */
int queue_handler_error(int code, const rq_error &error);

#endif
