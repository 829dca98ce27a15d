/* What the start of a server decides about prepared transactions with queues. */
#ifndef QUEUE_RECOVERY_H
#define QUEUE_RECOVERY_H

#include <string>

#include "queue_abi.h"

/* Sets what the server calls to recover prepared transactions. */
void queue_set_recovery(handlerton *hton);

/*
  At the start, once the queues are open: commits what was decided before a crash and not written. False when a
  queue can't be written: then the server must not go on, because it would forget what was decided.
*/
bool queue_recover_decided();

/*
  Decides a transaction that is in doubt, which the error log names at the start. 0, or an error that was
  logged; -4 when there is none of this name.
*/
int queue_resolve_in_doubt(const std::string &name, bool commit);

#endif
