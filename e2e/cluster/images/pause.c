/* The first process of a pod's sandbox: holds its namespaces, reaps what is given to it, and ends when asked to. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) {
  (void)signal;
  _exit(0);
}

static void reap(int signal) {
  (void)signal;
  while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

int main(void) {
  struct sigaction ending = {.sa_handler = end};
  struct sigaction reaping = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  if (sigaction(SIGINT, &ending, NULL) || sigaction(SIGTERM, &ending, NULL) || sigaction(SIGCHLD, &reaping, NULL)) return 1;
  for (;;) pause();
}
