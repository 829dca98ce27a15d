/*
  What clients share: a thread for each connection, all of which begin together, and count what they had.
*/
#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* How long they work, and how many messages all of them together may have. */
static double seconds;
static long wanted;
static long had;
static pthread_barrier_t start;

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Runs them, and prints messages and seconds. Each waits at `start` once it is connected. */
static void run_all(int connections, void *(*worker)(void *))
{
  pthread_t threads[connections];
  pthread_barrier_init(&start, NULL, connections + 1);
  for (int i = 0; i < connections; i++)
    pthread_create(&threads[i], NULL, worker, NULL);
  pthread_barrier_wait(&start);
  const double began = now();
  for (int i = 0; i < connections; i++)
    pthread_join(threads[i], NULL);
  printf("%ld %.6f\n", had, now() - began);
}
