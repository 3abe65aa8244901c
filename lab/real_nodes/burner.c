/* burner MILLICORES MEBIBYTES: uses so much CPU and memory until SIGTERM, then for GRACE seconds more. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t ending;

static void on_term(int number) { (void)number; ending = 1; }

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
  double share = (count > 1 ? atol(arguments[1]) : 100) / 1000.0;
  size_t bytes = (size_t)(count > 2 ? atol(arguments[2]) : 10) << 20;
  double grace = getenv("GRACE") ? atof(getenv("GRACE")) : 0, signalled = 0;
  volatile char *memory = malloc(bytes ? bytes : 1);
  if (!memory) return 1;
  memset((void *)memory, 1, bytes);
  signal(SIGTERM, on_term);
  signal(SIGINT, on_term);
  for (;;) {
    double start = now();
    while (now() - start < share * 0.1);
    double rest = 0.1 - (now() - start);
    struct timespec sleep = {0, (long)(rest * 1e9)};
    if (rest > 0) nanosleep(&sleep, NULL);
    if (ending && !signalled) signalled = now();
    if (ending && now() - signalled >= grace) return 0;
  }
}
