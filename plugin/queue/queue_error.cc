/* Errors of the core as errors of a handler. See queue_error.h. */
#include "queue_server.h"

#include "queue_error.h"

int queue_handler_error(int code, const rq_error &error)
{
  switch (code) {
  case RQ_OK:
    return 0;
  case RQ_MISSING:
    return HA_ERR_NO_SUCH_TABLE;
  case RQ_EXISTS:
    return HA_ERR_TABLE_EXIST;
  case RQ_CORRUPT:
    my_printf_error(ER_NOT_KEYFILE, "%s", MYF(0), error.text);
    return HA_ERR_CRASHED;
  default:
    my_printf_error(ER_GET_ERRMSG, "Queue: %s", MYF(0), error.text);
    return HA_ERR_INTERNAL_ERROR;
  }
}
