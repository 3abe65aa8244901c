/* burner MILLICORES MEBIBYTES: uses so much CPU and memory until SIGTERM, then for GRACE seconds more. What others took
 * of the processor it uses later, up to half a second of it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t ending;

static void on_term(int number) { (void)number; ending = 1; }

static double seconds(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static double now(void) { return seconds(CLOCK_MONOTONIC); }

static double used(void) { return seconds(CLOCK_PROCESS_CPUTIME_ID); }

int main(int count, char **arguments) {
  double share = (count > 1 ? atol(arguments[1]) : 100) / 1000.0;
  size_t bytes = (size_t)(count > 2 ? atol(arguments[2]) : 10) << 20;
  double grace = getenv("GRACE") ? atof(getenv("GRACE")) : 0, signalled = 0;
  volatile char *memory = malloc(bytes ? bytes : 1);
  if (!memory) return 1;
  memset((void *)memory, 1, bytes);
  signal(SIGTERM, on_term);
  signal(SIGINT, on_term);
  double began = now() - used();
  for (;;) {
    double start = now();
    if (share * (start - began) - used() > 0.5) began = start - (used() + 0.5) / share;
    while (used() < share * (now() - began) && now() - start < 0.1)
      for (double piece = now(); now() - piece < 0.0005;);
    double rest = 0.1 - (now() - start);
    struct timespec sleep = {0, (long)(rest * 1e9)};
    if (rest > 0) nanosleep(&sleep, NULL);
    if (ending && !signalled) signalled = now();
    if (ending && now() - signalled >= grace) return 0;
  }
}
